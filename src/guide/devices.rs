//! Devices: where work runs, in what order, with which bits, how accurately, and what bad data does.
//!
//! # Which device
//!
//! | device | what it is | what it needs |
//! |---|---|---|
//! | [`Device::cpu()`](crate::Device::cpu) | this computer's CPU, by vector code on several threads | nothing |
//! | [`Device::cuda(0)`](crate::Device::cuda) | an NVIDIA GPU, by the CUDA driver's number | the driver of CUDA 12.0 or newer, and NVRTC 12 or newer |
//! | [`Device::best()`](crate::Device::best) | the first GPU if there is one, else the CPU; never an emulated device | |
//! | [`Device::emulated(Arch::SM_90A)`](crate::Device::emulated) | a GPU that is executed on the CPU, instruction by instruction: slow, for tests | NVRTC, no driver |
//!
//! A missing GPU is an error value, [`Error::Absent`](crate::runtime::Error::Absent), never a panic. An emulated device has
//! one of the architectures of [`Arch::EMULATED`](crate::Arch::EMULATED), and memory of its own. It has that architecture's
//! instructions and limits only. No hardware has confirmed its arithmetic of FP8 on `SM_89` and `SM_120A`, nor its tensor memory
//! of `SM_100A`: the arithmetic is the published model of MMA-Sim.
//!
//! # Which GPU
//!
//! | architecture | GPUs | kernels | FP8 |
//! |---|---|---|---|
//! | `sm_80`, `sm_87` | A100, Jetson Orin | for sm_80 | as f16 |
//! | `sm_86` | A10, RTX 30 | for sm_80, with at most 99 KB of shared memory | as f16 |
//! | `sm_89` | L4, L40S, RTX 40 | likewise | by its own instructions, promoted each 128 of K |
//! | `sm_90a` | H100, H200 | for sm_90a and for sm_80 | by `wgmma`, promoted each 128 of K |
//! | `sm_100a`, `sm_103a` | B200, B300 | for sm_100a and for sm_80 (8-bit integers on a B300) | by `tcgen05`, whose sums have 25 bits: nothing is promoted |
//! | `sm_88`, `sm_110a` | Thor and others | for sm_80 | as f16 |
//! | `sm_120a`, `sm_121a` | RTX 50, RTX PRO 6000, DGX Spark | for sm_80, with at most 99 KB of shared memory | by its own instructions |
//!
//! From 9.0 on, code is compiled for exactly the GPU's architecture, as the `a` says. `sm_120f` would serve `sm_121` too, but
//! NVRTC compiles at run time, where the GPU is known. A bundle has a target for each.
//!
//! # Tensors and views
//!
//! A [`DeviceTensor`](crate::DeviceTensor) lies on one device, and has a shape, strides and an element type. Views share its
//! memory: nothing is copied.
//!
//! ```
//! use epilogue::Device;
//!
//! let device = Device::cpu();
//! let x = device.tensor(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?; // by rows
//! assert_eq!(x.transpose()?.to_vec::<f32>()?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
//! assert_eq!(x.slice(1, 1..3)?.to_vec::<f32>()?, [2.0, 3.0, 5.0, 6.0]); // columns 1 and 2
//! assert_eq!(x.slice(0, 0..1)?.broadcast_to([2, 3])?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
//!
//! // Through a view one writes to the tensor.
//! x.slice(0, 1..2)?.copy_from(&[7f32, 8.0, 9.0])?;
//! assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0, 3.0, 7.0, 8.0, 9.0]);
//!
//! // A tensor doesn't change its device by itself: a product of tensors of two devices is refused.
//! let other = x.copy_to(&device)?;
//! assert_eq!(other.device(), &device);
//! # Ok::<(), epilogue::runtime::Error>(())
//! ```
//!
//! A and B, and the inputs of epilogues and tensor expressions, may be views with any strides. An output may be a view,
//! too, if no element of it is reached twice. [`contiguous`](crate::DeviceTensor::contiguous) makes a packed copy where you
//! need one.
//!
//! # Order
//!
//! Everything on a [`Stream`](crate::Stream) happens in order. [`Gemm::run`](crate::Gemm::run) and
//! [`Kernel::run_bound`](crate::te::auto::Kernel::run_bound) use the device's default stream; `run_on` and `run_bound_on`
//! take one of yours. Work on two streams is ordered if it uses one tensor and one of the two writes it; nothing else
//! is, so that the rest can overlap. Reading back (`to_vec`) waits for what it reads.
//!
//! ```
//! use epilogue::prelude::*;
//!
//! #[epilogue]
//! fn scaled(accum: Accum, alpha: Scalar) -> Tensor {
//!     let d = alpha * accum;
//!     d
//! }
//!
//! let device = Device::cpu();
//! let (a, b) = (device.full::<f32>([2, 4], 1.0)?, device.full::<f32>([4, 2], 0.5)?);
//! let (mut d, mut e) = (device.zeros::<f32>([2, 2])?, device.zeros::<f32>([2, 2])?);
//! let gemm = Gemm::plan::<Scaled>(&device, &a, &b)?;
//!
//! let (first, second) = (device.new_stream()?, device.new_stream()?);
//! gemm.run_on(&first, &a, &b, Scaled { alpha: 1.0, d: &mut d })?;
//! gemm.run_on(&second, &d, &d, Scaled { alpha: 1.0, d: &mut e })?; // after the first: it reads `d`
//! assert_eq!(e.to_vec::<f32>()?, [8.0; 4]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! On the CPU and on emulated devices, work is finished when the call returns. On a GPU the call only launches it.
//!
//! # Which results have the same bits
//!
//! | compared | same bits? |
//! |---|---|
//! | the same plan on the same device, run again with the same arguments | yes: partial sums, split-K and stream-K are combined in a fixed order |
//! | on the CPU, another number of threads | yes |
//! | on the CPU, another level of vector instructions | epilogues and tensor expressions: yes; products of floats: no, their sums are added in another order |
//! | a product on another device, or by another kernel (also after `autotune`) | no: sums are added in another order; both lie in the reference's bounds |
//! | a product of 8-bit integers, stored as `i32` or `i64` | yes, everywhere: its sums are exact, and wrap around beyond an i32 |
//! | automatic tensor expressions, run again with the same shapes and strides on one device | yes |
//! | the same with [`Order::Shape`](crate::te::auto::Order::Shape) on two devices | yes, where devices compute the same of a point: sums, products, quotients, roots, minima and maxima; not `exp` and its kind |
//! | a scheduled program, interpreted and as native code | yes |
//!
//! The levels of vector instructions are a [`CpuLevel`](crate::CpuLevel): [`Device::cpu_with`](crate::Device::cpu_with) takes
//! one that this computer has. So a computer with AVX-512 can reproduce the results of one with AVX2:
//!
//! ```
//! use epilogue::{CpuLevel, Device};
//!
//! let lowest = CpuLevel::available()[0];
//! let device = Device::cpu_with(lowest)?; // a device of its own, with its own tensors
//! println!("{}", device.describe());
//! assert!(device.describe().contains(&lowest.to_string()));
//! # Ok::<_, epilogue::runtime::Error>(())
//! ```
//!
//! # Accuracy
//!
//! Products of f16, bf16, 8-bit floats and f32 are summed in f32, those of f64 in f64, those of 8-bit integers in i32. The
//! epilogue is computed in f32, or in f64 where A is f64. Results are rounded once, where they are stored. (A CPU with dot
//! products of bf16s uses them; their flushing of subnormal numbers never shows.)
//!
//! How far a result may be from the exact one, the f64 reference says: for every element an interval that all correct
//! results lie in, by the errors of sums, operations and roundings. So you need no tolerance:
//!
//! ```
//! use epilogue::prelude::*;
//!
//! #[epilogue]
//! fn activated(accum: Accum, bias: RowVector) -> Tensor {
//!     let d = gelu(accum + bias);
//!     d
//! }
//!
//! let device = Device::cpu();
//! let (a, b) = (device.full::<f16>([3, 5], f16::from_f32(0.3))?, device.full::<f16>([5, 4], f16::from_f32(-0.7))?);
//! let bias = device.full::<f16>([4], f16::from_f32(0.1))?;
//! let mut d = device.zeros::<f16>([3, 4])?;
//! let gemm = Gemm::plan::<Activated>(&device, &a, &b)?;
//! gemm.run(&a, &b, Activated { bias: &bias, d: &mut d })?;
//!
//! let expected = gemm.reference(&a, &b, Activated { bias: &bias, d: &mut d })?; // slow: for small products
//! let comparison = expected.compare("d", &d)?.check()?; // an error if an element is outside its interval
//! println!("{comparison}"); // how many elements, and the largest error
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! A GPU's epilogue has cheaper formulas for exponentials, logarithms, roots, quotients, `tanh` and `erf`. It uses them
//! for an output that is a float of at most 16 bits: their error is small beside the rounding. The reference's
//! intervals allow for that. [`fast_math(true)`](crate::gemm::Builder::fast_math) allows them for f32 outputs, too.
//! Automatic tensor expressions do the same on a GPU under `Order::Device`, if all that a kernel stores has at most
//! 16 bits.
//!
//! How A and B are multiplied is an [`Arithmetic`](crate::gemm::Arithmetic). `Exact`, the default, is as exact as the
//! operands. The others give up accuracy for speed, and are never chosen for you:
//!
//! | arithmetic | of | what it does |
//! |---|---|---|
//! | `Tf32` | f32 | operands with 11 significant bits, on tensor cores |
//! | `FastBf16` | f32 | operands rounded to bf16, with 8 significant bits |
//! | `FastFp8` | 8-bit floats | on sm_90a, sums stay in the tensor cores, which keep 14 bits of them |
//!
//! ```
//! use epilogue::gemm::Arithmetic;
//! use epilogue::prelude::*;
//!
//! #[epilogue]
//! fn plain(accum: Accum) -> Tensor {
//!     let d = accum;
//!     d
//! }
//!
//! let device = Device::cpu();
//! let (a, b) = (device.tensor(&[1.0009765625f32], [1, 1])?, device.tensor(&[1f32], [1, 1])?); // 1 + 2^-10
//! let mut d = device.zeros::<f32>([1, 1])?;
//! Gemm::plan::<Plain>(&device, &a, &b)?.run(&a, &b, Plain { d: &mut d })?;
//! assert_eq!(d.to_vec::<f32>()?, [1.0009765625]);
//!
//! let rounded = Gemm::builder::<Plain>(&device).operands(&a, &b)?.arithmetic(Arithmetic::FastBf16).plan()?;
//! rounded.run(&a, &b, Plain { d: &mut d })?;
//! assert_eq!(d.to_vec::<f32>()?, [1.0]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Whoever calls, results are those of the processor's default floating-point mode: rounding to nearest even, subnormal
//! numbers as they are. A thread may have set another one; it has it back when the call returns. The functions of
//! [`ops`](crate::ops) and your own, called with numbers, are ordinary Rust, and compute in the mode of their thread. So do
//! conversions by `half` and by [`f8e4m3`](crate::f8e4m3).
//!
//! # Special numbers
//!
//! The functions of the language give this in f32, on every device. `largest` and `least` are the largest and the least
//! positive f32. At ±∞ a function is its limit, if it has one. Results of 16 bits are these, rounded.
//!
#![doc = include_str!("special_numbers.md")]
//!
//! `leaky_relu(x, slope)` is `slope * x` below 0, which is NaN at −∞ if the slope is 0. `min`, `max` and `clamp` are NaN if
//! an operand is. `pow` is C's.
//!
//! # Bad data
//!
//! Shapes, types and overlaps are checked before a run writes anything. Errors of the data can only be seen while it
//! runs: an index outside of its tensor, or an integer divided by zero. That is a [`DataError`](crate::DataError), and
//! no kernel reads or writes outside of its memory.
//!
//! ```
//! use epilogue::{DataError, Device, ElementType, te};
//!
//! let (n, m, rows) = (te::var("n"), te::var("m"), te::var("rows"));
//! let table = te::placeholder([rows, m], "table");
//! let ids = te::placeholder_of(ElementType::I32, [n], "ids");
//! let taken = te::compute([n, m], "taken", |[i, j]| table.at([ids.at([i]), j.into()]))?;
//!
//! let device = Device::cpu();
//! let kernel = te::auto::build(&[&taken])?.build(&device)?;
//! let rows = device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?;
//! let wanted = device.tensor(&[1i32, 2], [2])?; // there is no row 2
//! let mut out = device.zeros::<f32>([2, 2])?;
//! let error = kernel
//!     .run_bound(&[(&table, (&rows).into()), (&ids, (&wanted).into()), (&taken, (&mut out).into())])
//!     .unwrap_err();
//! assert!(matches!(error, te::TeError::Data(DataError::Index { dimension: 0, index: 2, extent: 2, .. })));
//! assert_eq!(error.to_string(), "an index of dimension 0 is 2, outside of table's extent there, 2");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! On the CPU the run itself fails. On a GPU, and an emulated one, a launch doesn't wait for its kernel: the kernel goes on
//! with 0 in place of the element, and the next [`Stream::synchronize`](crate::Stream::synchronize) or reading back fails.
//! Every tensor and stream that was there reports it once, because nobody knows which results it reached.
//! [`Device::check`](crate::Device::check) asks without waiting. The device is as usable afterwards as before.
//!
//! # Features
//!
//! | feature | on by default | what it brings |
//! |---|---|---|
//! | `cuda` | yes | NVIDIA GPUs: [`Device::cuda`](crate::Device::cuda) |
//! | `te` | yes | tensor expressions: [`te`](crate::te) |
//! | `native` | no | native code for scheduled tensor expressions on the CPU; without it they run on GPUs and in the interpreter |
//! | `emulated` | yes | [`Device::emulated`](crate::Device::emulated) |
//! | `ndarray` | no | ndarray's arrays as tensors, and the other way round: [`memory`](super::memory) |
//! | `safetensors` | no | the tensors of safetensors files where they lie |
//!
//! Automatic tensor expressions run on the CPU without `native`, too. `cuda` needs nothing of CUDA when the program is
//! compiled: the driver and NVRTC are looked for when they are needed. Without `cuda`, [`Device::best`](crate::Device::best)
//! takes the CPU.
