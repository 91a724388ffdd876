//! Write what happens to the result of a matrix product as an ordinary Rust function: it runs inside the GEMM kernel.
//!
//! An *epilogue* is what a program does with the result of a matrix product (a GEMM): add a bias, apply an activation,
//! add a residual, sum every row. As a kernel of its own, each of these steps reads the whole M × N result from memory,
//! and most write another one back; a *fused* epilogue is computed by the kernel that multiplies, on each part of the
//! result before that part goes to memory. With this library an epilogue is an ordinary Rust function: it becomes CUDA
//! C++ inside a tensor-core GEMM for NVIDIA GPUs, and vector code for CPUs.
//!
//! # Why it matters
//!
//! ```text
//! D = gelu(A·B + bias) + residual        memory traffic in tensors of M × N
//!
//! Four kernels: 4 are read, 4 are written
//!
//!            ┌─────┐   ┌────────┐   ┌────────┐   ┌────────────┐
//!   A, B ───►│ A·B │   │ + bias │   │  gelu  │   │ + residual │
//!            └──┬──┘   └─▲────┬─┘   └─▲────┬─┘   └─▲───▲────┬─┘
//!               │        │    │       │    │       │   │    │
//!   memory ═════▼════════╧════▼═══════╧════▼═══════╧═══╧════▼══
//!               T0       T0   T1      T1   T2      T2  res. D
//!
//! One fused kernel: 1 is read, 1 is written
//!
//!            ┌───────────────────────────────────────────────┐
//!   A, B ───►│ A·B  ──►  + bias  ──►  gelu  ──►  + residual  │
//!            └─────────────────────────────────────▲────┬────┘
//!                                                  │    │
//!   memory ════════════════════════════════════════╧════▼══════
//!                                                  res. D
//! ```
//!
//! In f16 with M = N = 4096, a tensor of M × N is 32 MiB: 256 MiB are moved by the four kernels, 64 MiB by the fused
//! one. (This is counted, not measured. A, B and the bias are read either way; a product that is split along K also
//! writes partial sums, with and without fusion.) The larger K is, the smaller is the part of the time that fusing
//! saves.
//!
//! # For whom
//!
//! - You write inference or training code in Rust, with your own steps after its matrix products, and don't want to write
//!   CUDA for them.
//! - You want to see and check what runs: the generated CUDA C++ has your names in it, and an f64 reference gives the
//!   bounds of every element. An emulated GPU finds data races without a GPU.
//! - You need the reductions and scans around products too, such as softmax, norms and cumulative sums: that is [`te`].
//!
//! It is not a framework: it derives the backward pass of one epilogue ([`evt::derive`]), but keeps no record of what a program
//! computes, and it loads no models.
//!
//! # An example
//!
//! ```
//! use epilogue::prelude::*;
//!
//! /// D = alpha * A·B + tanh(beta * C), and the sum of every row of D.
//! #[epilogue]
//! fn row_reduction(
//!     accum: Accum, c: Tensor, alpha: Scalar, beta: Scalar,
//! ) -> (Tensor, ColumnVector) {
//!     let d = alpha * accum + tanh(beta * c);
//!     let reduction = reduction_op(d, Row, Add);
//!     (d, reduction)
//! }
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // `Device::best()?` takes the GPU where there is one, else the CPU.
//!     let device = Device::cpu();
//!     let a = device.tensor(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
//!     let b = device.tensor(&[1f32, 0.0, 0.0, 1.0, 1.0, 1.0], [3, 2])?;
//!     let c = device.tensor(&[0f32, 40.0, -40.0, 0.0], [2, 2])?;
//!     let mut d = device.zeros::<f32>([2, 2])?;
//!     let mut reduction = device.zeros::<f32>([2])?;
//!
//!     // Chooses a kernel, and on a GPU generates and compiles it, or finds it in the cache.
//!     let gemm = Gemm::plan::<RowReduction>(&device, &a, &b)?;
//!     let (alpha, beta) = (1.0, 0.5);
//!     gemm.run(
//!         &a,
//!         &b,
//!         RowReduction { alpha, beta, c: &c, d: &mut d, reduction: &mut reduction },
//!     )?;
//!
//!     // A·B is 4, 5, 10, 11; tanh(20) rounds to 1.
//!     assert_eq!(d.to_vec::<f32>()?, [4.0, 6.0, 9.0, 11.0]);
//!     assert_eq!(reduction.to_vec::<f32>()?, [10.0, 20.0]);
//!     // On a GPU, this is the CUDA C++ that ran, with the names of this function in it.
//!     println!("{}", gemm.source());
//!     Ok(())
//! }
//! ```
//!
//! The attribute makes the struct `RowReduction`, with a field for every parameter and every returned name: a missing
//! or misspelt argument is a compile error. [`language`] describes everything that the function may contain; the
//! [`guide`] goes on from here, and its [cookbook](guide::cookbook) has the usual epilogues.
//!
//! # What is supported
//!
//! | | what is supported |
//! |---|---|
//! | GPUs | NVIDIA's, of compute capability 8.0 and up (`sm_80`); for 9.0 (H100, H200) there are kernels with TMA and wgmma too (`sm_90a`). FP8 has instructions of its own on `sm_89`, `sm_90a`, `sm_120a` and `sm_121a`. Needed at run time: a driver of CUDA 12.0 or newer, and NVRTC 12 or newer |
//! | CPUs | x86-64: code for AVX-512, for AVX2 with FMA and F16C, or for any x86-64, chosen at run time. AMX multiplies bf16s and 8-bit integers where Linux grants it. AArch64: code for NEON, tested by an emulator. Nothing else is needed |
//! | no GPU | [`Device::emulated`] runs the kernels on the CPU, instruction by instruction, as a GPU of [these architectures](Arch::EMULATED) does: slow, for tests. Needs NVRTC, no driver |
//! | systems | Linux on x86-64, where everything is tested. The code also knows where Windows and macOS keep libraries and caches, but is not tested there |
//! | Rust | 1.95 or newer, stable |
//! | types | f64, f32, bf16, f16, two 8-bit floats, 8-bit integers: [`gemm::supports`] says which pairs multiply where |
//!
//! No speed on a GPU has been measured yet, and no kernel of this version has run on one: they have run on emulated
//! GPUs. On a GPU, the first plan of a kernel takes the time to compile it; after that the kernel comes from a cache on
//! disk. The page of [`runtime`] has the variables that say where NVRTC and that cache are.
//!
//! # Where to find what
//!
//! | module | what it is for |
//! |---|---|
//! | [`guide`] | from a first product to kernels that one measures, page by page, with a cookbook |
//! | [`prelude`] | what a program imports |
//! | [`language`] | the epilogue language: parameters, types, operators, reductions |
//! | [`ops`] | its operations, which are also functions for numbers and tensor expressions; [`#[elementwise]`](crate::prelude::elementwise) makes more |
//! | [`gemm`] | products with epilogues: [`Gemm`] plans and runs, [`gemm::Builder`] has every choice, [`gemm::Error`] is what fails |
//! | [`te`] | tensor expressions: maps, reductions and scans; [`te::auto`] schedules them, [`te::ops`] has ready-made ones |
//! | [`fuse`] | tensor expressions whose contractions become products with epilogues |
//! | [`distributed`] | products divided among GPUs or threads, with what the ranks add up |
//! | [`bundle`] | kernels compiled ahead of time: one file, and no compiler where it runs |
//! | [`runtime`] | devices, tensors, streams, compiled kernels: [`Device`], [`DeviceTensor`], [`Stream`] |
//! | [`tuning`] | choices of the CPU device: machine code, vectors, stores |
//! | [`evt`] | what the macro makes: the visitor tree of an epilogue, for building, checking and drawing trees by program |
//! | [`expr`], [`tile`] | what generated code is made of: scalar operations, for `gemm` and `te`; reductions over threads, for scheduled programs |
//!
//! # Features
//!
//! | feature | what it brings | crates | minutes |
//! |---|---|---|---|
//! | none | products with epilogues on CPUs | 53 | |
//! | `cuda` | the same on NVIDIA GPUs: [`Device::cuda`] | 54 | 2.6 |
//! | `te` | [`te`]: tensor expressions, and automatic kernels for reductions and scans | 60 | 5.0 |
//! | `native` | compiles scheduled tensor expressions to code for this CPU, by Cranelift; with `te` | 95 | 7.9 |
//! | `emulated` | [`Device::emulated`]: GPUs that are executed on the CPU, with a race detector | 54 | 3.6 |
//! | `ndarray` | ndarray's arrays as tensors and back, without a copy ([`guide::memory`]) | 57 | |
//! | `safetensors` | the tensors of safetensors files, without a copy | 70 | |
//! | `nccl` | ranks on several GPUs, by NVIDIA's NCCL ([`distributed`], [`guide::ranks`]) | 54 | |
//! | `tracing` | spans and events of plans, choices, compilations, the cache and launches ([`guide::services`]) | 56 | |
//!
//! The crates are all that are compiled with this feature alone, this one included, as `cargo tree -e normal,build` counts
//! them on Linux. The default features, `cuda`, `te` and `emulated`, make 62.
//!
//! The minutes are of processor time, for all compilers of a cold release build together (`RUSTC_WRAPPER` with `time`).
//! They were taken by Rust 1.95 on a virtual machine with two cores of an AMD EPYC, which others used meanwhile; on an
//! idle one it is less. `cuda` was among the features each time.
#![cfg_attr(not(feature = "te"), allow(dead_code, unused_imports, reason = "some of what both halves share, one uses"))]

