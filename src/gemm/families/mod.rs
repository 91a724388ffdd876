//! The families of kernels, a folder each.

pub(crate) mod sm80;
pub(crate) mod sm90;
