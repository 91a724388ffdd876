//! Services: how do I see what happens, share plans among threads, and use CUDA graphs?
//!
//! # See what happens
//!
//! With the feature `tracing` the library tells the crate [`tracing`](https://docs.rs/tracing) what it does: one target,
//! `epilogue`, for any subscriber. Without the feature, which is off by default, none of it is in the program. With it,
//! a run costs a look at an atomic for each event that nobody listens to.
//!
//! | level | span | event | when |
//! |---|---|---|---|
//! | debug | `plan` (`epilogue`, `device`, `m`, `n`, `k`, `batch`) | | a product is planned |
//! | debug | | `planned before` (`choice`) | the device remembers the same plan: nothing is chosen nor compiled |
//! | debug | | `choice` (`choice`, `candidates`) | which kernel was chosen, and why; of tensor expressions, too |
//! | debug | `compile` (`kernel`, `arch`) | | a kernel is needed |
//! | debug | | `cache hit`, `cache miss` (`kernel`, `reason`) | it was in the cache on disk, or why it wasn't |
//! | debug | | `bundle hit`, `bundle miss` (`kernel`, `reason`) | the same of a device with [bundles](super::deployment) |
//! | info | | `compiled` (`kernel`, `milliseconds`) | NVRTC has compiled it |
//! | info | | `a run needs another kernel than planned` (`epilogue`, `kernel`) | its operands lie in another way: plan for them, or the first request waits |
//! | info | | `bundle installed` (`device`, `kernels`, `made_by`) | |
//! | debug | `pack` (`epilogue`, `shape`) | | a B is copied into the order that the CPU multiplies |
//! | debug | `build` (`device`), `fuse` (`device`, `outputs`) | | tensor expressions become kernels, or products and kernels |
//! | debug | `compile for this CPU` (`program`) | | a scheduled program is compiled by Cranelift |
//! | debug | `read bundle` (`bytes`), `write bundle` (`path`, `kernels`) | | a bundle is checked, or made a file |
//! | info | `autotune` (`epilogue`, `candidates`) | `the fastest` (`kernel`, `microseconds`) | kernels are measured |
//! | debug | | `measured` (`kernel`, `microseconds`) | one of them has been |
//! | debug | | `captured` (`device`, `launches`) | a graph has been made |
//! | info | | `there is no GPU: the CPU is taken` (`reason`) | [`Device::best`](crate::Device::best) has found none |
//! | warn | | `the CUDA driver is there and does not work` (`reason`) | as after an update, until the machine starts again |
//! | trace | | `run` (`epilogue`, `m`, `n`, `k`, `batch`) | a plan is run |
//! | trace | | `launch` (`kernel`, `device`, `grid`, `block`, `shared_bytes`), `launch of a graph` | a kernel, or a graph, is put on a stream |
//!
//! A service that must never compile watches for `compiled`; one whose cache is lost at each start sees
//! `cache miss` with the reason. With `tracing-subscriber`, all of it is on the terminal by one line in `main`:
//!
//! ```toml
//! epilogue = { version = "0.1", features = ["tracing"] }
//! tracing-subscriber = "0.3"  # tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).init();
//! ```
//!
//! Work that takes seconds reports its progress, with or without that feature: making a bundle
//! ([`bundle::Builder::on_progress`](crate::bundle::Builder::on_progress)) and tuning
//! ([`Gemm::autotune_watched`](crate::Gemm::autotune_watched)). Both give a [`Progress`](crate::runtime::Progress),
//! which is what a bar shows: a part, and a text. `examples/deploy.rs` in the repository draws one.
//!
//! # Threads
//!
//! [`Device`](crate::Device), [`Gemm`](crate::Gemm), kernels and tensors are `Send` and `Sync`, and handles are cheap to
//! clone. One plan serves any number of threads and streams: no run waits for another's compilation or for its memory.
//! Each thread, or each request that is to overlap with others, has a stream of its own (`device.new_stream()`,
//! `gemm.run_on(&stream, …)`); what uses one tensor on several streams is ordered.
//!
//! A function that is given a tensor's bytes (`with_bytes`) may use other tensors, and read its own. A use that would
//! wait for itself, or in a circle with other threads, is refused:
//! [`ExchangeError::WaitsForItself`](crate::runtime::ExchangeError::WaitsForItself).
//!
//! A thread needs a stack of 1 MiB to plan and run, in every build; the main thread and those of the standard library have
//! it. Destructors of thread-locals, and functions of `atexit`, must not run products: parts of f32 and f64 products
//! are of crates with thread-locals of their own. These may be gone by then, and the process would end.
//!
//! # Processes
//!
//! A child of `fork` gets threads of its own for work on the CPU at its first run. Plans and tensors that other threads of
//! its parent used at that moment stay locked in it, so it makes its own; or the parent forks while no other thread computes.
//! As everywhere with CUDA, a child can't use the GPUs that its parent has opened.
//!
//! The memory that the CPU device grants has the limits of the process's control groups (a container's): what is more than
//! they leave is [`OutOfMemory`](crate::runtime::Error::OutOfMemory).
//!
//! # CUDA graphs
//!
//! A model's step is some hundred launches, and each takes the CPU some microseconds. A graph launches all of them by
//! one call. [`Device::capture`](crate::Device::capture) records what is run on the stream that it gives; what has to
//! be compiled is compiled, memory that a plan needs beside its arguments is the graph's own, and nothing runs.
//!
//! ```
//! use epilogue::prelude::*;
//! use epilogue::te;
//!
//! #[epilogue]
//! fn bias_relu(accum: Accum, bias: RowVector<f32>) -> Tensor<f32> {
//!     let d = relu(accum + bias);
//!     d
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # if epilogue::runtime::testing::compiler("the guide's page of services").is_none() { return Ok(()) }
//! let device = Device::emulated(Arch::SM_80)?; // or `Device::cuda(0)?`
//! let mut x = device.full::<f16>([16, 32], f16::ONE)?;
//! let weights = device.full::<f16>([32, 24], f16::ONE)?;
//! let bias = device.full::<f32>([24], -30.0)?;
//! let (mut hidden, mut y) = (device.zeros::<f32>([16, 24])?, device.zeros::<f32>([16, 24])?);
//!
//! let gemm = Gemm::plan::<BiasRelu>(&device, &x, &weights)?;
//! let input = te::placeholder([te::var("rows"), te::var("columns")], "input");
//! let output = te::ops::softmax(&input, 1)?;
//! let softmax = te::auto::build(&[&output])?.build(&device)?;
//!
//! let step = device.capture(|stream| -> Result<(), Box<dyn std::error::Error>> {
//!     gemm.run_on(stream, &x, &weights, BiasRelu { bias: &bias, d: &mut hidden })?;
//!     softmax.run_bound_on(stream, &[(&input, (&hidden).into()), (&output, (&mut y).into())])?;
//!     Ok(())
//! })?;
//!
//! // Each request: write the input, launch, read the output. The graph's launch is ordered with both.
//! let stream = device.new_stream()?;
//! for request in [1.0, 2.0] {
//!     x.copy_from(&[f16::from_f32(request); 16 * 32])?;
//!     step.launch(&stream)?;
//!     assert_eq!(hidden.to_vec::<f32>()?, [32.0 * request - 30.0; 16 * 24]);
//!     assert!((y.to_vec::<f32>()?[0] - 1.0 / 24.0).abs() < 1e-6);
//! }
//! # Ok(()) }
//! ```
//!
//! - A graph is for one shape, and for these very tensors: it keeps their memory, and reads and writes it at each launch.
//!   Make one for every shape that is worth it, and run the others without.
//! - It works on emulated devices, so that it is tested without a GPU. The CPU has no launches to save, and refuses it.
//! - Reading back, writing tensors and uploading are no launches: inside of the function they happen at once, as ever.
//! - On a bundle's target the function compiles its kernels into the bundle, and the graph is empty. So a program that
//!   captures at its start is made a bundle of as any other.
//!
//! ## Graphs of others
//!
//! A program may capture streams by itself (`cuStreamBeginCapture`, cudarc's `begin_capture`, PyTorch's graphs). It
//! gives the library that stream by [`Stream::borrow`](crate::Stream::borrow) or
//! [`Stream::of_cudarc`](crate::Stream::of_cudarc), and runs plans on it as always. Nothing is allocated in the capture
//! and no event of another stream is waited for there: what a run would wait for, the host waits for while it is
//! captured. Run everything once on the stream before, so that the capture compiles nothing.
//!
//! | what the library can't know | what you do |
//! |---|---|
//! | how long the graph lives | keep the plans, kernels and tensors as long as the graph; the plan keeps its own memory for it |
//! | when the graph is launched | order it with other work on its tensors, as by launching it on the captured stream and synchronising that before reading back |
//! | that a plan is dropped on another thread meanwhile | don't: unloading its kernel waits for the whole GPU, which ends a capture |
//!
//! The device's default stream, which uploads and readbacks are ordered on, can't be captured:
//! [`runtime::Error::Capture`](crate::runtime::Error::Capture) says so.
