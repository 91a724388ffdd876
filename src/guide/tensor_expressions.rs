//! Tensor expressions: the reductions, scans and maps around products, without a schedule and with one.
//!
//! A tensor expression says what every element of a tensor is. [`te::auto`](crate::te::auto) makes kernels of it by itself;
//! that is the way to begin. Or you schedule its loops by hand, with the primitives of [`Schedule`](crate::te::Schedule).
//! Both take the same expressions, and the tensors of products: what a [`Gemm`](crate::Gemm) wrote, a kernel of this page
//! reads, and the other way round.
//!
//! Contractions of tensor expressions become products with fused epilogues by
//! [`fuse`](super::from_mathematics).
//!
//! # Ready-made operations
//!
//! ```
//! use epilogue::{Device, te};
//!
//! let x = te::placeholder([2, 2], "x"); // a tensor that a run brings: f32, of 2 rows and 2 columns
//! let softmax = te::ops::softmax(&x, 1)?; // along dimension 1: every row
//! let sums = te::ops::cumsum(&x, 1)?;
//!
//! let device = Device::cpu();
//! let kernel = te::auto::build(&[&softmax, &sums])?.build(&device)?;
//!
//! let xs = device.tensor(&[1f32, 1.0, 5.0, 5.0], [2, 2])?;
//! let (mut p, mut s) = (device.zeros::<f32>([2, 2])?, device.zeros::<f32>([2, 2])?);
//! kernel.run_bound(&[(&x, (&xs).into()), (&softmax, (&mut p).into()), (&sums, (&mut s).into())])?;
//! assert_eq!(p.to_vec::<f32>()?, [0.5; 4]);
//! assert_eq!(s.to_vec::<f32>()?, [1.0, 2.0, 5.0, 10.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`run_bound`](crate::te::auto::Kernel::run_bound) takes every argument with the tensor that it stands for, in any
//! order. An input is given as `(&xs).into()`, an output as `(&mut p).into()`. An argument that is missing, given twice
//! or unknown is refused by name, and then nothing has been written.
//!
//! | what | operations in [`te::ops`](crate::te::ops) |
//! |---|---|
//! | reductions | `sum`, `sum_as` (in another type), `prod`, `mean`, `var`, `std`, `norm`, `max`, `min`, `argmax`, `argmin`, `all`, `any`, `logsumexp` |
//! | normalisations | `softmax`, `log_softmax`, `layer_norm`, `rms_norm`, `group_norm`, `instance_norm` |
//! | by index | `take_along` (PyTorch's `gather`), `one_hot`, `pad` (constant, edge, reflect), `cross_entropy` |
//! | scans | `cumsum`, `cumprod`, `linear_recurrence`, `selective_scan`, `selective_scan_output` |
//! | products | `matmul`, `linear`, `einsum`, `conv1d`, `conv2d`, `conv3d` (direct, not on tensor cores) |
//! | one step | `lstm_cell`, `gru_cell` |
//! | few bits | `quantize`, `dequantize`: codes of 8 bits with f32 scales of rows or blocks |
//!
//! Reductions take the [`Dimensions`](crate::te::ops::Dimensions) that they reduce. `cumsum` and `cumprod` take a
//! dimension, or a [`Running`](crate::te::ops::Running): exclusive, from the end, or over all elements. Convolutions take
//! a [`Convolution`](crate::te::ops::Convolution): stride, padding, dilation, groups, and where the channels are.
//!
//! # Expressions of your own
//!
//! [`compute`](crate::te::compute) makes a tensor from a function of its indices. The operations of [`ops`](crate::ops),
//! and your own under [`#[elementwise]`](crate::prelude::elementwise), take expressions as they take numbers. So a function
//! that an epilogue calls can be called here, too.
//!
//! ```
//! use epilogue::ops::{relu, sqrt};
//! use epilogue::{Device, te};
//!
//! let (n, m) = (te::var("n"), te::var("m")); // known when it runs
//! let x = te::placeholder([n, m], "x");
//! let bias = te::placeholder([m], "bias");
//!
//! let k = te::reduce_axis((0, m), "k");
//! let squares = te::compute([n], "squares", |[i]| te::sum(x.at([i, k]) * x.at([i, k]), [k]))?;
//! let unit = te::compute([n, m], "unit", |[i, j]| relu(x.at([i, j]) / sqrt(squares.at([i])) + bias.at([j])))?;
//!
//! let device = Device::cpu();
//! let kernel = te::auto::build(&[&unit])?.build(&device)?;
//! let xs = device.tensor(&[3f32, 4.0, 2.0, 0.0], [2, 2])?;
//! let biases = device.tensor(&[0f32, -1.0], [2])?;
//! let mut y = device.zeros::<f32>([2, 2])?;
//! kernel.run_bound(&[(&unit, (&mut y).into()), (&x, (&xs).into()), (&bias, (&biases).into())])?;
//! assert_eq!(y.to_vec::<f32>()?, [0.6, 0.0, 1.0, 0.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `squares` is not an output, so no memory of yours is needed for it. Here one kernel does all: it reads a row, sums its
//! squares, and writes the row's results. If one kernel can't do it, `build` makes several, with memory of their own
//! between them. [`choice`](crate::te::auto::Kernel::choice) says what the last run did.
//!
//! A reduction is [`sum`](crate::te::sum()), [`prod`](crate::te::prod), [`max`](crate::te::max), [`min`](crate::te::min),
//! [`all`](crate::te::all) or [`any`](crate::te::any), or one that you make from a function of two values
//! ([`comm_reducer`](crate::te::comm_reducer), [`tuple_reducer`](crate::te::tuple_reducer)).
//!
//! # Types
//!
//! Elements are numbers or truth values. Floating-point types are f64, f32, f16, bf16, f8e4m3 and f8e5m2; integers have 8 to
//! 64 bits, with and without a sign. Two types don't mix; [`cast`](crate::te::Expr::cast) converts. [`DType`](crate::te::DType) says
//! how each type overflows, and [`Expr`](crate::te::Expr) lists the operations. All devices give the same integers.
//!
//! ```
//! use epilogue::{Device, ElementType, te};
//!
//! // Colours, 10 bits each in a u32, to numbers from 0 to 1.
//! let n = te::var("n");
//! let packed = te::placeholder_of(ElementType::U32, [n], "packed");
//! let colours = te::compute((n, 3), "colours", |[i, c]| {
//!     let bits = packed.at([i]) >> (c * 10).cast(ElementType::U32) & 0x3ff;
//!     bits.cast(ElementType::F32) / 1023.0
//! })?;
//!
//! let device = Device::cpu();
//! let kernel = te::auto::build(&[&colours])?.build(&device)?;
//! let given = device.tensor(&[0x3ffu32, 0x3ff << 10 | 0x3ff << 20], [2])?;
//! let mut made = device.zeros::<f32>([2, 3])?;
//! kernel.run_bound(&[(&packed, (&given).into()), (&colours, (&mut made).into())])?;
//! assert_eq!(made.to_vec::<f32>()?, [1.0, 0.0, 0.0, 0.0, 1.0, 1.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Shapes that are known when it runs
//!
//! A [`var`](crate::te::var()) is an extent that a run brings. One kernel takes any shape and any strides of its
//! inputs. It compiles once for every class of shapes that it meets.
//!
//! ```
//! use epilogue::{Device, te};
//!
//! let (n, m) = (te::var("n"), te::var("m"));
//! let x = te::placeholder([n, m], "x");
//! let sums = te::ops::sum(&x, 1)?;
//! let device = Device::cpu();
//! let kernel = te::auto::build(&[&sums])?.build(&device)?;
//!
//! let matrix = device.tensor(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
//! let mut rows = device.zeros::<f32>([2])?;
//! kernel.run_bound(&[(&x, (&matrix).into()), (&sums, (&mut rows).into())])?;
//! assert_eq!(rows.to_vec::<f32>()?, [6.0, 15.0]);
//!
//! let turned = matrix.transpose()?; // a view of shape [3, 2]
//! let mut columns = device.zeros::<f32>([3])?;
//! kernel.run_bound(&[(&x, (&turned).into()), (&sums, (&mut columns).into())])?;
//! assert_eq!(columns.to_vec::<f32>()?, [5.0, 7.0, 9.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Two variables are two sizes, even if they have one name. Use one variable where sizes are equal.
//!
//! # A recurrent cell
//!
//! A [`scan`](crate::te::scan()) is a recurrence along the first dimension, which is time. It needs three tensors of one
//! shape but for the steps: `init` for the first steps, `update` for all later ones, and a placeholder through which the
//! update reads earlier steps. This is `h[t] = relu(x[t] + h[t-1]·W)`:
//!
//! ```
//! use epilogue::ops::relu;
//! use epilogue::{Device, te};
//!
//! let (steps, batch, hidden) = (te::var("steps"), te::var("batch"), te::var("hidden"));
//! let x = te::placeholder([steps, batch, hidden], "x");
//! let w = te::placeholder([hidden, hidden], "W");
//! let state = te::placeholder([steps, batch, hidden], "h");
//!
//! let one_step = [te::Expr::from(1), batch.into(), hidden.into()];
//! let init = te::compute(one_step, "init", |[t, b, i]| relu(x.at([t, b, i])))?;
//! let k = te::reduce_axis((0, hidden), "k");
//! let product = te::compute([steps, batch, hidden], "product", |[t, b, i]| {
//!     te::sum(state.at([t - 1, b.into(), k.into()]) * w.at([k, i]), [k])
//! })?;
//! let update =
//!     te::compute([steps, batch, hidden], "update", |[t, b, i]| relu(x.at([t, b, i]) + product.at([t, b, i])))?;
//! let h = te::scan(&init, &update, &state, &[])?;
//!
//! let device = Device::cpu();
//! let kernel = te::auto::build(&[&h])?.build(&device)?;
//! let xs = device.tensor(&[1f32, 2.0, 0.0, -3.0, 1.0, 1.0], [3, 1, 2])?;
//! let ws = device.tensor(&[0f32, 1.0, 1.0, 0.0], [2, 2])?; // swaps the two
//! let mut states = device.zeros::<f32>([3, 1, 2])?;
//! kernel.run_bound(&[(&x, (&xs).into()), (&w, (&ws).into()), (&h, (&mut states).into())])?;
//! assert_eq!(states.to_vec::<f32>()?, [1.0, 2.0, 2.0, 0.0, 1.0, 3.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! On a GPU, all steps of this cell are one launch if a row's states and stages fit a block's shared memory. A step
//! must also be too small to occupy the whole device. Else a step is a few kernels. The page of
//! [`scan_all`](crate::te::auto::scan_all) says more. Its products don't run on tensor cores: for wide cells, compute
//! the input's product for all steps with a [`Gemm`](crate::Gemm) first.
//!
//! If the update is linear in the state, as in a cumulative sum, time is cut into parts that are computed in parallel.
//! That changes the order of sums, so only [`Order::Device`](crate::te::auto::Order::Device) allows it, which is the
//! default. [`order`](crate::te::auto::Automatic::order) asks for more:
//!
//! ```
//! use epilogue::te::{self, auto::Order};
//!
//! let x = te::placeholder([te::var("n")], "x");
//! let sums = te::ops::cumsum(&x, 0)?;
//! assert!(te::auto::build(&[&sums])?.is_parallel_in_time());
//! assert!(!te::auto::build(&[&sums])?.order(Order::Exact).is_parallel_in_time());
//! # Ok::<(), te::TeError>(())
//! ```
//!
//! # With a schedule
//!
//! A [`Schedule`](crate::te::Schedule) holds a stage for every computation. Primitives change its loops: [`split`],
//! [`fuse`], [`reorder`], [`bind`] (to blocks and threads of a GPU), [`vectorize`], [`parallel`], [`unroll`],
//! [`compute_at`], [`rfactor`] and more, with TVM's names and meaning. [`lower`](crate::te::lower()) makes a
//! [`Program`](crate::te::Program) of it.
//!
//! ```
//! use epilogue::te;
//!
//! let (n, m) = (te::var("n"), te::var("m"));
//! let a = te::placeholder([n, m], "A");
//! let k = te::reduce_axis((0, m), "k");
//! let b = te::compute([n], "B", |[i]| te::sum(a.at([i, k]), [k]))?;
//!
//! // 32 rows a block, a thread for each.
//! let mut schedule = te::create_schedule(&[&b]);
//! let (block, thread) = schedule.stage(&b)?.split(b.axis(0)?, 32)?;
//! schedule.stage(&b)?.bind(block, te::thread_axis("blockIdx.x"))?;
//! schedule.stage(&b)?.bind(thread, te::thread_axis("threadIdx.x"))?;
//!
//! let program = te::lower(&schedule, &[&a, &b], "row_sums")?;
//! let text = program.script(); // the loops, as TVMScript
//! assert!(text.contains("blockIdx.x"));
//!
//! // The interpreter runs it on any computer, statement by statement.
//! let mut matrix = te::Array::new(te::DType::F32, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
//! let mut sums = te::Array::unwritten(te::DType::F32, &[2]);
//! program.interpret_bound(&mut [(&a, &mut matrix), (&b, &mut sums)])?;
//! assert_eq!(sums.values(), [6.0, 15.0]);
//! # Ok::<(), te::TeError>(())
//! ```
//!
//! [`Program::build`](crate::te::Program::build) compiles it for a device: by NVRTC for a GPU or an emulated one, by
//! Cranelift for the CPU. That needs the feature `native`, which is not on by default. The native code gives the same bits
//! as the interpreter.
//!
//! ```
//! # if cfg!(not(feature = "native")) { return Ok(()); }
//! use epilogue::{Device, te};
//! # let (n, m) = (te::var("n"), te::var("m"));
//! # let a = te::placeholder([n, m], "A");
//! # let k = te::reduce_axis((0, m), "k");
//! # let b = te::compute([n], "B", |[i]| te::sum(a.at([i, k]), [k]))?;
//!
//! // The same sums for a CPU: rows on several threads.
//! let mut schedule = te::create_schedule(&[&b]);
//! schedule.stage(&b)?.parallel(b.axis(0)?)?;
//! let program = te::lower(&schedule, &[&a, &b], "row_sums")?;
//!
//! let device = Device::cpu();
//! let kernel = program.build(&device)?;
//! let matrix = device.tensor(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
//! let mut sums = device.zeros::<f32>([2])?;
//! kernel.run_bound(&[(&a, (&matrix).into()), (&b, (&mut sums).into())])?;
//! assert_eq!(sums.to_vec::<f32>()?, [6.0, 15.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `te::native::compile` does the same for slices of the host, without devices and tensors.
//!
//! | | automatic | scheduled |
//! |---|---|---|
//! | who chooses the loops | the library, by shapes, strides and device | you |
//! | when it is compiled | at the first run of each class of shapes | once, by `build` |
//! | scans over time in parallel | where that is proven right | no |
//! | tensor cores | no | by an intrinsic of your own ([`tensorize`]) |
//! | prints as | `choice`, and CUDA C++ after a run | TVMScript, and CUDA C++ |
//!
//! [`split`]: crate::te::Stage::split
//! [`fuse`]: crate::te::Stage::fuse
//! [`reorder`]: crate::te::Stage::reorder
//! [`bind`]: crate::te::Stage::bind
//! [`vectorize`]: crate::te::Stage::vectorize
//! [`parallel`]: crate::te::Stage::parallel
//! [`unroll`]: crate::te::Stage::unroll
//! [`compute_at`]: crate::te::Schedule::compute_at
//! [`rfactor`]: crate::te::Schedule::rfactor
//! [`tensorize`]: crate::te::Stage::tensorize
