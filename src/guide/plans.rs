//! Plans: made once, kept, and run with other arguments, other sizes, on other streams and threads.
//!
//! A plan is what [`Gemm::plan`](crate::Gemm::plan) gives: the checked function, and on a GPU the compiled kernel. Making
//! one takes time. Running one doesn't take that time again.
//!
//! # Keep a plan in a struct
//!
//! The type is [`Gemm<BiasGelu>`](crate::Gemm). It has no lifetime: a run borrows tensors, a plan doesn't.
//!
//! ```
//! use epilogue::gemm::{Major, OperandLayout};
//! use epilogue::prelude::*;
//!
//! #[epilogue]
//! fn bias_gelu(accum: Accum, bias: RowVector) -> Tensor {
//!     let d = gelu(accum + bias);
//!     d
//! }
//!
//! struct Layer {
//!     weights: DeviceTensor, // [N, K], as most files of weights have them
//!     bias: DeviceTensor,    // [N]
//!     gemm: Gemm<BiasGelu>,
//! }
//!
//! impl Layer {
//!     fn new(device: &Device, weights: DeviceTensor, bias: DeviceTensor) -> Result<Self, epilogue::Error> {
//!         let (n, k) = (weights.shape()[0], weights.shape()[1]);
//!         let gemm = Gemm::builder::<BiasGelu>(device)
//!             .elements(ElementType::F32, ElementType::F32)
//!             .problem(64, n, k) // a typical number of rows
//!             .layouts(OperandLayout::packed(Major::K), OperandLayout::packed(Major::K))
//!             .plan()?;
//!         Ok(Self { weights, bias, gemm })
//!     }
//!
//!     fn run(&self, x: &DeviceTensor) -> Result<DeviceTensor, epilogue::Error> {
//!         let (rows, columns) = (x.shape()[0], self.weights.shape()[0]);
//!         let mut y = self.gemm.device().zeros::<f32>([rows, columns])?;
//!         // B is [K, N]: the weights seen the other way round. Nothing is copied.
//!         self.gemm.run(x, &self.weights.transpose()?, BiasGelu { bias: &self.bias, d: &mut y })?;
//!         Ok(y)
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::cpu();
//! let weights = device.tensor(&[1f32, 0.0, 0.0, 1.0, 1.0, 1.0], [3, 2])?;
//! let bias = device.tensor(&[0f32, 0.0, -24.0], [3])?;
//! let layer = Layer::new(&device, weights, bias)?;
//!
//! // One row, then two rows: the same plan.
//! let x = device.tensor(&[8f32, 16.0], [1, 2])?;
//! assert_eq!(layer.run(&x)?.to_vec::<f32>()?, [8.0, 16.0, 0.0]); // gelu(8) rounds to 8
//! let x = device.tensor(&[8f32, 16.0, 24.0, 8.0], [2, 2])?;
//! assert_eq!(layer.run(&x)?.to_vec::<f32>()?, [8.0, 16.0, 0.0, 24.0, 8.0, 8.0]);
//! # Ok(()) }
//! ```
//!
//! M, N, K, the batch and all strides are given at each run. The kernel stays the one that was chosen for the extents
//! of the plan. It is right for all others too, but it may not be the fastest for them: plan for the sizes that take
//! most of the time; if a program has both single rows and thousands of rows, make two plans.
//!
//! A clone of a `Gemm` is another handle of the same plan. The arguments of one run, as a parameter or result of a
//! function, have the type [`BiasGelu<Borrowed<'a>>`](crate::Borrowed).
//!
//! # Describe a plan step by step
//!
//! [`Gemm::plan`](crate::Gemm::plan) takes types, extents and layouts from two tensors.
//! [`Gemm::builder`](crate::Gemm::builder) is told, so the tensors need not be there yet.
//!
//! | method | what it says |
//! |---|---|
//! | `elements(a, b)` | the element types; needed |
//! | `problem(m, n, k)`, `batch(l)` | the extents to choose a kernel for; the first is needed |
//! | `operands(&a, &b)` | all of these, and the layouts, from two tensors |
//! | `layouts(a, b)` | which index is contiguous: [`Major::K`](crate::gemm::Major) for A `[M, K]` and for weights `[N, K]`, `Major::Mn` for B `[K, N]`; `OperandLayout::packed` means that rows begin at multiples of 16 bytes |
//! | `arithmetic(…)` | f32 operands on a GPU's tensor cores, as TF32 or bf16, which is less exact; FP8: [`Arithmetic`](crate::gemm::Arithmetic) |
//! | `tile`, `stages`, `split_k`, … | choices of one's own: [`Builder`](crate::gemm::Builder) |
//! | `choose()` | chooses, and compiles nothing |
//! | `plan()` | chooses and compiles |
//!
//! ```
//! use epilogue::prelude::*;
//! # #[epilogue]
//! # fn scaled(accum: Accum, alpha: Scalar) -> Tensor {
//! #     let d = alpha * accum;
//! #     d
//! # }
//!
//! let builder = Gemm::builder::<Scaled>(&Device::cpu()).elements(ElementType::F16, ElementType::F16);
//! let missing = builder.choose().unwrap_err();
//! assert_eq!(missing.to_string(), "the plan lacks the extents: call `.problem(…)` before `.plan()`");
//!
//! let choice = builder.problem(2, 3, 4).choose()?;
//! assert!(choice.to_string().starts_with("CPU, tiles of 64x64"));
//! # Ok::<_, epilogue::Error>(())
//! ```
//!
//! A device refuses by name what it doesn't have, such as `split_k` on the CPU. `ignore_unsupported_knobs()` leaves
//! unsupported choices out, for a description that serves several devices. [`supports`](crate::gemm::supports) has the
//! table.
//!
//! # Run on a stream
//!
//! [`run`](crate::Gemm::run) uses the device's default stream, [`run_on`](crate::Gemm::run_on) one of yours. On a GPU
//! both may return before the kernel has ended. Reading a result waits for the work that writes it.
//!
//! ```
//! use epilogue::prelude::*;
//! # #[epilogue]
//! # fn scaled(accum: Accum, alpha: Scalar) -> Tensor {
//! #     let d = alpha * accum;
//! #     d
//! # }
//!
//! let device = Device::cpu();
//! let (a, b) = (device.full::<f32>([2, 3], 1.0)?, device.full::<f32>([3, 2], 1.0)?);
//! let mut d = device.zeros::<f32>([2, 2])?;
//! let gemm = Gemm::plan::<Scaled>(&device, &a, &b)?;
//!
//! let stream = device.new_stream()?;
//! gemm.run_on(&stream, &a, &b, Scaled { alpha: 2.0, d: &mut d })?;
//! stream.synchronize()?; // the host waits; `to_vec` would wait too
//! assert_eq!(d.to_vec::<f32>()?, [6.0; 4]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Runs on different streams are put in order if they use one tensor and one of them writes it. Everything else may
//! overlap. On the CPU and on emulated GPUs a run has ended when the call returns. [`Stream`](crate::Stream) says more.
//!
//! # A function as a value
//!
//! [`closure!`](crate::closure!) makes a value instead of a struct, with one setter for each parameter and each output.
//! Its type has no name, so [`plan_for`](crate::Gemm::plan_for) takes the value. It can't capture variables: what changes
//! from run to run is a parameter.
//!
//! ```
//! use epilogue::prelude::*;
//!
//! let scaled_bias = epilogue::closure!(|accum, bias: RowVector, alpha: Scalar| {
//!     let d: Tensor<f32> = alpha * accum + bias;
//!     d
//! });
//!
//! let device = Device::cpu();
//! let (a, b) = (device.full::<f32>([1, 3], 1.0)?, device.full::<f32>([3, 2], 1.0)?);
//! let bias = device.tensor(&[10f32, 20.0], [2])?;
//! let mut d = device.zeros::<f32>([1, 2])?;
//! let gemm = Gemm::plan_for(&device, &a, &b, &scaled_bias)?;
//! gemm.run(&a, &b, scaled_bias.alpha(2.0).bias(&bias).d(&mut d))?;
//! assert_eq!(d.to_vec::<f32>()?, [16.0, 26.0]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! A run with a setter left out doesn't compile. To keep the plan in a struct of a plain type, use `#[epilogue]`.
//!
//! # Arguments by name
//!
//! [`run_bound`](crate::Gemm::run_bound) takes names and arguments in any order. It is meant for functions that a program
//! builds with [`evt::TreeBuilder`](crate::evt::TreeBuilder), and works for all others too. The names are checked at the
//! run.
//!
//! ```
//! use epilogue::Argument;
//! use epilogue::prelude::*;
//! # #[epilogue]
//! # fn scaled(accum: Accum, alpha: Scalar) -> Tensor {
//! #     let d = alpha * accum;
//! #     d
//! # }
//!
//! let device = Device::cpu();
//! let (a, b) = (device.full::<f32>([2, 3], 1.0)?, device.full::<f32>([3, 2], 1.0)?);
//! let mut d = device.zeros::<f32>([2, 2])?;
//! let gemm = Gemm::plan::<Scaled>(&device, &a, &b)?;
//!
//! let stream = device.default_stream();
//! gemm.run_bound(&stream, &a, &b, [("d", (&mut d).into()), ("alpha", Argument::Scalar(3.0))])?;
//! assert_eq!(d.to_vec::<f32>()?, [9.0; 4]);
//!
//! let missing = gemm.run_bound(&stream, &a, &b, [("d", (&mut d).into())]).unwrap_err();
//! assert_eq!(missing.to_string(), "nothing is given for `alpha`; the arguments of `scaled` are alpha, d");
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Threads share a plan
//!
//! All methods of a plan take `&self`, and threads may call them at the same time. A run doesn't wait for another one: each
//! has its own working memory. Each thread needs outputs of its own.
//!
//! ```
//! use epilogue::prelude::*;
//! # #[epilogue]
//! # fn scaled(accum: Accum, alpha: Scalar) -> Tensor {
//! #     let d = alpha * accum;
//! #     d
//! # }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::cpu();
//! let (a, b) = (device.full::<f32>([1, 3], 1.0)?, device.full::<f32>([3, 2], 1.0)?);
//! let gemm = Gemm::plan::<Scaled>(&device, &a, &b)?;
//!
//! let (gemm, a, b) = (&gemm, &a, &b);
//! let run = move |alpha: f64| -> Result<Vec<f32>, epilogue::Error> {
//!     let mut d = gemm.device().zeros::<f32>([1, 2])?;
//!     gemm.run(a, b, Scaled { alpha, d: &mut d })?;
//!     Ok(d.to_vec()?)
//! };
//! std::thread::scope(|scope| {
//!     let threads = [1.0, 2.0, 3.0].map(|alpha| scope.spawn(move || run(alpha)));
//!     for (thread, expected) in threads.into_iter().zip([3f32, 6.0, 9.0]) {
//!         assert_eq!(thread.join().expect("no panic")?, [expected; 2]);
//!     }
//!     Ok::<_, epilogue::Error>(())
//! })?;
//! # Ok(()) }
//! ```
//!
//! To send a plan to a thread that outlives the caller, clone it.
//!
//! # What compiles again
//!
//! On a GPU, a plan compiles one kernel when it is made. Compiled kernels are kept in a cache on disk, so the same plan in
//! the next start of the program only loads.
//!
//! | what changes from run to run | compiles again? |
//! |---|---|
//! | values, scalars, output tensors of the same kind | no |
//! | M, N, K, the number of batches | no |
//! | strides that leave the same index contiguous and the same alignment | no |
//! | another index of A or B contiguous, or an alignment that allows only narrower copies | once for each new layout; small products (fewer than 2^24 multiply-adds) take a kernel that is already there, where one fits; on `sm_90a`, A or B may be copied first instead |
//! | on `sm_90a`, a tensor of the epilogue whose rows are not contiguous or don't begin at multiples of 16 bytes | once for each case |
//! | element types | they belong to the plan: make another one |
//! | another function, device, arithmetic or tile | another plan |
//!
//! A plan that a process makes again on the same device is looked up: the device keeps what its last 64 plans found. To
//! compile nothing at all where a program runs, see [`deployment`](super::deployment).
//!
//! So describe A and B as they will lie. If your weights are `[N, K]`, say so with `layouts`, or give `Gemm::plan` the
//! transposed view.
//!
//! On the CPU nothing is compiled by NVRTC. A new value of a [`Scalar`](crate::language::Scalar) makes the plan prepare its
//! steps again, which is cheap.
