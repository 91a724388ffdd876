//! Performance: which kernel was chosen and why, what you can change, and what to measure.
//!
//! No speed of this library on a GPU has been measured yet: `benches/results` in the repository has a folder for every GPU
//! that was measured, and so far there is none. Times that the library prints are the cost model's predictions, except
//! after `autotune`. `cargo bench` measures the CPU of your computer.
//!
//! # Read the choice
//!
//! [`Gemm::choice`](crate::Gemm::choice) says which kernel a plan uses. [`Builder::choose`](crate::gemm::Builder::choose)
//! gives the same without compiling anything, so it works without a GPU and without NVRTC:
//!
//! ```
//! use epilogue::prelude::*;
//!
//! #[epilogue]
//! fn bias_gelu(accum: Accum, bias: RowVector) -> Tensor {
//!     let d = gelu(accum + bias);
//!     d
//! }
//!
//! let device = Device::emulated(Arch::SM_90A)?;
//! let builder = Gemm::builder::<BiasGelu>(&device).elements(ElementType::BF16, ElementType::BF16);
//! let choice = builder.problem(4096, 4096, 4096).choose()?;
//! println!("{choice}");
//! for candidate in choice.shortlist() {
//!     println!("{candidate}"); // what is worth measuring, best first: eight at most
//! }
//! let best = choice.kernel().expect("a device that is not the CPU has kernels");
//! assert!(best.microseconds > 0.0 && !choice.candidates().is_empty());
//!
//! // The CPU has no kernels to choose from.
//! let cpu = Gemm::builder::<BiasGelu>(&Device::cpu()).elements(ElementType::F32, ElementType::F32);
//! assert!(cpu.problem(256, 256, 256).choose()?.to_string().starts_with("CPU, tiles of "));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! The line of a GPU's kernel has these parts, in this order:
//!
//! | part | such as | what it tells |
//! |---|---|---|
//! | the kernel | `wgmma bf16: 128x256 by 2 warpgroups, 4 stages, clusters of 2x1, groups of 8 along M` | family, tile, stages in shared memory, and in which order tiles are computed |
//! | split of K | `no split-K`, `serial split-K by 2` | how many blocks share a tile |
//! | blocks and waves | `… blocks in … waves` | with 1.05 waves, most of the GPU is idle in the second |
//! | what fits | `… at once per multiprocessor (about … registers, … bytes of shared memory)` | what limits the blocks |
//! | time and bound | `about … us, bound by arithmetic` | what most of the predicted time goes into: arithmetic, shared memory, the L2, memory, the epilogue |
//! | copies | | only where an operand is copied before the product, see below |
//! | the next one | `next best …` | how close the decision was |
//! | later phases | `its 3 phases follow one another in the tile …`, `… in the tiles of a cluster …`, `… by the blocks that complete their reductions; then a second launch, because …` | only where the epilogue is computed from its own reductions, see below |
//!
//! Bound by `the epilogue` means that another tile or a cheaper epilogue helps. Bound by `memory`: the operands and the
//! epilogue's tensors are what counts, so smaller types help. Bound by `arithmetic`: fusing saves little of the time; a
//! cheaper [`Arithmetic`](crate::gemm::Arithmetic) saves more.
//!
//! [`Gemm::kernel`](crate::Gemm::kernel) knows what the compiler made on a GPU: [`registers`](crate::Kernel::registers) and
//! [`spill_bytes`](crate::Kernel::spill_bytes), which should be 0.
//!
//! # Let it measure
//!
//! [`Gemm::autotune`](crate::Gemm::autotune) runs the shortlist on your operands and arguments, the whole fused kernel
//! each, and gives the plan of the fastest. The candidates take turns and medians decide. The winner is kept beside the
//! compiled kernels: later plans for the same product, epilogue and GPU choose it at once, until the library, the driver or
//! NVRTC changes.
//!
//! ```no_run
//! # use epilogue::prelude::*;
//! # #[epilogue]
//! # fn bias_gelu(accum: Accum, bias: RowVector) -> Tensor {
//! #     let d = gelu(accum + bias);
//! #     d
//! # }
//! # fn tuned(device: &Device, a: &DeviceTensor, b: &DeviceTensor, bias: &DeviceTensor, d: &mut DeviceTensor)
//! #     -> Result<Gemm<BiasGelu>, epilogue::Error> {
//! let gemm = Gemm::plan::<BiasGelu>(device, a, b)?;
//! let gemm = gemm.autotune(a, b, BiasGelu { bias, d })?; // `d` holds the result afterwards
//! println!("{}", gemm.choice()); // ends with the time that was measured
//! # Ok(gemm)
//! # }
//! ```
//!
//! Nothing else should use the GPU meanwhile. On the CPU it is a plain run. An emulated device refuses it: its times say
//! nothing.
//!
//! # Choose by hand
//!
//! A [`Builder`](crate::gemm::Builder) has a knob for each choice. A knob changes how a product is computed, never
//! what. [`gemm::supports`](crate::gemm::supports) says the knobs that each device has, and its page has the table. A
//! knob that a device lacks is refused by name, or left out by
//! [`ignore_unsupported_knobs`](crate::gemm::Builder::ignore_unsupported_knobs).
//!
//! ```
//! use epilogue::gemm::{self, Knob, SplitK};
//! use epilogue::prelude::*;
//!
//! # #[epilogue]
//! # fn plain(accum: Accum) -> Tensor {
//! #     let d = accum;
//! #     d
//! # }
//! let (cpu, hopper) = (Device::cpu(), Device::emulated(Arch::SM_90A)?);
//! assert!(gemm::supports(&hopper, Knob::SplitK).is_ok());
//! assert!(gemm::supports(&cpu, Knob::SplitK).is_err());
//!
//! let describe = |device: &Device| {
//!     let builder = Gemm::builder::<Plain>(device).elements(ElementType::F16, ElementType::F16);
//!     builder.problem(64, 64, 16384).split_k(SplitK::Parallel(8)).ignore_unsupported_knobs()
//! };
//! let choice = describe(&hopper).choose()?;
//! assert!(choice.to_string().contains("parallel split-K by 8"));
//! assert!(describe(&cpu).choose().is_ok());
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Few tiles and a long K leave multiprocessors idle; then blocks share K. The epilogue is applied once, to the complete
//! sum, and the bits are the same at every run:
//!
//! | [`SplitK`](crate::gemm::SplitK) | how | costs |
//! |---|---|---|
//! | `Serial(n)` | n blocks take turns at one running sum | waiting for each other |
//! | `Parallel(n)` | n blocks store their sums, the last one adds them | memory traffic of the partial sums |
//! | `Stream` | only the tiles of the last waves are cut, evenly among all blocks | memory traffic for these tiles |
//!
//! To measure the model's candidates yourself, plan each with
//! [`candidate`](crate::gemm::Builder::candidate): `builder.clone().candidate(&candidate).plan()`.
//!
//! # Layouts that copy
//!
//! A and B may lie in memory in any way, but some ways cost. Kernels for sm_90a load boxes by tensor copies, which need
//! rows that begin at multiples of 16 bytes. 8-bit operands, and f32 ones with `Tf32`, must be contiguous along K
//! there, too. Other operands are copied to the plan's own memory before the product, at every run, or the product goes
//! to a kernel for sm_80. The model takes the faster way. The choice says so, and
//! [`Candidate::repacking`](crate::gemm::Candidate::repacking) has the reason and the predicted time.
//!
//! - Store weights as a linear layer does, `[N, K]`, and pass `weights.transpose()?`: that is contiguous along K.
//! - If rows are no multiple of 16 bytes, give them a longer stride. The tensor is then a view of a wider one:
//!
//! ```
//! use epilogue::prelude::*;
//!
//! let device = Device::cpu();
//! let k = 1001;
//! let stored = device.zeros::<bf16>([64, 1008])?; // rows of 2016 bytes, a multiple of 16
//! let a = stored.slice(1, 0..k)?;
//! assert_eq!((a.shape(), a.strides()), (&[64, 1001][..], &[1008, 1][..]));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! - Plan with tensors that lie as those of the runs will. A run with another layout gets a kernel of its own, which is
//!   compiled then, or a copy. Other extents need neither: M, N, K and strides are arguments of the kernel. But the choice
//!   was made for the planned extents: plan again if M changes by a lot, such as for the prompt and for single tokens.
//!
//! # Epilogues that are computed from their own reductions
//!
//! A softmax needs a row's maximum before it can compute any of the row's elements. On a GPU rows of up to 256 columns
//! (two accumulators: 128) lie in one tile, and all phases are computed there, one after another, in the product's own
//! launch: nothing of M×N but the results is written. Columns of up to 256 rows are computed likewise.
//!
//! On sm_90a rows of up to 4096 columns (two accumulators: 2048) lie in the tiles of a cluster, of up to 16 blocks. The
//! blocks exchange their parts of a row's maximum and sum through their shared memory. That is one launch, too, and
//! writes nothing but the results. It has a price: the blocks of a cluster wait for each other after each phase, and
//! large clusters leave some multiprocessors idle: of an H100's 132, clusters of 16 use 112 or 128. Not every GPU of
//! this architecture has room for more than 8 blocks together; on a GPU that has not, the plan takes launches for rows
//! of more than 2048 columns. Columns of as many rows likewise.
//!
//! Tiles of longer rows are in many blocks, and each phase after the first is a launch after the product's. It reads
//! the f32 values that the phase before has left in memory of the plan (M·N·4 bytes, for most epilogues). So it costs
//! its bytes, as any kernel over the result would; what it spares is the rounding between the two, and the code. The
//! choice names the reductions, and the time it expects of each way; [`finish`](crate::gemm::Builder::finish) asks for
//! one of them, for measurements. Sums of exponentials below a maximum, as softmaxes and losses have them, are made
//! with the maximum: a softmax has one launch after the product's. No launch is needed if each result has one value a
//! row, a column or a matrix. Examples are the factor of a norm, a scale and a cross-entropy: then the block that
//! completes a reduction computes what follows from it.
//!
//! On the CPU a thread takes some rows through all phases while they are in its cache; reductions along rows alone
//! allow that. It saves memory traffic, but not always time: what phases leave for each other is written and read
//! again, and of long rows it is more than a core's cache holds. The alternative is a kernel of `te::auto` over the
//! product's result. In it, softmax, RMSNorm and log-sum-exp took 0.95 to 1.24 times as long as fused after
//! 4096×4096×64. After 4096×768×256 they took 0.95 to 1.25 times as long, in f32 and bf16, on one and two cores of a
//! Xeon; in rows of 16,000 elements and more, softmax and RMSNorm took 0.73 to 1.14 times as long. Log-sum-exp, which
//! keeps nothing, took 0.97 to 1.18 times as long (`cargo bench --bench phases`). So measure both.
//!
//! # The first plan compiles
//!
//! On a GPU, the first plan of a kernel takes the time that NVRTC needs. The result goes to a cache on disk, which later
//! processes find. [`Kernel::was_cached`](crate::Kernel::was_cached) tells the two apart. `EPILOGUE_CACHE` names the
//! folder, or is `off`; it is kept below 1 GiB. Automatic tensor expressions compile at the first run of a class of shapes.
//!
//! So keep plans: a [`Gemm`](crate::Gemm) and an [`auto::Kernel`](crate::te::auto::Kernel) are made once and run often, and
//! a plan's memory for partial sums and copies is kept with it.
//!
//! # Measure it right
//!
//! - **Ratios of one run.** Clocks, temperature and other programs change times by more than a kernel differs from another.
//!   Let the two things that you compare take turns in one process, many rounds, and compare medians. Times of two runs, or
//!   of two machines, are not comparable.
//! - **Not in the cache.** Small operands stay in the second-level cache from one run to the next, which a program's
//!   operands don't. Take turns among several copies of all tensors that together are larger than it.
//! - **Not the launch.** A launch returns before the kernel runs. Time with [`Stream::record`](crate::Stream::record)
//!   before and after many runs and [`Event::elapsed_ms`](crate::Event::elapsed_ms), or call
//!   [`synchronize`](crate::Stream::synchronize) before you stop a clock.
//! - **Not the first run.** It may compile, and its caches are cold.
//! - **Random values.** On zeros a GPU draws less power, so that its clocks can be higher than in your program.
//! - **The fused whole.** Compare it with product and separate steps, and with the product alone: the second says what the
//!   epilogue costs, the first what fusing saves.
//!
//! ```
//! use epilogue::prelude::*;
//!
//! # #[epilogue]
//! # fn plain(accum: Accum) -> Tensor {
//! #     let d = accum;
//! #     d
//! # }
//! let device = Device::cpu(); // the same code measures a GPU
//! let (a, b) = (device.full::<f32>([64, 64], 1.0)?, device.full::<f32>([64, 64], 0.5)?);
//! let mut d = device.zeros::<f32>([64, 64])?;
//! let gemm = Gemm::plan::<Plain>(&device, &a, &b)?;
//! gemm.run(&a, &b, Plain { d: &mut d })?; // not measured
//!
//! let stream = device.default_stream();
//! let start = stream.record()?;
//! for _ in 0..10 {
//!     gemm.run(&a, &b, Plain { d: &mut d })?;
//! }
//! let milliseconds = start.elapsed_ms(&stream.record()?)? / 10.0;
//! assert!(milliseconds >= 0.0);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! `cargo xtask gpu-bundle` in the repository makes a folder that does all this on a GPU machine, against cuBLASLt, CUB,
//! torch.compile and Triton; `benches/results/README.md` says how.
//!
//! # The CPU
//!
//! Products and automatic tensor expressions run on the calling thread and on threads of the library's own: together
//! one for every core, or as many as rayon's variable `RAYON_NUM_THREADS` says. Called from a rayon pool of one thread,
//! a product stays on that thread. The library's threads look for work for 0.1 ms after each call before they sleep. So
//! calls in quick succession don't wait for them to wake up. The number of threads doesn't change a product's bits. f32
//! and f64 are multiplied where they lie. bf16s and 8-bit integers are multiplied as they are by CPUs with instructions
//! for it: by AMX, which Linux grants to the process, several times as fast as f32s, and by AVX-512's dot products
//! about twice as fast. Elsewhere they are widened first, as other narrow types are everywhere, and save memory, not
//! arithmetic. The vector code is chosen when the program runs: AVX-512, AVX2 with FMA and F16C, or any x86-64.
//! `Device::describe` names it, and [`Device::cpu_with`](crate::Device::cpu_with) chooses less.
//!
//! Epilogues and expressions become machine code once the runs of one shape have had enough elements. A
//! [`Tuning`](crate::tuning::Tuning) of a plan or kernel says otherwise: at the first run, from a number of elements on, or
//! never. It also chooses shorter vectors, and whether results are stored past the caches. No tuning changes a bit of a
//! result.
//!
//! `cargo bench --bench peers` holds all this against numpy, jax, onnxruntime, torch, ndarray and plain loops, in turns; the
//! repository has its last table in `benches/results/cpu/README.md`.
