//! Analyses a computation: which reads, passes, column reductions and linear maps it consists of. Nothing here depends
//! on a device.

pub(in crate::te::auto) mod by_data;
pub(in crate::te::auto) mod columns;
pub(in crate::te::auto) mod fused;
pub(in crate::te::auto) mod linear_map;
pub(in crate::te::auto) mod linearity;
pub(in crate::te::auto) mod passes;
pub(in crate::te::auto) mod reads;
pub(in crate::te::auto) mod recurrence;
pub(in crate::te::auto) mod scan;
