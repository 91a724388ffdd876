//! The family of kernels for sm_80 and later, which takes operands in any layout.

mod door;
pub(crate) mod emit;
pub(crate) mod kernel;
pub(crate) mod model;
pub(crate) mod run;

pub(crate) use door::Sm80;
