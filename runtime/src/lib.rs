//! Devices, the tensors that lie on them, and kernels: compiled at run time, kept on disk, launched in order.
//!
//! What `epilogue` runs on; it can be used alone, for kernels of one's own.
//!
//! ```
//! use epilogue_runtime::{Device, Error};
//!
//! let device = Device::cpu(); // or `Device::best()?`: the GPU, where there is one
//! let matrix = device.tensor(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
//! let mut last_column = matrix.slice(1, 2..3)?; // a view: no copy
//! last_column.copy_from(&[30.0f32, 60.0])?;
//! assert_eq!(matrix.transpose()?.to_vec::<f32>()?, [1.0, 4.0, 2.0, 5.0, 30.0, 60.0]);
//! # Ok::<(), Error>(())
//! ```
//!
//! A kernel is compiled for the device it will run on ([`Device::compile`]) or for none ([`Compiler::compile`]), and
//! found in the disk cache ([`KernelCache`]) the next time, with or without a compiler; or it was compiled ahead of time
//! ([`bundle`]). An emulated device ([`Device::emulated`]) compiles the same
//! source to PTX and executes that.
//!
//! # Order
//! Everything on a [`Stream`] happens in order. Work on different streams is ordered where it uses one tensor and
//! writes it; reading back waits for what it reads; a tensor's memory is freed after its last use, whatever stream that
//! was on. For this a launch names the tensors that it uses ([`KernelArgument`]).
//!
//! # Environment
//! | variable | meaning |
//! |---|---|
//! | `EPILOGUE_NVRTC` | the NVRTC library, or a folder that holds one; no other place is searched then |
//! | `EPILOGUE_TOOLS` | a folder with NVIDIA's tools, as `cargo xtask tools` fills one; in this workspace Cargo sets it to `.tools` |
//! | `EPILOGUE_CACHE` | the folder of compiled kernels, or `off` |
//! | `EPILOGUE_REQUIRE_NVRTC` | tests fail where NVRTC is missing, instead of saying that they were skipped |

mod arch;
mod buffer;
pub mod bundle;
mod cache;
mod compile_log;
mod compiler;
mod copy;
mod create;
mod cuda;
mod device;
mod discovery;
mod element;
#[cfg(feature = "emulated")]
mod emulated;
#[cfg(not(feature = "emulated"))]
#[path = "no_emulator.rs"]
mod emulated;
mod error;
mod exchange;
mod exchange_error;
mod failure;
mod float8;
mod graph;
mod host;
mod host_access;
mod host_memory;
mod kernel;
mod launch;
mod layout;
mod load;
mod loaded;
mod nvrtc;
mod overlap;
mod progress;
mod properties;
mod ptx_signature;
mod recording;
mod source;
mod status;
mod stored;
mod stream;
mod strided;
mod tensor;
mod tensor_map;
pub mod testing;
#[doc(hidden)]
pub mod trace;
mod trust;

pub use arch::{Arch, ParseArchError};
pub use cache::{CacheKey, KernelCache};
pub use compile_log::{CompileLog, Diagnostic, Resources, Severity};
pub use compiler::Compiler;
pub use device::{Device, DeviceKind};
pub use element::{Element, ElementType, PlainElement};
pub use error::{Absent, CompileFailure, DataError, Error, LayoutError, Result};
pub use exchange::{Kept, Scope, dlpack};
pub use exchange_error::ExchangeError;
pub use failure::Site;
pub use float8::{f8e4m3, f8e5m2};
pub use graph::Graph;
pub use host_access::HostAccess;
pub use kernel::{KeptKernel, Kernel, KernelArgument};
pub use launch::Launch;
pub use progress::{Activity, Progress};
pub use properties::Properties;
pub use source::{Compiled, Output, Source};
pub use status::STATUS_VARIABLE;
pub use stream::{Event, Stream, StreamKey};
pub use tensor::DeviceTensor;
pub use tensor_map::{L2Promotion, Swizzle, TensorMap, TiledMap};

/// What emulated devices run on: their options are its own.
#[cfg(feature = "emulated")]
pub use ptx_vm;
