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
pub(crate) mod cpu;
mod emit;
mod kernel;
mod model;
mod launch;
mod plan;
mod problem;
mod reference;
mod repack;
pub mod sm90;
mod tensor_maps;

pub use builder::Builder;
pub use kernel::sm80::{Instruction, Sm80Key, Tile};
pub use kernel::{KernelKey, SplitK, SplitKind};
pub use model::{
    Bound, Candidate, Choice, Machine, Misfit, Repacking, Unreachable, Workload, estimate, is_crowded, rank,
};
pub use plan::{Gemm, source};
pub use problem::{
    Arithmetic, Comparison, Error, Fp8, Int8, MAX_EXTENT, Major, OperandLayout, OperandView, Pair, Problem,
};
pub use reference::Reference;
