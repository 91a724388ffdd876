//! Kernels as data, for both families: tiles, instructions, the key that a kernel is generated from, its parameter, and
//! how K is shared among blocks.
//!
//! Plain data and arithmetic over it: nothing here chooses, emits or runs a kernel.

pub(crate) mod digits;
pub(crate) mod finish;
pub(crate) mod key;
pub(crate) mod later;
pub(crate) mod launch;
pub(crate) mod parameters;
pub(crate) mod settings;
pub(crate) mod split_k;
pub(crate) mod stream;
pub(crate) mod views;

pub use finish::{Finish, Within};
pub use key::KernelKey;
pub(crate) use settings::{Settings, Switches};
pub use split_k::{SplitK, SplitKind};
pub(crate) use views::ArgumentViews;
