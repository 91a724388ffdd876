//! Devices, their tensors, and kernels: compiled at run time, kept on disk, launched in order.
//!
//! `epilogue` is built on this crate. It can also be used alone, for the user's own kernels.
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
//! A kernel is compiled for the device on which it will run ([`Device::compile`]), or without a device
//! ([`Compiler::compile`]). The next time it is found in the disk cache ([`KernelCache`]), with or without a compiler.
//! Or it was compiled ahead of time ([`bundle`]). An emulated device ([`Device::emulated`]) compiles the same source to
//! PTX, and executes that.
//!
//! # Order
//! Everything on a [`Stream`] happens in order. Work on different streams is ordered if it uses the same tensor and at
//! least one of the two writes it. Reading back waits for the work that writes the tensor. A tensor's memory is freed
//! after its last use on any stream. For all this, a launch names the tensors that it uses ([`KernelArgument`]).
//!
//! # Environment
//! | variable | meaning |
//! |---|---|
//! | `EPILOGUE_NVRTC` | the NVRTC library, or a folder with one; then no other place is searched |
//! | `EPILOGUE_TOOLS` | a folder with NVIDIA's tools, as `cargo xtask tools` makes it; in this workspace Cargo sets it to `.tools` |
//! | `EPILOGUE_CACHE` | the folder of compiled kernels, or `off` |
//! | `EPILOGUE_NCCL` | the NCCL library, or a folder with one; then no other place is searched (feature `nccl`) |
//! | `EPILOGUE_RENDEZVOUS` | where ranks hand over NCCL's id: `file:PATH` or `tcp:HOST:PORT` ([`Rendezvous`]) |
//! | `EPILOGUE_CASES` | property tests try this many times as many random cases |
//! | `EPILOGUE_REQUIRE_NVRTC` | tests fail if NVRTC is missing, instead of saying that they were skipped |

mod arch;
mod as_matrix;
mod axes;
mod buffer;
pub mod bundle;
mod cache;
mod collective;
mod communicator;
mod communicator_error;
mod compile_log;
mod compiler;
mod control_groups;
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
mod host_bytes;
mod host_lock;
mod host_memory;
mod kernel;
mod launch;
mod layout;
mod limits;
mod load;
mod loaded;
#[doc(hidden)]
pub mod message;
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
mod sync;
mod tensor;
mod tensor_map;
pub mod testing;
#[doc(hidden)]
pub mod trace;
mod trust;

pub use arch::{Arch, ParseArchError};
pub use axes::{AxisList, NamedAxes};
pub use cache::{CacheKey, KernelCache};
pub use communicator::{Communicator, LaunchedRank, Rendezvous};
pub use communicator_error::CommunicatorError;
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
#[doc(hidden)]
pub use host_bytes::HostBytes;
pub use kernel::{KeptKernel, Kernel, KernelArgument};
pub use launch::Launch;
pub use progress::{Activity, Progress};
pub use properties::Properties;
pub use source::{Compiled, Output, Source};
pub use status::STATUS_VARIABLE;
pub use stream::{Event, Stream, StreamKey};
pub use tensor::DeviceTensor;
pub use tensor_map::{Im2colMap, L2Promotion, Swizzle, TensorMap, TiledMap};

/// Emulated devices run on it; its options are theirs.
#[cfg(feature = "emulated")]
pub use ptx_vm;
