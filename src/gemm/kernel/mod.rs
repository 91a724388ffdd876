//! Kernels as data, as far as it is the same for every family: the parameter, how K is shared among blocks, how operands are
//! loaded. Keys, tiles and instructions are in the families' folders.
//!
//! Plain data and arithmetic over it: nothing here chooses, emits or runs a kernel.

pub(crate) mod device_struct;
pub(crate) mod filler;
pub(crate) mod finish;
pub(crate) mod formula;
pub(crate) mod later;
pub(crate) mod launch;
pub(crate) mod loading;
pub(crate) mod parameter_bytes;
pub(crate) mod parameters;
pub(crate) mod settings;
pub(crate) mod shape;
pub(crate) mod split_k;
pub(crate) mod stream;
pub(crate) mod structs;
pub(crate) mod tiles;
pub(crate) mod views;

pub use finish::{Finish, Within};
pub(crate) use settings::{Settings, Switches};
pub use shape::{PatchKind, PatchShape, ReadingShape};
pub use split_k::{SplitK, SplitKind};
pub(crate) use views::ArgumentViews;
