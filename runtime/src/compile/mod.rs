//! Source text becomes a kernel: NVRTC is found and called, its results are kept on disk or come in a bundle.
//!
//! Nothing here has a device, but for the parts of [`bundle`] that install and record kernels.

pub(crate) mod arch;
pub mod bundle;
pub(crate) mod cache;
pub(crate) mod compile_log;
pub(crate) mod compiler;
pub(crate) mod discovery;
pub(crate) mod failure;
pub(crate) mod limits;
pub(crate) mod nvrtc;
pub(crate) mod ptx_signature;
pub(crate) mod source;
pub(crate) mod stored;
pub(crate) mod trust;
