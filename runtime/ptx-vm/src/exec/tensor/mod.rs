//! Matrix products of a warp (`mma`), of a warpgroup (`wgmma`) and into tensor memory (`tcgen05`), and their matrices in
//! shared memory.

pub(crate) mod matrix;
mod ranges;
pub(crate) mod tcgen05;
pub(crate) mod wgmma;
