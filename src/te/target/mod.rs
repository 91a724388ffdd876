//! The targets that run a program: the interpreter, native code for this CPU, and kernels for a GPU.

pub(crate) mod arguments;
pub(crate) mod binding;
mod bounds;
pub(crate) mod cuda;
pub(crate) mod interpret;
pub(crate) mod kernel;
#[cfg(feature = "native")]
pub mod native;
