//! The candidates among the kernels for sm_90a, and how long each takes.

pub(crate) mod asked;
pub(crate) mod candidates;
pub(crate) mod constants;
pub(crate) mod cost;
pub(crate) mod workload;

pub(crate) use candidates::is_not_divided;
pub use candidates::{candidates, has_room, rank};
pub use cost::estimate;
pub use workload::Workload;
