//! CUDA C++ of lowered programs.

pub(crate) mod expr;
