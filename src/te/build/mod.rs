//! What a user calls to make expressions and tensors; every mistake is found here.

pub(crate) mod compute;
pub(crate) mod extents;
mod operators;
pub(crate) mod reducer;
pub(crate) mod scan;
