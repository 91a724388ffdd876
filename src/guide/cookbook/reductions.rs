//! Recipes: reductions, and what is computed from them.
//!
//! If a recipe doesn't make them itself, `device`, `a`, `b` and `d` are those of [the cookbook](super).
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
//! If no type is written, a reduction that is returned is f32, also when A is f16 (f64 when A is f64). A vector that is
//! computed from reductions has the same type, and so has its gradient in a backward pass. The squares are those of `h`
//! before it is rounded to its own type. If no product comes first, [`rms_norm`](crate::te::ops::rms_norm) and
//! [`layer_norm`](crate::te::ops::layer_norm) are kernels of their own.
//!
//! # Softmax over a row of the result
//!
//! The result of a reduction is a value, so a softmax is written as it is defined. Values that need a whole row are
//! computed when that is complete. On a GPU this happens in the product's own tile, if it holds whole rows: up to 256
//! columns. On sm_90a it happens in the tiles of a cluster, for rows of up to 4096. Wider rows need launches after the
//! product's. On the CPU, while the rows are in a cache.
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
#![doc = include_str!("../pictures/attention.svg")]
//!
//! A log-softmax returns `x - largest - log(sum)` in its place.
//!
//! If an upper bound of the scores is known before, not far above the largest one of any row, no phase is needed.
//! Normalised queries and keys have one: return `exp(scale * accum - bound)` and its sums, and divide by the sums in
//! the next product, as in the recipe before.
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
//! `Variance` is the mean square of the differences from the mean, not a difference of two sums, which would cancel;
//! the mean that both need is computed once. If the rows are normalised for the next product only, the recipe before
//! needs no second pass over them.
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
//! assert_eq!(q.to_vec::<f8e4m3>()?, [144.0, 448.0, 192.0, 448.0].map(f8e4m3::from_f32)); // 149.3 is not an FP8 number
//! assert_eq!(scale.to_vec::<f32>()?, [3.0 / 448.0, 7.0 / 448.0]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Cross-entropy
//!
//! The loss of a row is `logsumexp(logits) - logits[label]`, and the logits are no result. They are stored nowhere on
//! any device: with the greatest element so far goes the sum of exponentials below it. The element whose column is the label is
//! taken out by a sum; a label that is not a column, such as −100, picks 0.
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
//! The class of the largest logit in each row, its score, and whether it is the label. Neither logits nor anything else
//! of M×N is stored. The first of equal logits counts, so the answer is the same on every device and at every run.
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
