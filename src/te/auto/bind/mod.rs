//! Binds the tensors and sizes of a run, and finds the iteration space that they give.

pub(in crate::te::auto) mod arguments;
pub(in crate::te::auto) mod iteration_space;
