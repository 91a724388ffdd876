//! Splits a computation that one kernel cannot do into several kernels: by passes, by shapes, or by steps.
//!
//! `by_shape` and `by_step` import each other: a scan that runs step by step consists of several kernels, and several
//! kernels may include scans.

pub(in crate::te::auto) mod by_pass;
pub(in crate::te::auto) mod by_shape;
pub(in crate::te::auto) mod by_step;
pub(in crate::te::auto) mod cell;
mod rewriting;
mod slicing;
