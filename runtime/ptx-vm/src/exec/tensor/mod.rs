//! Products of a warp (`mma`) and of a warpgroup (`wgmma`), and the matrices they take from shared memory.

pub(crate) mod matrix;
pub(crate) mod wgmma;
