//! Recipes: how do I …?
//!
//! Every recipe is a whole function, and a small run on the CPU where it fits. Most runs use the same product, so that the
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
//! Where a recipe below doesn't make them itself, `device`, `a`, `b` and `d` are these. All begin with
//! `use epilogue::prelude::*;`. A program would keep the plan: see [`plans`](super::plans).
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
//! Without `TensorMut`, an output must not share memory with anything that is read. Such a run is refused.
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
//! Scales that change along K, one for each group of 128 or so, can't be applied here: the epilogue sees the sum over all
//! of K.
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
//! # Normalise rows (RMSNorm) into the next product
//!
//! A row divided by a number can be divided after the next product as well: `(h / rms)·W = (h·W) / rms`. So the product
//! that makes `h` also gives what every row is to be multiplied by, and the next product's epilogue multiplies. No kernel
//! stands between the two: a value of each row is computed by the block that completes the row's sum. The norm's weights
//! multiply the rows of W once, when the model is loaded.
//!
//! ```
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn residual_factor(accum: Accum, residual: Tensor, epsilon: Scalar) -> (Tensor, ColumnVector<f32>) {
//!     let h = accum + residual;
//!     let mean_square = reduction_op(h, Row, SumSquares) / real(columns());
//!     let factor = 1.0 / sqrt(mean_square + epsilon);
//!     (h, factor)
//! }
//!
//! #[epilogue]
//! fn normalised(accum: Accum, factor: ColumnVector<f32>) -> Tensor {
//!     let d = accum * factor;
//!     d
//! }
//! # let device = Device::cpu();
//! # let (a, b) = (device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1f32, 1.0, 0.0, 1.0], [2, 2])?);
//! # let mut d = device.zeros::<f32>([2, 2])?;
//!
//! let residual = device.tensor(&[0f32, 4.0, 14.0, 24.0], [2, 2])?;
//! let (mut h, mut factor) = (device.zeros::<f32>([2, 2])?, device.zeros::<f32>([2])?);
//! let gemm = Gemm::plan::<ResidualFactor>(&device, &a, &b)?;
//! gemm.run(&a, &b, ResidualFactor { residual: &residual, epsilon: 0.0, h: &mut h, factor: &mut factor })?;
//! assert_eq!(h.to_vec::<f32>()?, [1.0, 7.0, 17.0, 31.0]);
//! assert_eq!(factor.to_vec::<f32>()?, [1.0 / 5.0, 1.0 / 25.0]); // of the means 25 and 625
//!
//! let weights = device.tensor(&[25f32, 0.0, 0.0, 25.0], [2, 2])?;
//! let gemm = Gemm::plan::<Normalised>(&device, &h, &weights)?;
//! gemm.run(&h, &weights, Normalised { factor: &factor, d: &mut d })?;
//! assert_eq!(d.to_vec::<f32>()?, [5.0, 35.0, 17.0, 31.0]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Written as the result, a reduction is f32 where no type is written, also when A is f16 (f64 when A is f64); what is
//! computed from it has A's type as any vector. The squares are those of `h` before it is rounded to its own type. Where no
//! product comes first, [`rms_norm`](crate::te::ops::rms_norm)
//! and [`layer_norm`](crate::te::ops::layer_norm) are kernels of their own.
//!
//! # Softmax over a row of the result
//!
//! The result of a reduction is a value, so a softmax is written as it is defined. What needs a whole row is computed when
//! that is complete, in launches after the product's on a GPU, and while the rows are in a cache on the CPU.
//!
//! ```
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn attention(accum: Accum, mask: Tensor, scale: Scalar) -> Tensor {
//!     let x = scale * accum + mask;
//!     let e = exp(x - reduction_op(x, Row, Max));
//!     let weights = e / reduction_op(e, Row, Add);
//!     weights
//! }
//! # let device = Device::cpu();
//! # let (a, b) = (device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1f32, 1.0, 0.0, 1.0], [2, 2])?);
//!
//! let mask = device.tensor(&[-1f32, -3.0, 0.0, f32::NEG_INFINITY], [2, 2])?;
//! let mut weights = device.zeros::<f32>([2, 2])?;
//! let gemm = Gemm::plan::<Attention>(&device, &a, &b)?;
//! gemm.run(&a, &b, Attention { mask: &mask, scale: 1.0, weights: &mut weights })?;
//! assert_eq!(weights.to_vec::<f32>()?, [0.5, 0.5, 1.0, 0.0]); // of 0, 0 and 3, -∞
//! # let drawing = concat!(env!("CARGO_MANIFEST_DIR"), "/src/guide/pictures/attention.svg");
//! # expect_test::expect_file![drawing].assert_eq(&gemm.tree().to_svg());
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Its tree: each phase needs the sums of the one before it.
//!
#![doc = include_str!("pictures/attention.svg")]
//!
//! A log-softmax returns `x - largest - log(sum)` in its place.
//!
//! Where an upper bound of the scores is known before that is not far above the largest one of any row, for example with
//! normalised queries and keys, no phase is needed: return `exp(scale * accum - bound)` and its sums, and divide by the sums
//! in the next product, as in the recipe before.
//!
//! # Normalise rows of the result (RMSNorm, LayerNorm, L2)
//!
//! ```
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn rms_norm(accum: Accum, residual: Tensor, weight: RowVector, epsilon: Scalar) -> (Tensor, Tensor) {
//!     let sum = accum + residual;
//!     let mean_square = reduction_op(sum, Row, SumSquares) / real(columns());
//!     let d = sum * rsqrt(mean_square + epsilon) * weight;
//!     (sum, d)
//! }
//!
//! #[epilogue]
//! fn layer_norm(accum: Accum, weight: RowVector, shift: RowVector, epsilon: Scalar) -> Tensor {
//!     let centred = accum - reduction_op(accum, Row, Mean);
//!     let d = centred * rsqrt(reduction_op(accum, Row, Variance) + epsilon) * weight + shift;
//!     d
//! }
//!
//! #[epilogue]
//! fn unit(accum: Accum) -> Tensor {
//!     let d = accum * rsqrt(reduction_op(accum, Row, SumSquares).max(1e-12));
//!     d
//! }
//! # let device = Device::cpu();
//! # let (a, b) = (device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1f32, 1.0, 0.0, 1.0], [2, 2])?);
//! # let mut d = device.zeros::<f32>([2, 2])?;
//!
//! let (weight, shift) = (device.full::<f32>([2], 10.0)?, device.full::<f32>([2], 0.5)?);
//! let gemm = Gemm::plan::<LayerNorm>(&device, &a, &b)?;
//! gemm.run(&a, &b, LayerNorm { weight: &weight, shift: &shift, epsilon: 0.0, d: &mut d })?;
//! assert_eq!(d.to_vec::<f32>()?, [-9.5, 10.5, -9.5, 10.5]); // of 1, 3 and 3, 7
//! # assert_eq!((RmsNorm::tree().outputs().len(), Unit::tree().outputs().len()), (2, 1));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! `Variance` is the mean square of the differences from the mean, not a difference of two sums, which would cancel; the mean
//! that both need is computed once. Where the rows
//! are normalised for the next product only, the recipe before needs no second pass over them.
//!
//! # Quantise rows to 8-bit floats, with their scales
//!
//! The largest magnitude of each row becomes 448, the largest FP8 number. A row of zeros has the scale that is the least.
//!
//! ```
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn quantised(accum: Accum) -> (Tensor<f8e4m3>, ColumnVector) {
//!     let scale = max(reduction_op(accum, Row, AbsMax) / 448.0, 1e-12);
//!     let q = accum / scale;
//!     (q, scale)
//! }
//! # let device = Device::cpu();
//! # let (a, b) = (device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1f32, 1.0, 0.0, 1.0], [2, 2])?);
//! # let (mut q, mut scale) = (device.zeros::<f8e4m3>([2, 2])?, device.zeros::<f32>([2])?);
//!
//! let gemm = Gemm::plan::<Quantised>(&device, &a, &b)?;
//! gemm.run(&a, &b, Quantised { q: &mut q, scale: &mut scale })?;
//! assert_eq!(q.to_vec::<f8e4m3>()?, [144.0, 448.0, 192.0, 448.0].map(f8e4m3::from_f32)); // 149.3 is no FP8 number
//! assert_eq!(scale.to_vec::<f32>()?, [3.0 / 448.0, 7.0 / 448.0]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Cross-entropy
//!
//! The loss of a row is `logsumexp(logits) - logits[label]`, and the logits are no result. (Between two phases a plan keeps
//! them in memory of its own.) The element whose column is the label is taken out by a sum; a label that is no column, such
//! as −100, picks 0.
//!
//! ```
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn cross_entropy(accum: Accum, labels: ColumnVector<i64>) -> (ColumnVector, ColumnVector) {
//!     let log_sum_exp = reduction_op(accum, Row, LogSumExp);
//!     let picked = reduction_op(if column() == integer(labels) { accum } else { 0.0 }, Row, Add);
//!     let loss = log_sum_exp - picked;
//!     (loss, log_sum_exp)
//! }
//! # let device = Device::cpu();
//! # let (a, b) = (device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1f32, 1.0, 0.0, 1.0], [2, 2])?);
//! # let (mut loss, mut log_sum_exp) = (device.zeros::<f32>([2])?, device.zeros::<f32>([2])?);
//!
//! let labels = device.tensor(&[1i64, 0], [2])?;
//! let gemm = Gemm::plan::<CrossEntropy>(&device, &a, &b)?;
//! gemm.run(&a, &b, CrossEntropy { labels: &labels, loss: &mut loss, log_sum_exp: &mut log_sum_exp })?;
//! let expected = [(-2f32).exp().ln_1p(), 4.0 + (-4f32).exp().ln_1p()]; // of 1, 3 and 3, 7
//! for (x, y) in loss.to_vec::<f32>()?.into_iter().zip(expected) {
//!     assert!((x - y).abs() < 1e-5);
//! }
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which is the largest
//!
//! The class of the largest logit in each row, its score, and whether it is the label. Neither logits nor anything else of M×N
//! is stored. Of equal logits the first counts, so the answer is the same on every device and at every run.
//!
//! ```
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn classified(
//!     accum: Accum,
//!     bias: RowVector,
//!     labels: ColumnVector<i64>,
//! ) -> (ColumnVector<i64>, ColumnVector, ColumnVector<bool>) {
//!     let logits = accum + bias;
//!     let class = reduction_op(logits, Row, ArgMax);
//!     let score = reduction_op(logits, Row, Max);
//!     let right = class == integer(labels);
//!     (class, score, right)
//! }
//! # let device = Device::cpu();
//! # let (a, b) = (device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1f32, 1.0, 0.0, 1.0], [2, 2])?);
//! # let (mut class, mut score) = (device.zeros::<i64>([2])?, device.zeros::<f32>([2])?);
//! # let mut right = device.zeros::<bool>([2])?;
//!
//! let (bias, labels) = (device.tensor(&[2f32, 0.0], [2])?, device.tensor(&[1i64, 1], [2])?);
//! let gemm = Gemm::plan::<Classified>(&device, &a, &b)?;
//! let run = Classified { bias: &bias, labels: &labels, class: &mut class, score: &mut score, right: &mut right };
//! gemm.run(&a, &b, run)?;
//! assert_eq!(class.to_vec::<i64>()?, [0, 1]); // of 3, 3 and 5, 7
//! assert_eq!((score.to_vec::<f32>()?, right.to_vec::<bool>()?), (vec![3.0, 7.0], vec![false, true]));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # A reduction of your own
//!
//! A module under [`#[reducer]`](crate::prelude::reducer) says how values combine, with up to four numbers on the way. Mean and
//! variance in one pass, so that on a GPU nothing of M×N is written for a second one:
//!
//! ```
//! # use epilogue::prelude::*;
//! /// How many, their mean, and the sum of the squares of the differences to it (Chan, Golub and LeVeque, 1979).
//! #[reducer]
//! mod variance {
//!     type State = (f32, f32, f32);
//!     const IDENTITY: State = (0.0, 0.0, 0.0);
//!
//!     fn lift(x: f32) -> State {
//!         (1.0, x, 0.0)
//!     }
//!
//!     fn combine(a: State, b: State) -> State {
//!         let n = a.0 + b.0;
//!         let share = if n > 0.0 { b.0 / n } else { 0.0 };
//!         let d = b.1 - a.1;
//!         (n, a.1 + d * share, a.2 + b.2 + d * d * a.0 * share)
//!     }
//!
//!     fn finish(s: State) -> f32 {
//!         s.2 / s.0
//!     }
//! }
//!
//! #[epilogue]
//! fn deviation(accum: Accum) -> (Tensor, ColumnVector) {
//!     let d = accum;
//!     let deviation = sqrt(reduction_op(accum, Row, variance));
//!     (d, deviation)
//! }
//! # let device = Device::cpu();
//! # let (a, b) = (device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1f32, 1.0, 0.0, 1.0], [2, 2])?);
//! # let mut d = device.zeros::<f32>([2, 2])?;
//!
//! let mut deviation = device.zeros::<f32>([2])?;
//! let gemm = Gemm::plan::<Deviation>(&device, &a, &b)?;
//! gemm.run(&a, &b, Deviation { d: &mut d, deviation: &mut deviation })?;
//! assert_eq!(deviation.to_vec::<f32>()?, [1.0, 2.0]); // of 1, 3 and of 3, 7
//! assert_eq!(variance::reduce([3.0, 7.0]), 4.0); // the same functions on the host
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! `combine` must be associative, up to rounding, and commutative: see [`language`](crate::language#reductions).
//!
//! # Dropout, and the same mask in the backward pass
//!
//! `random(seed)` is a number from 0 to 1 for each element, which follows from the seed and the element's row, column and
//! batch alone. So a backward product with the same seed has the same mask, whatever its kernel or device, and nothing is
//! stored:
//!
//! ```
//! # use epilogue::prelude::*;
//! #[elementwise]
//! fn dropout(x: f32, u: f32, p: f32) -> f32 {
//!     if u < p { 0.0 } else { x / (1.0 - p) }
//! }
//!
//! #[epilogue]
//! fn forward(accum: Accum, bias: RowVector, p: Scalar, seed: Seed) -> Tensor {
//!     let y = dropout(accum + bias, random(seed), p);
//!     y
//! }
//!
//! #[epilogue]
//! fn backward(accum: Accum, p: Scalar, seed: Seed) -> (Tensor, RowVector) {
//!     let dz = dropout(accum, random(seed), p);
//!     let bias_gradient = reduction_op(dz, Column, Add);
//!     (dz, bias_gradient)
//! }
//! # let device = Device::cpu();
//! # let (m, n) = (40, 50);
//! # let (a, b) = (device.tensor(&[1f32; 80], [m, 2])?, device.tensor(&[0.5f32; 100], [2, n])?);
//! # let bias = device.zeros::<f32>([n])?;
//! # let (mut y, mut dz) = (device.zeros::<f32>([m, n])?, device.zeros::<f32>([m, n])?);
//! # let mut bias_gradient = device.zeros::<f32>([n])?;
//!
//! let seed = Seed::with_offset(2024, 7); // the offset counts the steps of a training
//! let gemm = Gemm::plan::<Forward>(&device, &a, &b)?;
//! gemm.run(&a, &b, Forward { bias: &bias, p: 0.25, seed, y: &mut y })?;
//! let gradient = Gemm::plan::<Backward>(&device, &a, &b)?;
//! gradient.run(&a, &b, Backward { p: 0.25, seed, dz: &mut dz, bias_gradient: &mut bias_gradient })?;
//! let (y, dz) = (y.to_vec::<f32>()?, dz.to_vec::<f32>()?);
//! assert_eq!(y, dz); // of products that are all 1, kept are the same elements
//! let kept = y.iter().filter(|y| **y != 0.0).count();
//! assert!((1400..1600).contains(&kept), "{kept} of 2000");
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Further random numbers of an element, independent of the first, are `random(seed, 1)`, `random(seed, 2)`, and so on: as
//! for dropout twice in one epilogue. Another seed or offset needs no other kernel. In device memory a seed is a tensor of
//! two `i64`, `Seed::in_memory(&tensor)`, which recorded graphs read anew at each launch.
//!
//! Where the mask is needed by something else than a product, store it: `let keep = random(seed) >= p;` is returned as
//! `Bits`, one for each element, and a parameter of that class reads them. (As a `Tensor<bool>` each takes a byte.)
//!
//! ```
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn forward(accum: Accum, p: Scalar, seed: Seed) -> (Tensor, Bits) {
//!     let keep = random(seed) >= p;
//!     let y = if keep { accum / (1.0 - p) } else { 0.0 };
//!     (y, keep)
//! }
//!
//! #[epilogue]
//! fn backward(accum: Accum, p: Scalar, keep: Bits) -> Tensor {
//!     let dz = if keep { accum / (1.0 - p) } else { 0.0 };
//!     dz
//! }
//! # let device = Device::cpu();
//! # let (a, b) = (device.tensor(&[1f32; 80], [40, 2])?, device.tensor(&[0.5f32; 100], [2, 50])?);
//! # let (mut y, mut dz, mut keep) =
//! #     (device.zeros::<f32>([40, 50])?, device.zeros::<f32>([40, 50])?, device.zeros::<u8>([40, 7])?);
//! # let (gemm, gradient) = (Gemm::plan::<Forward>(&device, &a, &b)?, Gemm::plan::<Backward>(&device, &a, &b)?);
//! gemm.run(&a, &b, Forward { p: 0.25, seed: Seed::new(1), y: &mut y, keep: &mut keep })?;
//! gradient.run(&a, &b, Backward { p: 0.25, keep: &keep, dz: &mut dz })?;
//! assert_eq!(y.to_vec::<f32>()?, dz.to_vec::<f32>()?);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # The gradient through bias and GELU
//!
//! The forward product also stores `z`, what GELU was applied to. The backward product is `dY·Wᵀ`, whose epilogue
//! multiplies by the slope at `z`. The bias' gradient is the sum of every column of that.
//!
//! ```
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn forward(accum: Accum, bias: RowVector) -> (Tensor, Tensor) {
//!     let z = accum + bias;
//!     let y = gelu(z);
//!     (y, z)
//! }
//!
//! #[epilogue]
//! fn backward(accum: Accum, z: Tensor) -> (Tensor, RowVector) {
//!     let dz = accum * gelu_grad(z);
//!     let bias_gradient = reduction_op(dz, Column, Add);
//!     (dz, bias_gradient)
//! }
//! # assert_eq!(Forward::tree().outputs().len(), 2);
//! # let device = Device::cpu();
//! # let (a, b) = (device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1f32, 1.0, 0.0, 1.0], [2, 2])?);
//!
//! let z = device.tensor(&[40f32, 0.0, -40.0, 40.0], [2, 2])?; // the slopes are 1, 1/2, 0, 1
//! let (mut dz, mut bias_gradient) = (device.zeros::<f32>([2, 2])?, device.zeros::<f32>([2])?);
//! let gemm = Gemm::plan::<Backward>(&device, &a, &b)?;
//! gemm.run(&a, &b, Backward { z: &z, dz: &mut dz, bias_gradient: &mut bias_gradient })?;
//! assert_eq!(dz.to_vec::<f32>()?, [1.0, 1.5, 0.0, 7.0]);
//! assert_eq!(bias_gradient.to_vec::<f32>()?, [1.0, 8.5]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! The weights' gradient is a product of its own, `Xᵀ·dZ`: give `x.transpose()?` as A, and add to what is there with a
//! `TensorMut`, as in "Add a residual". The other activations have slopes too, such as `relu_grad` and `silu_grad`.
//!
//! # A backward pass that nobody writes
//!
//! `#[epilogue(backward(…))]` derives such a function from the forward one, and makes a second struct of it: here with dropout,
//! whose mask is drawn again from the same seed.
//!
//! ```
//! # use epilogue::prelude::*;
//! #[elementwise]
//! fn dropout(x: f32, u: f32, p: f32) -> f32 {
//!     if u < p { 0.0 } else { x / (1.0 - p) }
//! }
//!
//! #[epilogue(backward(through = y, saved(z), gradients(bias)))]
//! fn layer(accum: Accum, bias: RowVector, p: Scalar, seed: Seed) -> (Tensor, Tensor) {
//!     let z = accum + bias;
//!     let y = dropout(gelu(z), random(seed), p);
//!     (y, z)
//! }
//! # let device = Device::cpu();
//! # let (a, b) = (device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1f32, 1.0, 0.0, 1.0], [2, 2])?);
//!
//! let (bias, seed) = (device.tensor(&[40f32, 40.0], [2])?, Seed::new(7)); // where GELU's slope is 1
//! let (mut y, mut z) = (device.zeros::<f32>([2, 2])?, device.zeros::<f32>([2, 2])?);
//! let forward = Gemm::plan::<Layer>(&device, &a, &b)?;
//! forward.run(&a, &b, Layer { bias: &bias, p: 0.5, seed, y: &mut y, z: &mut z })?;
//!
//! // dY = dX'·W'ᵀ, the gradient that comes from the layers behind
//! let (dx, wt) = (device.full::<f32>([2, 3], 1.0)?, device.full::<f32>([3, 2], 1.0)?);
//! let (mut d_accum, mut d_bias) = (device.zeros::<f32>([2, 2])?, device.zeros::<f32>([2])?);
//! let backward = Gemm::plan::<LayerBackward>(&device, &dx, &wt)?;
//! let arguments = LayerBackward { bias: &bias, p: 0.5, seed, z: &z, d_accum: &mut d_accum, d_bias: &mut d_bias };
//! backward.run(&dx, &wt, arguments)?;
//!
//! let kept: Vec<f32> = y.to_vec::<f32>()?.iter().map(|y| if *y == 0.0 { 0.0 } else { 6.0 }).collect();
//! assert_eq!(d_accum.to_vec::<f32>()?, kept);
//! assert_eq!(d_bias.to_vec::<f32>()?, [kept[0] + kept[2], kept[1] + kept[3]]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! `LayerBackward`'s fields are the forward parameters (what no derivative needs, as `bias` here, isn't read), what was saved,
//! and the gradients: `d_accum` goes into the next products, and `d_bias` to the optimiser. See
//! [`language`](crate::language#backward-passes). By [`evt::derive`](crate::evt::derive) the same is made of trees.
//!
//! # Many products at once
//!
//! A third axis in front, L, is the batch. Where one of A and B has none, all products share it. An argument with a
//! leading axis of extent L has one value, vector or tensor for each product; without it, it is shared. Outputs have the
//! axis.
//!
//! ```
//! # use epilogue::prelude::*;
//! # #[epilogue]
//! # fn bias(accum: Accum, bias: RowVector) -> Tensor { let d = accum + bias; d }
//! # let device = Device::cpu();
//! # let b = device.tensor(&[1f32, 1.0, 0.0, 1.0], [2, 2])?;
//! let a = device.tensor(&[1f32, 2.0, 3.0, 4.0, 1.0, 0.0, 0.0, 1.0], [2, 2, 2])?; // two matrices A
//! let biases = device.tensor(&[10f32, 20.0, 0.0, 0.0], [2, 2])?; // a bias for each
//! let mut d = device.zeros::<f32>([2, 2, 2])?;
//! Gemm::plan::<Bias>(&device, &a, &b)?.run(&a, &b, Bias { bias: &biases, d: &mut d })?;
//! assert_eq!(d.to_vec::<f32>()?, [11.0, 23.0, 13.0, 27.0, 1.0, 1.0, 0.0, 1.0]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! A reduction over `(Column, Batch)` sums over the batch too. Its output has no batch axis.
//!
//! # Products of a few rows each (mixture of experts)
//!
//! [`rows`](crate::gemm::rows) divides the rows of A into groups, each with a B of its own: one run for all experts, however
//! many rows each has. The bounds are a tensor of i32, so they stay on the device where the router has computed them. What is
//! one per batch (B, row vectors, scalars, reductions along columns or of everything) is one per group; column vectors and
//! tensors have one entry for each row of A. Here the expert of a row scales by the router's weight, and the largest value
//! of each expert is kept:
//!
//! ```
//! use epilogue::gemm::rows;
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn expert(accum: Accum, bias: RowVector, weight: ColumnVector) -> (Tensor, DeviceScalar) {
//!     let d = relu(accum + bias) * weight;
//!     let largest = reduction_op(d, All, Max);
//!     (d, largest)
//! }
//! # let device = Device::cpu();
//!
//! let x = device.tensor(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [4, 2])?; // rows, sorted by expert
//! let experts = device.tensor(&[1f32, 1.0, 9.0, 9.0, 1.0, -2.0], [3, 2, 1])?;
//! let bias = device.tensor(&[0f32, 9.0, 10.0], [3, 1])?;
//! let weight = device.tensor(&[0.5f32, 1.0, 0.25, 1.0], [4])?;
//! let offsets = device.tensor(&[0i32, 3, 3, 4], [4])?; // expert 0 has rows 0 to 2, expert 1 none, expert 2 row 3
//! let (mut d, mut largest) = (device.zeros::<f32>([4, 1])?, device.zeros::<f32>([3])?);
//!
//! let grouped = rows(&x).in_groups(&offsets);
//! let gemm = Gemm::plan::<Expert>(&device, grouped, &experts)?;
//! gemm.run(grouped, &experts, Expert { bias: &bias, weight: &weight, d: &mut d, largest: &mut largest })?;
//! assert_eq!(d.to_vec::<f32>()?, [1.5, 7.0, 2.75, 1.0]);
//! assert_eq!(largest.to_vec::<f32>()?, [7.0, f32::NEG_INFINITY, 1.0]); // of no rows, the reduction's identity
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Rows`](crate::gemm::Rows) has the other forms of bounds: where each group ends, and how many rows of a matrix of its own
//! each has. Rows that no group has are left as they were. A run gives the same bits as one run for each group with the same
//! tile. [`supports`](crate::gemm::supports) says which devices have groups. On a GPU bounds that decrease or lie outside are
//! taken for the nearest that don't, and reported when results are read ([`DataError`](crate::runtime::DataError)); the CPU
//! refuses the run.
//!
//! The gradient of the experts' weights divides K instead, by the same bounds: [`depth`](crate::gemm::depth), with x
//! transposed as A and the gradient of the results as B, gives `[G, K, N]`.
//!
//! # Views, and outputs in another order
//!
//! [`slice`](crate::DeviceTensor::slice), [`permute`](crate::DeviceTensor::permute),
//! [`transpose`](crate::DeviceTensor::transpose) and [`reshape`](crate::DeviceTensor::reshape) give views of the same
//! memory. A run takes any view, for operands, arguments and outputs. So where a result is needed in another order,
//! permute the output where it is passed. Here the heads of an attention, which lie side by side in each row, are a
//! batch:
//!
//! ```
//! # use epilogue::prelude::*;
//! # #[epilogue]
//! # fn plain(accum: Accum) -> Tensor { let d = accum; d }
//! /// `[tokens, heads · width]` seen as `[heads, tokens, width]`.
//! fn heads(x: &DeviceTensor, heads: usize) -> Result<DeviceTensor, Box<dyn std::error::Error>> {
//!     let (tokens, width) = (x.shape()[0], x.shape()[1] / heads);
//!     Ok(x.reshape([tokens, heads, width])?.permute(&[1, 0, 2])?)
//! }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let device = Device::cpu();
//! # let b = device.tensor(&[1f32, 1.0, 0.0, 1.0], [2, 2])?;
//!
//! let x = device.tensor(&[1f32, 2.0, 5.0, 6.0, 3.0, 4.0, 7.0, 8.0], [2, 4])?;
//! let y = device.zeros::<f32>([2, 4])?;
//! let a = heads(&x, 2)?;
//! let mut d = heads(&y, 2)?; // a view of y
//! Gemm::plan::<Plain>(&device, &a, &b)?.run(&a, &b, Plain { d: &mut d })?;
//! assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0, 5.0, 11.0, 3.0, 7.0, 7.0, 15.0]);
//! # Ok(()) }
//! ```
//!
//! An output must reach each of its elements by one index only: a broadcast view is refused. `reshape` refuses a view for
//! which only a copy would do; [`contiguous`](crate::DeviceTensor::contiguous) makes that copy.
//!
//! # Masks, and positions
//!
//! An element knows its place: [`row()`](crate::language::row), [`column()`](crate::language::column) and
//! [`batch()`](crate::language::batch) are integers. So nothing from the future needs no mask in memory, and neither do
//! positions whose slopes differ by head (ALiBi), where each batch is a head:
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
//!
//! # Products of 8-bit integers
//!
//! They are summed in i32. `Tensor<i32>` of the accumulator itself stores the sums exactly. Where the function computes
//! with the accumulator, it is an f32. Both may be `i8` or `u8`, also one of each.
//!
//! ```
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn sums(accum: Accum) -> Tensor<i32> {
//!     let d = accum;
//!     d
//! }
//! # let device = Device::cpu();
//!
//! let (a, b) = (device.full::<u8>([1, 2], 255)?, device.full::<i8>([2, 1], -128)?);
//! let mut d = device.zeros::<i32>([1, 1])?;
//! Gemm::plan::<Sums>(&device, &a, &b)?.run(&a, &b, Sums { d: &mut d })?;
//! assert_eq!(d.to_vec::<i32>()?, [-65280]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! With scales, see "Scale rows and columns". Stores to 8-bit types saturate: `Tensor<i8>` of 200.0 is 127.
//!
//! # Products of 8-bit floats
//!
//! One scale for the whole tensor is a [`DeviceScalar`](crate::language::DeviceScalar), in device memory. The largest
//! magnitude of the result, from which the next scale is computed, is a reduction over `All`:
//!
//! ```
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn scaled(accum: Accum, scale: DeviceScalar) -> (Tensor<f32>, DeviceScalar) {
//!     let d = scale * accum;
//!     let amax = reduction_op(d, All, AbsMax);
//!     (d, amax)
//! }
//! # let device = Device::cpu();
//! # let mut d = device.zeros::<f32>([2, 2])?;
//!
//! let a = device.tensor(&[1.0, 2.0, 3.0, 4.0].map(f8e4m3::from_f32), [2, 2])?;
//! let b = device.tensor(&[1.0, 1.0, 0.0, 1.0].map(f8e4m3::from_f32), [2, 2])?;
//! let scale = device.tensor(&[0.5f32], [1])?;
//! let mut amax = device.zeros::<f32>([1])?;
//! let gemm = Gemm::plan::<Scaled>(&device, &a, &b)?;
//! gemm.run(&a, &b, Scaled { scale: &scale, d: &mut d, amax: &mut amax })?;
//! assert_eq!(d.to_vec::<f32>()?, [0.5, 1.5, 1.5, 3.5]);
//! assert_eq!(amax.to_vec::<f32>()?, [3.5]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! `f8e5m2` is the other type, and A and B may have one each. Weights with more than one scale along K: see "Scale rows and
//! columns".
