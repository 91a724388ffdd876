//! Which kernel runs, by the shapes of a run.

pub(in crate::te::auto) mod cell;
pub(in crate::te::auto) mod reduce;
pub(in crate::te::auto) mod scan;
