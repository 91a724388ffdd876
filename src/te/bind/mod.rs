//! Arguments of a run: which tensor is which parameter, and whether shapes and sizes agree.

pub(crate) mod arguments;
pub(crate) mod binding;
