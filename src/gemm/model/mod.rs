//! The choice of a kernel, and its predicted time: the analytic model, as far as it is the same for every family.
//!
//! It only computes: nothing here touches a device, emits a kernel or compiles one.

pub(crate) mod candidate;
pub(crate) mod choice;
pub(crate) mod constants;
pub(crate) mod later;
pub(crate) mod machine;
pub(crate) mod misfit;
pub(crate) mod needed;
pub(crate) mod offer;
pub(crate) mod parameter;
mod priced;
pub(crate) mod repacking;
pub(crate) mod select;
pub(crate) mod selection;

pub use candidate::{Bound, Candidate};
pub use constants::LaunchConstants;
pub(crate) use later::Later;
pub use machine::Machine;
pub use misfit::Misfit;
pub use offer::Offer;
pub use parameter::Parameter;
pub use repacking::{Repacking, Unreachable};
