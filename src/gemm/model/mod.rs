//! The choice of a kernel, and its predicted time: the analytic model of both families.
//!
//! It only computes: nothing here touches a device, emits a kernel or compiles one.

pub(crate) mod candidate;
pub(crate) mod choice;
pub(crate) mod constants;
pub(crate) mod later;
pub(crate) mod machine;
pub(crate) mod needed;
pub(crate) mod parameter;
pub(crate) mod repacking;
pub(crate) mod select;

pub use crate::gemm::families::sm80::model::{Misfit, Workload, estimate, is_crowded, rank};
pub use candidate::{Bound, Candidate};
pub use choice::Choice;
pub use constants::{Constants, LaunchConstants, Sm80Constants, Sm90Constants};
pub(crate) use later::Later;
pub use machine::Machine;
pub use parameter::Parameter;
pub use repacking::{Repacking, Unreachable};
