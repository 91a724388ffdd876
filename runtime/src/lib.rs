//! Devices, buffers, kernel compilation and launch.
//!
//! This crate runs kernels. It must never know what a GEMM or a visitor tree is.

mod arch;
mod buffer;
mod cache;
mod compile_log;
mod compiler;
mod cuda;
mod device;
mod discovery;
mod element;
mod error;
mod host;
mod host_access;
mod kernel;
mod layout;
mod nvrtc;
mod overlap;
mod ptx_signature;
mod source;
mod stream;
mod tensor;
pub mod testing;

pub use arch::{Arch, ParseArchError};
pub use cache::{CacheKey, KernelCache};
pub use compile_log::{CompileLog, Diagnostic, Resources, Severity};
pub use compiler::Compiler;
pub use device::{Device, DeviceKind, Properties};
pub use element::{Element, ElementType};
pub use error::{Absent, CompileFailure, Error, LayoutError, Result};
pub use host_access::HostAccess;
pub use kernel::{Kernel, KernelArgument, Launch};
pub use source::{Compiled, Output, Source};
pub use stream::{Event, Stream};
pub use tensor::DeviceTensor;
