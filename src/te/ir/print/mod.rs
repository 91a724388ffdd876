//! Programs as TVM prints them.

mod primfn;
pub(crate) mod script;
