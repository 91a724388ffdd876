//! GEMM with a fused epilogue: the problem, the choice of a kernel, its emission, plans and runs.
//!
//! A room each, and each names only those above it:
//!
//! | room | what it has |
//! |---|---|
//! | `cpu` | the CPU device: the product by tiles, the epilogue as vector code; it names no other room |
//! | `problem` | extents, layouts, operand types, errors |
//! | `kernel` | what a kernel is: tile, instruction, key, parameter; `sm80` and `sm90` |
//! | `model` | which kernel, and how long it takes: numbers only, no device |
//! | `emit` | CUDA C++ of a kernel; `sm80` and `sm90` |
//! | `support` | what every device takes |
//! | `run` | checks, variants of a plan, copies of operands, launches |
//! | `planned`, `reference`, `autotune`, `builder` | what users hold: [`Gemm`], [`Reference`], [`Builder`] |
//!
//! The way of a plan: [`Problem`], layouts and the tree's cost go into the model, which ranks the kernels that there are
//! (`model/sm80.rs`, `model/sm90/`); the chosen one is emitted and compiled (`run/variant.rs`). The way of a run:
//! everything is checked (`run/check.rs`), operands that the kernel can't load as they lie are copied
//! (`run/repack.rs`), then the kernel's parameter is filled and it is launched (`run/launch.rs`).
//!
//! This module knows threads and tiles. It must never know Rust syntax, nor the tensor-expression core `te`.

mod autotune;
mod builder;
pub(crate) mod cpu;
mod emit;
mod kernel;
mod model;
mod planned;
mod problem;
mod reference;
mod run;
pub mod sm90;
mod support;

pub use builder::Builder;
pub use emit::source;
pub use kernel::sm80::{Instruction, Sm80Key, Tile};
pub use kernel::{KernelKey, SplitK, SplitKind};
pub use model::{
    Bound, Candidate, Choice, Machine, Misfit, Repacking, Unreachable, Workload, estimate, is_crowded, rank,
};
pub use planned::Gemm;
pub use problem::{
    Arithmetic, Comparison, Error, Fp8, Int8, Knob, MAX_EXTENT, Major, NameMistake, OperandLayout, OperandView, Pair,
    Problem,
};
pub use reference::Reference;
pub use support::{Feature, supports};
