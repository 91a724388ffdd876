//! The family of kernels for sm_90a: TMA loads operands, `wgmma` multiplies them.

mod door;
pub(crate) mod emit;
pub(crate) mod kernel;
pub(crate) mod model;
pub(crate) mod run;

pub(crate) use door::{SM_90, SM_100};
