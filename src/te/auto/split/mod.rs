//! What no one kernel does, as several: by passes, by shapes, by steps.

pub(in crate::te::auto) mod by_pass;
pub(in crate::te::auto) mod by_shape;
pub(in crate::te::auto) mod by_step;
