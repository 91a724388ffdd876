//! Kernels on a device, whichever it is, and rows of them.

pub(in crate::te::auto) mod one;
pub(in crate::te::auto) mod reduce;
pub(in crate::te::auto) mod scan;
pub(in crate::te::auto) mod several;
pub(in crate::te::auto) mod steps;
