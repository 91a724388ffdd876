//! Turns an ordinary Rust function into the fused epilogue of a tensor-core GEMM.
#![cfg_attr(not(feature = "te"), allow(dead_code, unused_imports, reason = "some of what both halves share, one uses"))]

// What the macros expand to names this crate, also inside it.
extern crate self as epilogue;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod argument;
mod device;
pub mod evt;
pub mod expr;
pub mod gemm;
pub mod language;
pub mod ops;
mod parallel;
mod pool;
pub mod prelude;
mod simd;
mod sync;
#[cfg(feature = "te")]
pub mod te;
pub mod tile;
mod variants;

pub use epilogue_macros::epilogue_closure as epilogue;
/// Devices, tensors, streams, compiled kernels: whatever a signature of this crate names and the root doesn't have.
pub use epilogue_runtime as runtime;
pub use epilogue_runtime::{
    Arch, DataError, Device, DeviceTensor, Element, ElementType, Event, Kernel, Source, Stream, f8e4m3, f8e5m2,
};

pub use crate::argument::{Argument, Arguments, Borrowed, Epilogue, Fields, Unborrowed, Unset};
pub use crate::gemm::{Error, Gemm};
