//! The family of kernels for sm_90a: TMA loads operands, `wgmma` multiplies them.

pub(crate) mod emit;
pub(crate) mod kernel;
pub(crate) mod model;
