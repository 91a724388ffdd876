//! NVIDIA GPUs, through the CUDA driver.
//!
//! cudarc's raw bindings only (its own slices and streams come in and go out in `exchange`): its safe layer has neither clusters nor programmatic dependent launch, and its panics
//! (a missing library, a missing symbol, the `Debug` of an error without a driver) must not reach users. Everything is
//! therefore probed in [`driver`] before the first call. Work is ordered by [`memory`]'s record of which stream used
//! what, so no one has to place events by hand.
//!
//! [`context`] and [`stream`] know each other: a context keeps the two streams that the library works on, and a stream
//! makes its context the current one before every call of the driver.

mod context;
mod driver;
mod function;
mod graph;
mod memory;
mod record;
mod stream;
pub(crate) mod tensor_map;

pub(crate) use context::Context;
pub(crate) use driver::check;
pub(crate) use function::Function;
pub(crate) use graph::{ExecutableGraph, beside};
pub(crate) use memory::{Access, Allocation, order};
pub(crate) use record::HostRecord;
pub(crate) use stream::{CudaEvent, CudaStream};
