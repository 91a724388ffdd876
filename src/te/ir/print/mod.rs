//! Printers of programs, in TVM's text formats.

mod primfn;
pub(crate) mod script;
