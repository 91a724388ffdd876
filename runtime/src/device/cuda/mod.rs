//! NVIDIA GPUs, through the CUDA driver.
//!
//! This uses cudarc's raw bindings only (its slices and streams come in and go out in `exchange`): cudarc's safe layer
//! has neither clusters nor programmatic dependent launch. It also panics: for a missing library, a missing symbol, the
//! `Debug` of an error without a driver. Panics must not reach users. Therefore [`driver`] probes everything before the
//! first call. [`memory`] records which stream used what and orders the work, so no one has to place events by hand.

mod context;
mod driver;
mod function;
mod gpu;
mod graph;
mod memory;
#[cfg(feature = "nccl")]
pub(crate) mod nccl;
mod power;
mod record;
mod stream;
pub(crate) mod tensor_map;

pub(crate) use context::Context;
pub(crate) use driver::check;
pub(crate) use function::Function;
pub(crate) use gpu::Gpu;
pub(crate) use graph::{ExecutableGraph, beside};
pub(crate) use memory::{Allocation, AllocationAccess, lent_only, order};
pub(crate) use record::HostRecord;
pub(crate) use stream::{CudaEvent, CudaStream};
