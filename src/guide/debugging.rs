//! Debugging: a result is wrong, or something is refused. Places to look at, from the top down.
//!
//! | step | question | what to use |
//! |---|---|---|
//! | 1 | is it an error? | its message |
//! | 2 | is the function what I mean? | [`Gemm::tree`](crate::Gemm::tree), the CPU device |
//! | 3 | is the result within its bounds? | [`Gemm::reference`](crate::Gemm::reference) |
//! | 4 | what runs? | [`choice`](crate::Gemm::choice), [`source`](crate::Gemm::source) |
//! | 5 | does the kernel have a race, or leave its memory? | the emulated device |
//! | 6 | what does one kernel do, alone? | `ptx-vm run` |
//!
//! Stop at the first step that shows it. A wrong result after step 2, of an epilogue without CUDA text of your own, is a
//! bug of this library: please report it with the output of step 3 and 4.
//!
//! # Errors
//!
//! | from | type | when |
//! |---|---|---|
//! | [`#[epilogue]`](crate::prelude::epilogue) | a compile error at the token | the function has something that the language lacks; all mistakes at once |
//! | planning and running products | [`gemm::Error`](crate::gemm::Error) | shapes, types, layouts, knobs, overlaps |
//! | tensor expressions, schedules, their runs | [`TeError`](crate::te::TeError) | the same, and primitives that a schedule can't take |
//! | devices and tensors | [`runtime::Error`](crate::runtime::Error) | no GPU, no NVRTC, no memory, a shape that can't be; inside the other two as well |
//! | data | [`DataError`](crate::DataError) | a bad index, an integer divided by zero: see [`devices`](super::devices) |
//!
//! A message says what was given, what is allowed and what to do. When a run returns one about its arguments, nothing was
//! written.
//!
//! ```
//! use epilogue::gemm::Error;
//! use epilogue::prelude::*;
//!
//! #[epilogue]
//! fn biased(accum: Accum, bias: RowVector) -> Tensor {
//!     let d = accum + bias;
//!     d
//! }
//!
//! let device = Device::cpu();
//! let (a, b) = (device.full::<f32>([2, 3], 1.0)?, device.full::<f32>([3, 4], 1.0)?);
//! let bias = device.full::<f32>([2], 1.0)?; // of length M; a `RowVector` has N values
//! let mut d = device.zeros::<f32>([2, 4])?;
//! let gemm = Gemm::plan::<Biased>(&device, &a, &b)?;
//! let error = gemm.run(&a, &b, Biased { bias: &bias, d: &mut d }).unwrap_err();
//! assert!(matches!(error, Error::ArgumentShape { name: "bias", .. }));
//! assert_eq!(d.to_vec::<f32>()?, [0.0; 8]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # The tree
//!
//! A plan prints its epilogue as it was understood: every output, what it is made of, and all types. The plan has
//! simplified it: what is computed twice is one value, what nobody needs is gone.
//!
//! ```
//! use epilogue::prelude::*;
//!
//! #[epilogue]
//! fn bias_gelu(accum: Accum, bias: RowVector, alpha: Scalar) -> Tensor<f16> {
//!     let d = gelu(alpha * accum + bias);
//!     d
//! }
//!
//! let device = Device::cpu();
//! let (a, b) = (device.full::<f32>([2, 3], 1.0)?, device.full::<f32>([3, 4], 1.0)?);
//! let gemm = Gemm::plan::<BiasGelu>(&device, &a, &b)?;
//! println!("{}", gemm.tree());
//! assert!(gemm.tree().to_string().starts_with("bias_gelu: A f32, B f32"));
//! let drawing = gemm.tree().to_svg(); // or `to_dot` for Graphviz
//! assert!(drawing.contains("<svg"));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Look at the types first. Without a type, a tensor has that of A, so with f16 operands the residual and the output are
//! f16, too. Then look at what is a row vector (N values) and what a column vector (M values). Operations are functions of
//! the host: call `gelu(0.5)` in a test and compare. The CPU device computes the same tree without any GPU code: if it is
//! wrong there, the function is.
//!
//! # The reference
//!
//! The reference computes product and epilogue in f64, on code that shares nothing with the devices. It gives the
//! interval that every element must lie in. The message names the first element outside, what it is, and what is right:
//!
//! ```
//! use epilogue::gemm::Error;
//! use epilogue::prelude::*;
//!
//! # #[epilogue]
//! # fn plain(accum: Accum) -> Tensor {
//! #     let d = accum;
//! #     d
//! # }
//! let device = Device::cpu();
//! let (a, b) = (device.full::<f32>([2, 3], 1.0)?, device.full::<f32>([3, 2], 1.0)?);
//! let gemm = Gemm::plan::<Plain>(&device, &a, &b)?;
//! let mut d = device.zeros::<f32>([2, 2])?;
//! let expected = gemm.reference(&a, &b, Plain { d: &mut d })?; // it writes nothing
//! gemm.run(&a, &b, Plain { d: &mut d })?;
//! expected.compare("d", &d)?.check()?;
//!
//! d.copy_from(&[3f32, 3.0, 3.5, 3.0])?; // as if a kernel were wrong
//! let error = expected.compare("d", &d)?.check().unwrap_err();
//! assert!(matches!(error, Error::OutsideBounds(_)));
//! assert!(error.to_string().starts_with("d: element 2 is 3.5e0, the exact value is 3e0, right is "));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! It takes M·N·K steps on one thread, so take a small product with the same remainders (M, N and K modulo 128, say). An
//! epilogue with a `TensorMut` must be given to the reference before it runs. The row of the first wrong element says much:
//! at an edge of the matrix, at the edge of a tile ([`Choice::tile`](crate::gemm::Choice::tile)), or everywhere.
//!
//! If the device is right and you expected something else, the interval is the answer: it is wide where large numbers
//! cancel.
//!
//! # The source
//!
//! [`Gemm::source`](crate::Gemm::source) is the CUDA C++ that runs, headers included, with the names of your function in
//! it. On the CPU it is a comment that says what is computed. [`Gemm::kernel_source`](crate::Gemm::kernel_source) adds
//! symbol and options, for compiling it elsewhere. [`auto::Kernel::source`](crate::te::auto::Kernel::source) and
//! [`te::Kernel::source`](crate::te::Kernel::source) are the same of tensor expressions.
//!
//! [`choice`](crate::Gemm::choice) says which kernel it is. To see whether the kernel or the epilogue is wrong, plan
//! with another kernel of the same product ([`tile`](crate::gemm::Builder::tile),
//! [`candidate`](crate::gemm::Builder::candidate)). Or plan without a split of K
//! ([`SplitK::None`](crate::gemm::SplitK::None)).
//!
//! # The emulated device
//!
//! An emulated device runs the same generated CUDA, compiled by NVRTC to PTX, on the CPU. Accesses out of bounds,
//! misaligned, or of memory that nothing has written are errors. With the race detector, accesses that nothing orders fail
//! the launch, too:
//!
//! ```no_run
//! use epilogue::prelude::*;
//! use epilogue::runtime::ptx_vm::{Completion, Detector, Options};
//! use epilogue::runtime::Error;
//!
//! # #[epilogue]
//! # fn plain(accum: Accum) -> Tensor {
//! #     let d = accum;
//! #     d
//! # }
//! let options = Options::default().detector(Detector::On).completion(Completion::Random).seed(7);
//! let device = Device::emulated_with(Arch::SM_80, options)?;
//! let (a, b) = (device.full::<f16>([70, 40], f16::ONE)?, device.full::<f16>([40, 50], f16::ONE)?);
//! let mut d = device.zeros::<f16>([70, 50])?;
//! let gemm = Gemm::plan::<Plain>(&device, &a, &b)?; // needs NVRTC
//! match gemm.run(&a, &b, Plain { d: &mut d }) {
//!     Err(epilogue::Error::Runtime(Error::Races { findings, .. })) => println!("{} findings", findings.len()),
//!     other => other?,
//! }
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! It is slow, so take small tensors: some tiles are enough. `Completion` says when asynchronous copies take effect: at
//! once, as late as possible, or at random times. Run it with several seeds. Tensor expressions run on it in the same way.
//!
//! The library's own kernels are tested so. Parts that you wrote are worth trying: the CUDA text of an
//! [`#[elementwise]`](crate::prelude::elementwise) function, a [`DeviceFunction`](crate::te::DeviceFunction), a
//! schedule that binds threads, or kernels of your own that you launch by [`runtime`](crate::runtime).
//!
//! ## Read a finding
//!
//! A finding of a race has three lines: what is missing and in which memory; the access that came first in this run;
//! the one that came second. Each access says whether it reads or writes, and its warp, lane and block. It also says
//! the line of the PTX, and the place in the CUDA source where the compiler noted it. Nothing makes a GPU keep the
//! order of this run.
//!
//! 1. Look at the memory. `shared` belongs to a block; global memory to all.
//! 2. Look at the two agents. Two warps of one block need a barrier between the accesses; two blocks need a flag with
//!    release and acquire of the GPU's scope, or another launch.
//! 3. Look at the two places in the source, then for the barrier or wait that should be between them. In a loop, the second
//!    access may belong to the next turn.
//! 4. Mend the first finding first. The others often follow from it.
//!
//! A finding that doesn't begin with `race` is a misuse, such as a barrier that is used again too early; its line says
//! what must be done. The emulated device executes PTX. So it doesn't see mistakes of the step from PTX to machine code, nor
//! time.
//!
//! # One kernel alone
//!
//! [`Kernel::ptx`](crate::Kernel::ptx) is the PTX of a kernel. `ptx-vm`, in the repository, runs PTX of any compiler:
//!
//! ```text
//! cargo run --release -p ptx-vm -- list kernel.ptx
//! cargo run --release -p ptx-vm -- run kernel.ptx --grid 4 --block 128 --arg zeros:4096 --arg u32:1024 --print 0:f32
//! cargo run --release -p ptx-vm -- run kernel.ptx --grid 4 --block 128 --arg zeros:4096 --arg u32:1024 --explore 16
//! ```
//!
//! `run` looks for races in one random schedule with weak memory; its exit code is 3 if it finds something. `--explore`
//! tries many schedules, and prints the options that repeat the first finding. A product's kernel takes one large struct,
//! which is hard to write there: for those use an emulated device.
//!
//! # Tensor expressions
//!
//! The loops of a scheduled program say what it does: print them, then run them in the interpreter. It stops at the
//! first read of memory that nothing was written to, and at the first access out of bounds.
//!
//! ```
//! use epilogue::te;
//!
//! let x = te::placeholder([4], "x");
//! let doubled = te::compute([4], "doubled", |[i]| x.at([i]) * 2)?;
//! let mut schedule = te::create_schedule(&[&doubled]);
//! schedule.stage(&doubled)?.split(doubled.axis(0)?, 2)?;
//! let program = te::lower(&schedule, &[&x, &doubled], "doubled")?;
//! println!("{}", program.script());
//!
//! let mut given = te::Array::new(te::DType::F32, &[4], &[1.0, 2.0, 3.0, 4.0])?;
//! let mut result = te::Array::unwritten(te::DType::F32, &[4]);
//! program.interpret_bound(&mut [(&x, &mut given), (&doubled, &mut result)])?;
//! assert_eq!(result.values(), [2.0, 4.0, 6.0, 8.0]);
//! # Ok::<(), te::TeError>(())
//! ```
//!
//! - Wrong with every schedule: the expression is. The schedule of [`create_schedule`](crate::te::create_schedule) alone is
//!   plain loops.
//! - Wrong with yours only: take primitives away until it is right.
//! - Wrong on a GPU only: see [the emulated device](#the-emulated-device).
//! - For an automatic kernel, lower the same outputs by `create_schedule` and interpret them; compare. With
//!   [`Order::Exact`](crate::te::auto::Order::Exact) the automatic kernel adds in the same order.
//!
//! # Caches
//!
//! Compiled kernels are kept by a hash of all that they depend on. `EPILOGUE_CACHE=off` keeps none, which rules the cache
//! out when you doubt it. A winner of `autotune` that no longer holds is ignored, and the choice says why.
