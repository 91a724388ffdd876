//! Kernels on a device, whichever it is, and rows of them.
//!
//! `scan`, `several` and `steps` name each other by nature: a scan that runs step by step runs rows of kernels, and rows of
//! kernels may hold scans.

pub(in crate::te::auto) mod cell;
pub(in crate::te::auto) mod one;
pub(in crate::te::auto) mod reduce;
pub(in crate::te::auto) mod scan;
pub(in crate::te::auto) mod several;
pub(in crate::te::auto) mod steps;
