//! The functions that a user calls to make expressions and tensors. They check everything.

pub(crate) mod compute;
pub(crate) mod extents;
pub(crate) mod functions;
mod operators;
pub(crate) mod reducer;
pub(crate) mod scan;
mod values;
