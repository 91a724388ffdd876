//! The parts of a run: checks of its arguments, images as matrices, bounds and indices that the host reads; for GPUs also
//! kernels, copies of operands, and launches. The devices' rooms put them together.

pub(crate) mod by_name;
pub(crate) mod check;
pub(crate) mod fill;
pub(crate) mod groups;
pub(crate) mod images;
pub(crate) mod kernel_run;
pub(crate) mod later;
pub(crate) mod launch;
pub(crate) mod merged;
pub(crate) mod numbers;
pub(crate) mod patches;
pub(crate) mod picked;
pub(crate) mod repack;
pub(crate) mod scales;
pub(crate) mod scattered;
pub(crate) mod sought;
pub(crate) mod variant;
pub(crate) mod workspace;
