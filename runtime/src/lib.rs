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

mod compile;
mod device;
mod error;
mod exchange;
pub mod formats;
mod launch;
mod layout;
mod memory;
#[doc(hidden)]
pub mod message;
mod optimisation;
mod progress;
mod ranks;
mod sync;
mod tensor;
pub mod testing;
#[doc(hidden)]
pub mod trace;

pub use compile::arch::{Arch, ParseArchError};
pub use compile::bundle;
pub use compile::cache::{CacheKey, KernelCache};
pub use compile::compile_log::{CompileLog, Diagnostic, Resources, Severity};
pub use compile::compiler::Compiler;
pub use compile::failure::Site;
pub use compile::source::{Compiled, Output, Source};
pub use device::cpu_level::CpuLevel;
pub use device::gpu_model::{GpuModel, ParseGpuModelError};
pub use device::launch::Launch;
pub use device::properties::Properties;
pub use device::rates::{POWER_EXPONENT, Rates};
pub use device::status::STATUS_VARIABLE;
pub use device::{Device, DeviceKind};
pub use error::exchange::ExchangeError;
pub use error::formats::{CheckpointError, FormatError, GgufError};
pub use error::ranks::CommunicatorError;
pub use error::{Absent, CompileFailure, DataError, Error, LayoutError, Result};
pub use exchange::{Kept, Scope, checkpoints, dlpack, gguf};
pub use launch::graph::Graph;
pub use launch::kernel::{KeptKernel, Kernel, KernelArgument};
pub use launch::stream::{Event, Stream, StreamKey};
pub use layout::axes::{AxisList, NamedAxes};
pub use layout::element::{Element, ElementType, PlainElement};
pub use layout::float8::{f8e4m3, f8e5m2};
#[doc(hidden)]
pub use memory::host_bytes::HostBytes;
pub use optimisation::without_optimisation;
pub use progress::{Activity, Progress};
pub use ranks::{Communicator, LaunchedRank, Rendezvous};
pub use tensor::DeviceTensor;
pub use tensor::host_access::HostAccess;
pub use tensor::tensor_map::{Im2colMap, L2Promotion, Swizzle, TensorMap, TiledMap};

/// Emulated devices run on it; its options are theirs.
#[cfg(feature = "emulated")]
pub use ptx_vm;