// The macros' expansion names this crate, also inside it.
extern crate self as epilogue;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod argument;
mod cuda;
mod device;
pub mod distributed;
pub mod evt;
mod exhaustion;
pub mod expr;
#[cfg(feature = "te")]
pub mod fuse;
pub mod gemm;
#[cfg(all(any(doc, doctest), feature = "te"))]
pub mod guide;
mod jit;
mod lane;
pub mod language;
mod level;
pub mod ops;
mod parallel;
mod pool;
pub mod prelude;
mod simd;
mod sync;
#[cfg(feature = "te")]
pub mod te;
pub mod tile;
pub mod tuning;
mod variants;

pub use epilogue_macros::{closure, elementwise, epilogue, reducer};
/// Devices, tensors, streams, compiled kernels: every type in this crate's signatures that the root doesn't have.
pub use epilogue_runtime as runtime;
#[doc(inline)]
pub use epilogue_runtime::bundle;
#[doc(inline)]
pub use epilogue_runtime::{
    Arch, CpuLevel, DataError, Device, DeviceTensor, Element, ElementType, Event, GpuModel, Graph, Kernel,
    PlainElement, Source, Stream, f8e4m3, f8e5m2,
};

pub use crate::argument::{Argument, Arguments, Borrowed, Epilogue, Fields, Seed, Unborrowed};
pub use crate::expr::EpilogueElement;
pub use crate::gemm::{Error, Gemm};
pub use crate::tuning::Tuning;

/// The examples of the project's README, which run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
