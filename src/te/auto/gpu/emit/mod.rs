//! Writes CUDA C++ of automatic kernels, for the templates in `src/device/te`.

pub(in crate::te::auto) mod cell;
pub(in crate::te::auto) mod context;
pub(in crate::te::auto) mod element;
pub(in crate::te::auto) mod field;
pub(in crate::te::auto) mod frame;
pub(in crate::te::auto) mod linear_map;
pub(in crate::te::auto) mod loops;
pub(in crate::te::auto) mod reduce;
pub(in crate::te::auto) mod scan;
