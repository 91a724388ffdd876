//! The families of kernels whose operands TMA loads: for sm_90a, where `wgmma` multiplies them, and for sm_100a, where `tcgen05`
//! does.
//!
//! Both have the same roles of warps, schedules, clusters and epilogues, and one key. [`TensorCores`](kernel::TensorCores) of the
//! key answers where they differ: where the sums are, which tiles there are, what is refused. On sm_100a the fourth warp of
//! the producer multiplies, and consumers load their sums from tensor memory (`src/device/sm100/products.cuh`).

mod door;
pub(crate) mod emit;
pub(crate) mod kernel;
pub(crate) mod model;
pub(crate) mod run;

pub(crate) use door::{SM_90, SM_100};
