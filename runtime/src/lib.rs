//! Devices, buffers, kernel compilation and launch.
//!
//! This crate runs kernels. It must never know what a GEMM or a visitor tree is.

mod arch;
mod buffer;
mod compile_log;
mod device;
mod element;
mod error;
mod host;
mod host_access;
mod layout;
mod overlap;
mod stream;
mod tensor;

pub use arch::{Arch, ParseArchError};
pub use compile_log::{CompileLog, Diagnostic, Resources, Severity};
pub use device::{Device, DeviceKind, Properties};
pub use element::{Element, ElementType};
pub use error::{Absent, CompileFailure, Error, LayoutError, Result};
pub use host_access::HostAccess;
pub use stream::{Event, Stream};
pub use tensor::DeviceTensor;
