//! Splits a computation that one kernel cannot do into several kernels: by passes, by shapes, or by steps.

pub(in crate::te::auto) mod by_pass;
pub(in crate::te::auto) mod by_shape;
mod by_step;
pub(in crate::te::auto) mod cell;
pub(in crate::te::auto) mod rewriting;
pub(in crate::te::auto) mod sequence;
mod slicing;
