//! A run's tensors and sizes, and the space of points that they make.

pub(in crate::te::auto) mod arguments;
pub(in crate::te::auto) mod iteration_space;
