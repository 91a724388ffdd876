//! Printers of programs, in TVM's text formats.

mod accesses;
mod primfn;
pub(crate) mod script;
