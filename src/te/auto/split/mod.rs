//! What no one kernel does, as several: by passes, by shapes, by steps.
//!
//! `by_shape` and `by_step` name each other by nature: a scan that runs step by step is rows of kernels, and rows of kernels
//! may hold scans.

pub(in crate::te::auto) mod by_pass;
pub(in crate::te::auto) mod by_shape;
pub(in crate::te::auto) mod by_step;
pub(in crate::te::auto) mod cell;
mod rewriting;
mod slicing;
