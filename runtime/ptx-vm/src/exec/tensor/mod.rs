//! Matrix products of a warp (`mma`) and of a warpgroup (`wgmma`), and their matrices in shared memory.

pub(crate) mod matrix;
pub(crate) mod wgmma;
