//! Products of a warp (`mma`) and of a warpgroup (`wgmma`), and the matrices they take from shared memory.

pub(in crate::exec) mod in_flight;
pub(crate) mod matrix;
pub(crate) mod wgmma;
pub(in crate::exec) mod wgmma_fence;
