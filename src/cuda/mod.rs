//! CUDA C++ as text: how it is laid out, and the types of registers.
//!
//! All that is generated is written through [`Writer`]: kernels of GEMMs, scheduled programs, automatic kernels and the
//! functions that they call. The text of scalar expressions is [`expr::cuda`](crate::expr::cuda)'s, that of tensor
//! expressions `te::cuda`'s, and names that are free are [`FreeNames`](crate::expr::identifier)'s.

mod register;
mod writer;

pub(crate) use register::Register;
pub(crate) use writer::{Writer, one_line};
