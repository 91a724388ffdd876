//! Proofs: what is proved, by which means, and what is not.
//!
//! # Which hardware ran what
//!
//! | hardware | what ran there |
//! |---|---|
//! | GPUs | **none: no kernel of this version has run on a GPU, and no speed on one was measured** |
//! | x86-64: Zen 4, Zen 5, a Xeon with AMX; AVX2 by hiding the rest | the CPU's tests, and the timings in `benches/results/cpu` |
//! | AArch64 | the CPU's tests, in an emulator, which says nothing about speed |
//!
//! Speeds of GPUs that [`choice`](crate::Gemm::choice) prints are predictions of a model. The model is compared with
//! published times of other kernels (`cargo xtask published`). `benches/results/forecast.md` has its predictions.
//!
//! # What each tool proves
//!
//! | tool | proves | cannot prove |
//! |---|---|---|
//! | the [reference](crate::Gemm::reference), in f64 | every element of a result lies in the bounds of rounding. It shares no code with devices | anything about speed |
//! | [ptx-vm](crate::runtime::ptx_vm), an emulator of PTX | a kernel's result, its accesses to memory, data races under PTX's memory model | what the machine code of a GPU does: NVIDIA's `ptxas` is outside |
//! | mutants of kernels | the race detector finds each missing barrier, wait or fence, or the reason why it is not needed is written down | that no other mistake exists |
//! | counts of instructions in machine code (`nvdisasm`) | no spilled registers, and no more instructions than allowed | clocks |
//! | properties with random cases | epilogues, schedules, layouts and kernels agree with the reference or the interpreter | what no case draws |
//! | fuzzers of every reader | hostile files and macro input are refused without a panic | what no edit reaches |
//!
//! ptx-vm's tensor cores follow published measurements of the hardware's rounding. For Ada and consumer Blackwell they give
//! the bits of MMA-Sim's models (`runtime/ptx-vm/tests/mma_sim.rs`). A catalogue of bugs, each beside a correct twin, tests
//! the race detector (`runtime/ptx-vm/tests/catalogue.rs`).
//!
//! # See it yourself
//!
//! This kernel runs on an emulated GPU with the race detector. Each element is compared with the reference's bounds:
//!
//! ```
//! use epilogue::Arch;
//! use epilogue::prelude::*;
//! use half::f16;
//!
//! #[epilogue]
//! fn layer(accum: Accum, bias: RowVector) -> Tensor {
//!     let d = gelu(accum + bias);
//!     d
//! }
//!
//! let Ok(device) = Device::emulated(Arch::SM_80) else { return Ok(()) }; // NVRTC is missing
//! let full = |shape: &[usize], x: f32| device.full(shape, f16::from_f32(x));
//! let (a, b, bias) = (full(&[32, 64], 0.5)?, full(&[64, 32], 0.25)?, full(&[32], -8.0)?);
//! let mut d = device.zeros::<f16>([32, 32])?;
//! let gemm = Gemm::plan::<Layer>(&device, &a, &b)?;
//! gemm.run(&a, &b, Layer { bias: &bias, d: &mut d })?; // a race would be an error
//! assert!(d.to_vec::<f16>()?.iter().all(|x| x.to_f32().abs() < 1e-3)); // 64 · 0.125 - 8 is 0
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! `cargo xtask test` runs all of it without a GPU. Larger searches: `cargo xtask test --seed new --cases 20`, `cargo xtask
//! soak --minutes 30`, `cargo xtask mutate`. CONTRIBUTING lists them.
//!
//! # On your own GPU
//!
//! `cargo xtask gpu-bundle` makes one folder for a machine with a GPU, which needs neither Rust nor a network. There,
//! `./run.sh --tier 1 --out results` checks every family of kernels in about 7 minutes, then times them against cuBLASLt.
//! `benches/results/README.md` explains the tiers. Please send `results/`, whatever it says.
//!
//! # What may go wrong
//!
//! An emulated GPU needs NVRTC, and is slow: use small shapes. A kernel that passes there can still be slow on a GPU, or
//! meet a fault of `ptxas` or the driver. [`debugging`](super::debugging) has the steps for a wrong result.
