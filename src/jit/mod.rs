//! Machine code made at run time: a [`Body`], the computation of one lane, becomes one loop over lanes in vector code
//! of this CPU's full width. Whatever the number of operations, the lanes are read once and written once, and
//! intermediates stay in registers. `gemm` and `te::auto` both make their machine code here; [`lane`](crate::lane) lowers
//! their steps.
//!
//! (Loops that a user has scheduled are something else: nests with tests, memory, calls and threads. Cranelift compiles
//! those, in vectors of 128 bits; the feature is `native`, and nothing else needs it.)
//!
//! There is code for x86-64 with AVX-512, and with AVX2, FMA and F16C. Elsewhere [`Kernel::compile`] gives `None`, and
//! [`lane::strip`](crate::lane::strip) does the same operations one by one, with the same bits. (Only which NaN a result is may
//! differ.)
//!
//! Nothing here knows tensors, threads or expressions: only lanes at addresses, and scalar operations.
//!
//! A [`RowProgram`] is several bodies in a row: stages that are computed for each row, and pass values on.
//!
//! `body` (values, in order; `functions` of them, and `apply`, operations by name; `rows`, stages of bodies; `extreme`,
//! the largest of a row) → `round` (some copies of a body side by side) → `emit` (registers, the loop; by
//! `instruction`s) and `emit_rows` (the loop over rows) → `assembler` (bytes) → `memory` (executable) → `kernel`.

#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "code is made for x86-64 only"))]

mod apply;
#[cfg(target_arch = "x86_64")]
mod assembler;
mod body;
#[cfg(target_arch = "x86_64")]
mod emit;
#[cfg(target_arch = "x86_64")]
mod emit_rows;
mod extreme;
mod functions;
#[cfg(target_arch = "x86_64")]
mod instruction;
mod kernel;
#[cfg(target_arch = "x86_64")]
mod memory;
#[cfg(target_arch = "x86_64")]
mod round;
mod rows;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

pub(crate) use body::{Binary, Body, Lane, Unary, Value};
pub(crate) use extreme::Extreme;
#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) use kernel::NARROW;
pub(crate) use kernel::{ARGUMENTS, Kernel, ROW_ARGUMENTS, RowKernel};
pub(crate) use rows::{Place, RowProgram};
