//! Recipes: how do I …?
//!
//! Every recipe is a whole function, and a small run on the CPU if it fits. Most runs use the same product, so that the
//! numbers are easy to follow:
//!
//! ```
//! use epilogue::prelude::*;
//!
//! #[epilogue]
//! fn plain(accum: Accum) -> Tensor {
//!     let d = accum;
//!     d
//! }
//!
//! let device = Device::cpu();
//! let a = device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?;
//! let b = device.tensor(&[1f32, 1.0, 0.0, 1.0], [2, 2])?;
//! let mut d = device.zeros::<f32>([2, 2])?;
//! Gemm::plan::<Plain>(&device, &a, &b)?.run(&a, &b, Plain { d: &mut d })?;
//! assert_eq!(d.to_vec::<f32>()?, [1.0, 3.0, 3.0, 7.0]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! If a recipe below doesn't make them itself, `device`, `a`, `b` and `d` are these. All begin with
//! `use epilogue::prelude::*;`. A program would keep the plan: see [`plans`](super::plans).
//!
//! The recipes here compute element by element; further ones are on pages of their own:
//!
//! | page | recipes |
//! |---|---|
//! | [`reductions`] | norms, softmax, scales of rows, cross-entropy, the largest, your own |
//! | [`training`] | dropout, gradients, backward passes |
//! | [`operands`] | batches, experts, convolutions, views, products of 8-bit types, scales of blocks |
//!
//! # Add a bias
//!
//! A [`RowVector`](crate::language::RowVector) has one value for each column: the bias of a linear layer. A
//! [`ColumnVector`](crate::language::ColumnVector) has one value for each row.
//!
//! ```
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn bias(accum: Accum, bias: RowVector) -> Tensor {
//!     let d = accum + bias;
//!     d
//! }
//! # let device = Device::cpu();
//! # let (a, b) = (device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1f32, 1.0, 0.0, 1.0], [2, 2])?);
//! # let mut d = device.zeros::<f32>([2, 2])?;
//!
//! let values = device.tensor(&[10f32, -10.0], [2])?;
//! Gemm::plan::<Bias>(&device, &a, &b)?.run(&a, &b, Bias { bias: &values, d: &mut d })?;
//! assert_eq!(d.to_vec::<f32>()?, [11.0, -7.0, 13.0, -3.0]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Apply an activation
//!
//! [`ops`](crate::ops) has `relu`, `leaky_relu`, `gelu`, `gelu_tanh`, `silu`, `sigmoid`, `softplus`, `tanh`, `hardswish` and
//! others.
//! Another one is a function under [`#[elementwise]`](crate::prelude::elementwise):
//!
//! ```
//! # use epilogue::prelude::*;
//! #[elementwise]
//! fn squared_relu(x: f32) -> f32 {
//!     let r = x.max(0.0);
//!     r * r
//! }
//!
//! #[epilogue]
//! fn bias_squared_relu(accum: Accum, bias: RowVector) -> Tensor {
//!     let d = squared_relu(accum + bias);
//!     d
//! }
//! # let device = Device::cpu();
//! # let (a, b) = (device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1f32, 1.0, 0.0, 1.0], [2, 2])?);
//! # let mut d = device.zeros::<f32>([2, 2])?;
//!
//! let bias = device.tensor(&[-2f32, -4.0], [2])?;
//! Gemm::plan::<BiasSquaredRelu>(&device, &a, &b)?.run(&a, &b, BiasSquaredRelu { bias: &bias, d: &mut d })?;
//! assert_eq!(d.to_vec::<f32>()?, [0.0, 0.0, 1.0, 9.0]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Gate a feed-forward layer (SwiGLU)
//!
//! An epilogue has one [`Accum`](crate::language::Accum) for each B, up to four, and each is the product of the same A with
//! its own B: A is read once, and what is between the two products and their gate never reaches memory. The B are tensors of
//! their own, or views of one packed weight, stacked or column by column in turn.
//!
//! ```
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn swiglu(gate: Accum, up: Accum) -> Tensor {
//!     let d = silu(gate) * up;
//!     d
//! }
//! # let device = Device::cpu();
//!
//! let x = device.tensor(&[1f32, 2.0], [1, 2])?;
//! let packed = device.tensor(&[1f32, 1.0, 3.0, 0.0, 1.0, 5.0, 2.0, 1.0], [4, 2])?; // [2N, K]: gate's rows, then up's
//! let (gate, up) = (packed.slice(0, 0..2)?.transpose()?, packed.slice(0, 2..4)?.transpose()?);
//! let mut d = device.zeros::<f32>([1, 2])?;
//! Gemm::plan::<Swiglu>(&device, &x, [&gate, &up])?.run(&x, [&gate, &up], Swiglu { d: &mut d })?;
//! assert!((d.to_vec::<f32>()?[1] - 3.0 / (1.0 + (-3f32).exp()) * 4.0).abs() < 1e-5); // 3 gates 4
//! # let drawing = concat!(env!("CARGO_MANIFEST_DIR"), "/src/guide/pictures/swiglu.svg");
//! # expect_test::expect_file![drawing].assert_eq(&Gemm::plan::<Swiglu>(&device, &x, [&gate, &up])?.tree().to_svg());
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Its tree, as [`to_svg`](crate::evt::ValidTree::to_svg) draws it:
//!
#![doc = include_str!("pictures/swiglu.svg")]
//!
//! # Add a residual
//!
//! Read it as a `Tensor`, or change it in place as a [`TensorMut`](crate::language::TensorMut), which is one argument
//! that is read and written:
//!
//! ```
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn bias_residual(accum: Accum, bias: RowVector, residual: Tensor) -> Tensor {
//!     let d = accum + bias + residual;
//!     d
//! }
//!
//! #[epilogue]
//! fn add_to(accum: Accum, x: TensorMut) -> Tensor {
//!     x += accum;
//!     x
//! }
//! # let device = Device::cpu();
//! # let (a, b) = (device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1f32, 1.0, 0.0, 1.0], [2, 2])?);
//! # let mut d = device.zeros::<f32>([2, 2])?;
//!
//! let bias = device.tensor(&[10f32, 20.0], [2])?;
//! let mut x = device.full::<f32>([2, 2], 100.0)?;
//! let gemm = Gemm::plan::<BiasResidual>(&device, &a, &b)?;
//! gemm.run(&a, &b, BiasResidual { bias: &bias, residual: &x, d: &mut d })?;
//! assert_eq!(d.to_vec::<f32>()?, [111.0, 123.0, 113.0, 127.0]);
//!
//! Gemm::plan::<AddTo>(&device, &a, &b)?.run(&a, &b, AddTo { x: &mut x })?;
//! assert_eq!(x.to_vec::<f32>()?, [101.0, 103.0, 103.0, 107.0]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Without `TensorMut`, an output must not share memory with anything that is read. A run that shares it is refused.
//!
//! # Scale rows and columns, to dequantise
//!
//! Activations with one scale for each row, weights with one for each column. The element type of a vector is A's where
//! none is written, so write it when A is quantised:
//!
//! ```
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn dequantise(accum: Accum, rows: ColumnVector<f32>, columns: RowVector<f32>) -> Tensor<f32> {
//!     let d = rows * columns * accum;
//!     d
//! }
//! # let device = Device::cpu();
//! # let mut d = device.zeros::<f32>([2, 2])?;
//!
//! let a = device.tensor(&[1i8, 2, 3, 4], [2, 2])?;
//! let b = device.tensor(&[1i8, 1, 0, 1], [2, 2])?;
//! let rows = device.tensor(&[1f32, 2.0], [2])?;
//! let columns = device.tensor(&[0.5f32, 10.0], [2])?;
//! let gemm = Gemm::plan::<Dequantise>(&device, &a, &b)?;
//! gemm.run(&a, &b, Dequantise { rows: &rows, columns: &columns, d: &mut d })?;
//! assert_eq!(d.to_vec::<f32>()?, [0.5, 30.0, 3.0, 140.0]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! FP8 operands (`f8e4m3`, `f8e5m2`) are scaled by the same function. Scales that change along K can't be applied here, since
//! the epilogue sees the sum over all of K: for FP8 see "Scales of blocks" in [`operands`].
//!
//! # Add a low-rank update (LoRA)
//!
//! `x·W + scale · (x·A)·B`, with A `[K, r]` and B `[r, N]`. The two small products come first. The large one reads their
//! result as a tensor:
//!
//! ```
//! # use epilogue::prelude::*;
//! # #[epilogue]
//! # fn plain(accum: Accum) -> Tensor { let d = accum; d }
//! #[epilogue]
//! fn lora(accum: Accum, update: Tensor, scale: Scalar) -> Tensor {
//!     let d = accum + scale * update;
//!     d
//! }
//! # let device = Device::cpu();
//! # let (x, weights) = (device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1f32, 1.0, 0.0, 1.0], [2, 2])?);
//! # let mut d = device.zeros::<f32>([2, 2])?;
//!
//! let (down, up) = (device.full::<f32>([2, 1], 1.0)?, device.tensor(&[1f32, 2.0], [1, 2])?);
//! let (mut narrow, mut update) = (device.zeros::<f32>([2, 1])?, device.zeros::<f32>([2, 2])?);
//! let product = Gemm::plan::<Plain>(&device, &x, &down)?;
//! product.run(&x, &down, Plain { d: &mut narrow })?; // 3, 7
//! product.run(&narrow, &up, Plain { d: &mut update })?; // 3, 6, 7, 14
//! let gemm = Gemm::plan::<Lora>(&device, &x, &weights)?;
//! gemm.run(&x, &weights, Lora { update: &update, scale: 0.5, d: &mut d })?;
//! assert_eq!(d.to_vec::<f32>()?, [2.5, 6.0, 6.5, 14.0]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! With `scale` 0, `update` is not read: the rule that BLAS has for beta.
//!
//! # Masks, and positions
//!
//! An element knows its place: [`row()`](crate::language::row), [`column()`](crate::language::column) and
//! [`batch()`](crate::language::batch) are integers. So a causal mask needs no memory. Neither do positions with slopes
//! that differ by head (ALiBi), if each batch is a head:
//!
//! ```
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn scores(accum: Accum, slope: DeviceScalar<f32>) -> Tensor {
//!     let biased = accum + slope * real(column() - row());
//!     let d = if column() > row() { f32::NEG_INFINITY } else { biased };
//!     d
//! }
//! # let device = Device::cpu();
//! # let (a, b) = (device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1f32, 1.0, 0.0, 1.0], [2, 2])?);
//!
//! let a = a.broadcast_to([2, 2, 2])?; // two heads
//! let slope = device.tensor(&[1f32, 0.5], [2])?;
//! let mut d = device.zeros::<f32>([2, 2, 2])?;
//! Gemm::plan::<Scores>(&device, &a, &b)?.run(&a, &b, Scores { slope: &slope, d: &mut d })?;
//! assert_eq!(d.to_vec::<f32>()?, [1.0, f32::NEG_INFINITY, 2.0, 7.0, 1.0, f32::NEG_INFINITY, 2.5, 7.0]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! The scores above the diagonal are not multiplied: a tile in which no element needs the product is left out, on every
//! device, so a causal product takes about half the time. With the mask in memory it takes 1.6
//! to 1.8 times as long, on two cores of a Zen 5. The conditions may compare positions, extents and integers that all elements share. An
//! example is a sentence's length, `column() >= integer(length)`, where `length` is a `DeviceScalar<i32>` of each
//! batch. The printed choice of a kernel says how much is known to be left out. Elements that a mask in memory hides
//! are multiplied.
//!
//! Masks in memory are tensors and vectors of `bool`, which are truth values in the body; a comparison that is returned
//! makes one, a byte for each element:
//!
//! ```
//! # use epilogue::prelude::*;
//! /// Keeps what is positive and not padding, and says what it kept.
//! #[epilogue]
//! fn kept(accum: Accum, padding: RowVector<bool>) -> (Tensor, Tensor<bool>) {
//!     let keep = accum > 1.0 && !padding;
//!     let d = if keep { accum } else { 0.0 };
//!     (d, keep)
//! }
//! # let device = Device::cpu();
//! # let (a, b) = (device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1f32, 1.0, 0.0, 1.0], [2, 2])?);
//! # let mut d = device.zeros::<f32>([2, 2])?;
//!
//! let padding = device.tensor(&[true, false], [2])?;
//! let mut keep = device.zeros::<bool>([2, 2])?;
//! Gemm::plan::<Kept>(&device, &a, &b)?.run(&a, &b, Kept { padding: &padding, d: &mut d, keep: &mut keep })?;
//! assert_eq!(keep.to_vec::<bool>()?, [false, true, false, true]);
//! assert_eq!(d.to_vec::<f32>()?, [0.0, 3.0, 0.0, 7.0]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! A triangle of a tensor is written in place, and the rest stays: `c = if column() <= row() { accum } else { c };` for a
//! `TensorMut`. A one-hot row is `if column() == integer(labels) { 1.0 } else { 0.0 }`, where
//! [`integer`](crate::language::integer) reads labels exactly: as numbers, those above 2^24 would be rounded.
//!
//! # One mask for many heads
//!
//! Scores are `[sentences · heads, tokens, tokens]`, and a mask is there once for each sentence. A mask that all share
//! needs nothing: leave out its batch axis. Otherwise repeat it. [`broadcast_to`](crate::DeviceTensor::broadcast_to)
//! repeats without a copy, but joining the two axes to one needs the copy:
//!
//! ```
//! # use epilogue::prelude::*;
//! /// Padding is a row vector: the same for all queries of a sentence.
//! #[epilogue]
//! fn padded(accum: Accum, padding: RowVector) -> Tensor {
//!     let d = accum + padding;
//!     d
//! }
//! # let device = Device::cpu();
//! # let (a, b) = (device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1f32, 1.0, 0.0, 1.0], [2, 2])?);
//!
//! let padding = device.tensor(&[0f32, -100.0, 0.0, 0.0], [2, 2])?; // [sentences, tokens]
//! let repeated = padding.unsqueeze(1)?.broadcast_to([2, 2, 2])?; // [sentences, heads, tokens]
//! let per_head = repeated.contiguous()?.reshape([4, 2])?;
//!
//! let a = a.broadcast_to([4, 2, 2])?; // the same A for all
//! let mut d = device.zeros::<f32>([4, 2, 2])?;
//! Gemm::plan::<Padded>(&device, &a, &b)?.run(&a, &b, Padded { padding: &per_head, d: &mut d })?;
//! let (first, second) = ([1f32, -97.0, 3.0, -93.0], [1f32, 3.0, 3.0, 7.0]);
//! assert_eq!(d.to_vec::<f32>()?, [first, first, second, second].concat());
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! A mask of `[sentences, tokens, tokens]` goes the same way: `unsqueeze(1)`, `broadcast_to`, `contiguous`, `reshape`.

pub mod operands;
pub mod reductions;
pub mod training;
