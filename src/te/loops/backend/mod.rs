//! Backends, which run a program: the interpreter, native code for this CPU, and kernels for a GPU.

mod bounds;
pub(crate) mod cuda;
pub(crate) mod interpret;
pub(crate) mod kernel;
#[cfg(feature = "native")]
pub mod native;
