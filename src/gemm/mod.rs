//! GEMM with a fused epilogue: the problem, the choice of a kernel, its emission, plans and runs.
//!
//! The way of a plan: [`Problem`] and layouts (`problem`) and the tree's cost go into the model (`cost`), which ranks
//! the kernels that there are (`tile`); the chosen one is emitted as CUDA C++ (`emit`) and compiled (`plan`). The way
//! of a run: everything is checked (`check`), operands that the kernel can't load as they lie are copied (`repack`),
//! then the kernel's parameter is filled and it is launched (`launch`); on the CPU device, `cpu` does the work.
//!
//! This module knows threads and tiles. It must never know Rust syntax, nor the tensor-expression core `te`.

mod autotune;
mod builder;
mod check;
mod choice;
mod cost;
pub(crate) mod cpu;
mod emit;
mod kernel;
mod launch;
mod machine;
mod plan;
mod problem;
mod reference;
mod repack;
mod select;
pub mod sm90;

pub use builder::Builder;
pub use choice::Choice;
pub use cost::{Bound, Candidate, Misfit, Workload, estimate, is_crowded, rank};
pub use kernel::sm80::{Instruction, Sm80Key, Tile};
pub use kernel::{KernelKey, SplitK, SplitKind};
pub use machine::Machine;
pub use plan::{Gemm, source};
pub use problem::{
    Arithmetic, Comparison, Error, Fp8, Int8, MAX_EXTENT, Major, OperandLayout, OperandView, Pair, Problem,
};
pub use reference::Reference;
pub use repack::{Repacking, Unreachable};
