//! Machine code made at run time: a [`Body`], the computation of one lane, becomes one loop over lanes in vector code
//! of this CPU's full width. Whatever the number of operations, the lanes are read once and written once, and
//! intermediates stay in registers. `gemm` and `te::auto` both make their machine code here; [`lane`](crate::lane) lowers
//! their steps.
//!
//! (Loops that a user has scheduled are something else: nests with tests, memory, calls and threads. Cranelift compiles
//! those, in vectors of 128 bits; the feature is `native`, and nothing else needs it.)
//!
//! There is code for x86-64 (`x86_64/`) with AVX-512, and with AVX2, FMA and F16C. Elsewhere [`Kernel::compile`] gives
//! `None`, and [`lane::strip`](crate::lane::strip) does the same operations one by one, with the same bits. (Only which
//! NaN a result is may differ.) To add an instruction set, write a folder with an [`Isa`](isa::Isa), and name it `Host`
//! below.
//!
//! Nothing here knows tensors, threads or expressions: only lanes at addresses, and scalar operations.
//!
//! A [`RowProgram`] is several bodies in a row: stages that are computed for each row, and pass values on.
//!
//! A [`TileKernel`] holds the totals of a tile of outputs in registers, and combines them with element after element.
//!
//! The way of a program, by files:
//!
//! - `body`: values, in order; `functions` of them, and `wide` ones of 64 bits; `apply`, operations by name; `rows`, stages
//!   of bodies; `tile`, operands of rows and columns; `extreme`, the largest of a row.
//! - `round`: some copies of a body side by side.
//! - `emit` chooses registers and writes the loop; `emit_rows` writes the loop over rows, `emit_tile` that of a tile.
//! - `isa` encodes instructions; `memory` makes them executable; `kernel` calls them.

#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "there is no instruction set for this CPU"))]

mod apply;
mod body;
mod emit;
mod emit_rows;
mod emit_tile;
mod extreme;
mod functions;
mod in_tile;
mod isa;
#[cfg(target_arch = "x86_64")]
mod kernel;
#[cfg(target_arch = "x86_64")]
mod memory;
#[cfg(not(target_arch = "x86_64"))]
mod no_kernel;
mod round;
mod rows;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
mod tile;
mod wide;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub(crate) use body::{Binary, Body, JitValue, Lane, Unary};
pub(crate) use extreme::Extreme;
#[cfg(target_arch = "x86_64")]
pub(crate) use kernel::{Kernel, RowKernel, TileKernel, has_code};
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use no_kernel::{Kernel, RowKernel, TileKernel, has_code};
pub(crate) use rows::{JitPlace, RowProgram};
/// The instruction set of this CPU.
#[cfg(target_arch = "x86_64")]
use x86_64::X86 as Host;

/// The most arguments of a kernel.
pub(crate) const ARGUMENTS: usize = 32;
/// The most arguments of all stages of a row program.
pub(crate) const ROW_ARGUMENTS: usize = 64;
