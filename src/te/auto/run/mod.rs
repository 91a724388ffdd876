//! Runs kernels on a device (GPU or CPU), alone or several in a row.
//!
//! `scan`, `several` and `steps` import each other: a scan that runs step by step runs several kernels in a row, and
//! these may include scans.

pub(in crate::te::auto) mod cell;
pub(in crate::te::auto) mod one;
pub(in crate::te::auto) mod reduce;
pub(in crate::te::auto) mod scan;
pub(in crate::te::auto) mod several;
pub(in crate::te::auto) mod steps;
