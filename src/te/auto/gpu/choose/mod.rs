//! Chooses the kernel of a run by its shapes.

pub(in crate::te::auto) mod cell;
pub(in crate::te::auto) mod reduce;
pub(in crate::te::auto) mod scan;
