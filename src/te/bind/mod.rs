//! Arguments of a run: the tensor for each parameter, and whether shapes and sizes agree.

pub(crate) mod arguments;
pub(crate) mod binding;
