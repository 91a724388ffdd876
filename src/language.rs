//! The epilogue language: what a function under [`#[epilogue]`](crate::prelude::epilogue) may contain, and what it
//! means.
//!
//! The items of this module are only words of that language: no value has one of these types. They let an editor lead
//! from a word in an epilogue to its documentation here.
//!
//! # A function
//!
//! ```
//! use epilogue::prelude::*;
//!
//! /// D = alpha * A·B + tanh(beta * C), and the sum of every row of D.
//! #[epilogue]
//! fn row_reduction(accum: Accum, c: Tensor, alpha: Scalar, beta: Scalar) -> (Tensor, ColumnVector) {
//!     let d = alpha * accum + tanh(beta * c);
//!     let reduction = reduction_op(d, Row, Add);
//!     (d, reduction)
//! }
//! # use epilogue::Epilogue;
//! assert_eq!(RowReduction::tree().outputs().len(), 2);
//! ```
//!
//! The function becomes the struct `RowReduction`, with a field for every parameter except the accumulators, and for
//! every returned name. `#[epilogue(name = X)]` gives it another name. As a type it has no lifetime, so that a plan can
//! be kept as `gemm: Gemm<RowReduction>`; only the arguments of a run, `RowReduction { c: &c, … }`, borrow. The first
//! parameter is the accumulator, [`Accum`]. There may be up to four of them at the beginning, each the product of A and
//! a separate B (see [`Right`](crate::gemm::Right)). The other parameters have the classes [`Tensor`], [`TensorMut`],
//! [`RowVector`], [`ColumnVector`], [`Scalar`], [`DeviceScalar`], [`Seed`] and [`Bits`]. M, N, K, the batch and all strides belong to a
//! run, not to the function: with a leading batch axis, an argument has one value for each batch; without it, all
//! batches share it.
//!
//! If each element's results follow from its own numbers, the struct also has the function `element`, for unit tests: of the
//! accumulators and parameters, in their order, it computes one element in f32. An epilogue with reductions, positions,
//! random numbers or [`integer`] has none.
//!
//! ```
//! use epilogue::prelude::*;
//!
//! #[epilogue]
//! fn bias_relu(accum: Accum, bias: RowVector, alpha: Scalar) -> Tensor {
//!     let d = relu(alpha * accum + bias);
//!     d
//! }
//!
//! assert_eq!(BiasRelu::element(2.0, 1.0, 0.5), 2.0);
//! assert_eq!(BiasRelu::element(2.0, -3.0, 0.5), 0.0);
//! ```
//!
//! # A renamed library
//!
//! The macros name this library as `::epilogue`. Under another name, or re-exported by another crate, it has a path of its
//! own. Every macro takes it as `crate = path`: `#[epilogue(crate = my_library::fused)]`, likewise `#[elementwise]` and
//! `#[reducer]`, and `closure!(crate = my_library::fused, |accum| …)`. The path begins with a crate's name, `crate::` or
//! `::`. A `macro_rules!` macro of the other crate writes `crate = $crate::fused`.
//!
//! # The closure form
//!
//! ```
//! use epilogue::prelude::relu;
//!
//! let bias_relu = epilogue::closure!(|accum, bias: RowVector, alpha: Scalar| {
//!     let d: Tensor<f32> = relu(alpha * accum + bias);
//!     d
//! });
//! let arguments = bias_relu.alpha(1.0); // .bias(&bias).d(&mut d)
//! # let _ = arguments;
//! ```
//!
//! This is the same language, as a value with one setter for every parameter and output. The classes of results follow
//! from the body, and the type of a `let` gives the element type. A run accepts the value only when everything is set.
//!
//! # Element types
//!
//! `Tensor<f32>`, `RowVector<bf16>`, …: a type that implements [`Element`](crate::Element). If it is not written, a
//! tensor or vector has the type of A; results of reductions, vectors computed from them, and scalars are f32, or f64 if A is
//! f64. A gradient that a backward pass is given has the type of its output. The gradient of a vector is f32 (or f64), as
//! sums are.
//!
//! Loads widen, arithmetic is in f32 (f64 if A is f64), stores round to nearest even; integers and 8-bit floats saturate.
//! `x.cast::<f16>()` rounds at that place. `Tensor<bool>` and vectors of `bool` hold truth values, one byte each: any
//! byte but 0 is read as true, and 0 or 1 is written.
//!
//! Products of 8-bit integers are summed in `i32`, which can't overflow for K up to 33025 (133152 if both are `i8`). As
//! a result of `i32` or `i64`, the accumulator itself is stored exactly (`let d = accum;`). In computations it is an
//! f32, which is exact for integers up to 2^24.
//!
//! # The body
//!
//! It is a part of Rust, with the meaning that it has in Rust: `let` with shadowing, `let mut` with `=`, `+=`, `-=`,
//! `*=`, `/=`; the operators `+ - * /`, unary minus, comparisons, and `&&`, `||` and `!` of truth values; `if … else …`
//! as a value, and blocks as values; number literals, paths to constants of type `f32`, and calls. An integer literal
//! may stand beside an integer, and where a tensor of integers is compared with it. A method call `x.f(a)` calls the
//! library's function `f(x, a)`. Anything else is refused at its place, with what to write instead. Both branches of an
//! `if` are computed and one is taken, since operations have no side effects.
//!
//! rustc checks the body, too, with every number as an `f32`, every integer as an `i64` and every truth value as a
//! `bool`. It reports wrong numbers of arguments, unused variables and functions that don't exist, as in any function.
//! If nothing in the file can give a function's name a meaning, the message is this library's, and says what there is
//! instead.
//!
//! ```
//! use epilogue::prelude::*;
//!
//! #[epilogue]
//! fn masked(accum: Accum, labels: ColumnVector<i32>, bound: Scalar) -> Tensor {
//!     let d = if labels == -100 || !(accum.abs() < bound) { 0.0 } else { accum };
//!     d
//! }
//! ```
//!
//! # Integers and truth values
//!
//! Beside numbers there are integers and truth values. [`row()`](row), [`column()`](fn@column) and [`batch()`](batch) are
//! the element's position, from 0; [`rows()`](rows) and [`columns()`](columns) are the extents M and N.
//! [`integer(labels)`](integer) is the exact value in memory of a parameter of an integer type or of `bool`; the
//! parameter's plain name is that integer as a number. [`real(i)`](real) converts an integer to a number.
//!
//! An integer is an `i64`; sums, differences and products outside of its range wrap. (Kernels use 32 bits if no value
//! can exceed them.) There are `+ - *`, unary minus, `min`, `max`, comparisons and `if`; integers are not divided, and
//! no other function takes one. An operation can't mix an integer and a number: one of them must be converted, by name.
//!
//! A truth value is a comparison, an element of type `bool`, or computed from these by `&&`, `||` and `!`; both sides
//! of `&&` and `||` are computed. A comparison with NaN is false, except `!=`. A truth value can be bound, chosen by an
//! `if`, returned, or be a condition. Arithmetic and reductions take numbers: `if keep { 1.0 } else { 0.0 }`.
//!
//! As results, truth values are stored as `bool`, or as [`Bits`] with eight columns in a byte. Integers are stored as
//! i64, i32, i8 or u8. Integers beyond the type's range become its nearest value. If no type is written, they are
//! stored as `bool` and i64.
//!
//! ```
//! use epilogue::prelude::*;
//!
//! /// Attention scores: positions as ALiBi has them, with a slope for each head, and nothing from the future.
//! #[epilogue]
//! fn scores(accum: Accum, slope: DeviceScalar<f32>, padding: RowVector<bool>) -> Tensor {
//!     let biased = accum + slope * real(column() - row());
//!     let hidden = column() > row() || padding;
//!     let scores = if hidden { f32::NEG_INFINITY } else { biased };
//!     scores
//! }
//!
//! /// The probability of each row's label, and which elements are positive.
//! #[epilogue]
//! fn picked(accum: Accum, labels: ColumnVector<i64>) -> (ColumnVector, Tensor<bool>) {
//!     let chosen = if column() == integer(labels) { accum } else { 0.0 };
//!     let picked = reduction_op(chosen, Row, Add);
//!     let positive = accum > 0.0;
//!     (picked, positive)
//! }
//!
//! /// Writes the lower triangle, and leaves the rest of `c` as it is.
//! #[epilogue]
//! fn triangle(accum: Accum, c: TensorMut) -> Tensor {
//!     c = if column() <= row() { accum } else { c };
//!     c
//! }
//! ```
//!
//! # Random numbers
//!
//! A parameter of the class [`Seed`] is not a value: [`random(seed)`](random) is an M×N one, a number of each element from 0
//! to 1. It follows from the seed's two 64-bit numbers and from the element's row, column and batch, and from nothing else;
//! so equal seeds give equal numbers on every device, with every kernel and any split of K, and in other epilogues.
//! `random(seed, 1)`, `random(seed, 2)`, … are further streams of the seed, by an integer literal, independent of each
//! other; one stream is one value, however often it is written. The seed belongs to a run: another one needs no other
//! kernel. It has no element type, and is given as [`Seed::new`], or as two `i64` in device memory.
//!
//! ```
//! use epilogue::prelude::*;
//!
//! /// Stochastic rounding to whole numbers: up as often as the fraction says.
//! #[epilogue]
//! fn rounded(accum: Accum, seed: Seed) -> Tensor {
//!     let d = floor(accum + random(seed));
//!     d
//! }
//! # assert_eq!(Rounded::tree().parameters().len(), 1);
//! ```
//!
//! # Operations
//!
//! The functions of [`ops`](crate::ops), and the user's own:
//!
//! ```
//! use epilogue::prelude::*;
//!
//! #[elementwise]
//! fn squared_relu(x: f32) -> f32 {
//!     let r = x.max(0.0);
//!     r * r
//! }
//!
//! /// With a body of its own on CUDA devices.
//! #[elementwise(cuda = "return x / (1.0f + fabsf(x));")]
//! fn softsign(x: f32) -> f32 {
//!     x / (1.0 + x.abs())
//! }
//!
//! #[epilogue]
//! fn activated(accum: Accum) -> Tensor {
//!     let d = softsign(squared_relu(accum));
//!     d
//! }
//!
//! assert_eq!(squared_relu(3.0), 9.0);
//! ```
//!
//! An `#[elementwise]` function is called on the host, imported and renamed like any other. It may call others, but not
//! itself, not even through others. Like the library's own, it also takes expressions of tensors, and gives one:
//! `softsign(x.at([i]))` can be used in [`te::compute`](crate::te::compute).
//!
//! # Reductions
//!
//! [`reduction_op`]`(value, axis, operation)`: the axis is `Row`, `Column` or `All`, in a pair with `Batch` to reduce
//! the batch as well; the operation is `Add`, `Mul`, `Max`, `Min`, `AbsMax`, `SumSquares`, `ArgMax`, `ArgMin`, one of those below, or your own. The result is complete and
//! has the same bits in every run. With a fourth argument, there is one partial result per tile instead.
//!
//! A complete reduction is a value like any other: it is computed with, bound, returned, or both. It is in the
//! arithmetic's type, as no element type has rounded it yet (`m.cast::<f16>()` does). Values that read it are of the
//! next *phase*; they may be reduced in turn, four times in a chain. On a GPU all phases are computed in the product's
//! launch where whole rows lie in a tile, so N is 256 or less; else each phase after the first is a launch of its own,
//! after the product's.
//!
//! ```
//! use epilogue::prelude::*;
//!
//! /// The softmax of every row, and the logarithm of what it was divided by.
//! #[epilogue]
//! fn softmax(accum: Accum, scale: Scalar) -> (Tensor, ColumnVector) {
//!     let x = scale * accum;
//!     let largest = reduction_op(x, Row, Max);
//!     let e = exp(x - largest);
//!     let sum = reduction_op(e, Row, Add);
//!     let d = e / sum;
//!     let log_sum = largest + log(sum);
//!     (d, log_sum)
//! }
//! # use epilogue::Epilogue;
//! # use epilogue::evt::Types;
//! # use epilogue::ElementType::F32;
//! # assert_eq!(Softmax::tree().validate(Types::new(F32, F32))?.phases(), 3);
//! # Ok::<_, epilogue::evt::TreeError>(())
//! ```
//!
//! Nothing is guarded: a row of −∞ alone gives NaN above, as anywhere. A vector that is computed from a reduction is not
//! reduced again here, as each of its values would be counted many times; partials are returned only.
//!
//! `ArgMax` and `ArgMin` give where the largest and the smallest value is: an integer from 0, the column along `Row`, the row
//! along `Column`, and `row() * columns() + column()` of `All`. The first of equal values counts, the first NaN if there is one;
//! without elements it is −1. `(Row, Batch)` and partials have none. The value itself is `Max` beside it:
//!
//! ```
//! use epilogue::prelude::*;
//!
//! #[epilogue]
//! fn predicted(accum: Accum) -> (ColumnVector<i64>, ColumnVector) {
//!     let class = reduction_op(accum, Row, ArgMax);
//!     let score = reduction_op(accum, Row, Max);
//!     (class, score)
//! }
//! # let device = Device::cpu();
//! # let (a, b) = (device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1f32, -1.0, 0.5, 1.0], [2, 2])?);
//! # let (mut class, mut score) = (device.zeros::<i64>([2])?, device.zeros::<f32>([2])?);
//! # let gemm = Gemm::plan::<Predicted>(&device, &a, &b)?;
//! # gemm.run(&a, &b, Predicted { class: &mut class, score: &mut score })?;
//!
//! // of 2, 1 and 5, 1
//! assert_eq!((class.to_vec::<i64>()?, score.to_vec::<f32>()?), (vec![0, 0], vec![2.0, 5.0]));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Five operations are made of these reductions, and have no partials:
//!
//! | operation | of | result | of nothing | NaN | counts in a chain as |
//! |---|---|---|---|---|---|
//! | `Any` | truth values | whether one holds | false | | one |
//! | `All` | truth values | whether all hold | true | | one |
//! | `Mean` | numbers | the sum, divided by how many there are | NaN | NaN | one |
//! | `Variance` | numbers | the mean of the squares of the differences to the mean | NaN | NaN | two |
//! | `LogSumExp` | numbers | the logarithm of the sum of exponentials | −∞ | NaN | two |
//!
//! Their results are values of a later phase, even if they are only returned. (So in a batched product a returned one has
//! the batch axis as any value, also where `Batch` was reduced with it: the same for each.) `Variance` is the biased one: the unbiased
//! one is `n / (n - 1.0)` times it. From its elements the mean is subtracted first, from those of `LogSumExp` the greatest, so
//! neither cancels or overflows; a row of −∞ alone has the `LogSumExp` −∞, and one with +∞ has +∞. They reduce what differs
//! along the axis: not a vector of one value a row along `Row`. A [`DeviceScalar`] of the mean of everything:
//!
//! ```
//! use epilogue::prelude::*;
//!
//! #[epilogue]
//! fn checked(accum: Accum) -> (Tensor, DeviceScalar, ColumnVector<bool>, ColumnVector) {
//!     let d = accum;
//!     let mean = reduction_op(d, All, Mean);
//!     let finite = reduction_op(d.abs() < 65504.0, Row, All);
//!     let log_sum = reduction_op(d, Row, LogSumExp);
//!     (d, mean, finite, log_sum)
//! }
//! # let device = Device::cpu();
//! # let (a, b) = (device.tensor(&[1f32, 2.0, 0.0, 4.0], [2, 2])?, device.tensor(&[3f32, 1e5, 0.0, 0.0], [2, 2])?);
//! # let (mut d, mut mean) = (device.zeros::<f32>([2, 2])?, device.zeros::<f32>([])?);
//! # let (mut finite, mut log_sum) = (device.zeros::<bool>([2])?, device.zeros::<f32>([2])?);
//! # let gemm = Gemm::plan::<Checked>(&device, &a, &b)?;
//! # gemm.run(&a, &b, Checked { d: &mut d, mean: &mut mean, finite: &mut finite, log_sum: &mut log_sum })?;
//! // of 3, 100000 and 0, 0
//! assert_eq!(mean.to_vec::<f32>()?, [25000.75]);
//! assert_eq!(finite.to_vec::<bool>()?, [false, true]);
//! for (x, expected) in log_sum.to_vec::<f32>()?.into_iter().zip([1e5, 2f32.ln()]) {
//!     assert!((x - expected).abs() < 1e-6);
//! }
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! A reduction of your own is a module under `#[reducer]`: real Rust, which also runs on the host. Its name is the operation:
//!
//! ```
//! use epilogue::prelude::*;
//!
//! /// The sum of exponentials with the greatest value taken out: in one pass, as two numbers.
//! #[reducer]
//! mod log_sum_exp {
//!     const IDENTITY: (f32, f32) = (f32::NEG_INFINITY, 0.0);
//!
//!     fn lift(x: f32) -> (f32, f32) {
//!         (x, 1.0)
//!     }
//!
//!     fn combine(a: (f32, f32), b: (f32, f32)) -> (f32, f32) {
//!         let most = a.0.max(b.0);
//!         let c = if most.abs() < f32::INFINITY { most } else { 0.0 };
//!         (most, a.1 * exp(a.0 - c) + b.1 * exp(b.0 - c))
//!     }
//!
//!     fn finish((most, sum): (f32, f32)) -> f32 {
//!         if most.abs() < f32::INFINITY { most + log(sum) } else { most }
//!     }
//! }
//!
//! #[epilogue]
//! fn scores(accum: Accum) -> (Tensor, ColumnVector) {
//!     let log_sum = reduction_op(accum, Row, log_sum_exp);
//!     let d = exp(accum - log_sum);
//!     (d, log_sum)
//! }
//! # let device = Device::cpu();
//! # let (a, b) = (device.tensor(&[1f32, 2.0], [2, 1])?, device.tensor(&[100f32, 100.0], [1, 2])?);
//! # let (mut d, mut log_sum) = (device.zeros::<f32>([2, 2])?, device.zeros::<f32>([2])?);
//! # let gemm = Gemm::plan::<Scores>(&device, &a, &b)?;
//! # gemm.run(&a, &b, Scores { d: &mut d, log_sum: &mut log_sum })?;
//!
//! // of 100, 100 and 200, 200
//! let two = 2f32.ln();
//! assert!(log_sum.to_vec::<f32>()?.iter().zip([100.0 + two, 200.0 + two]).all(|(x, y)| (x - y).abs() < 1e-4));
//! assert_eq!(log_sum_exp::reduce([100.0, 100.0]), 100.0 + two);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! The *running result* is an `f32` or a tuple of up to four: `IDENTITY` is the running result of no elements, `lift`
//! makes one of an element, and `combine` puts two together. `finish` makes a number of it, once for each row, column
//! or matrix. In these functions is what an `#[elementwise]` function has, and tuples: `a.0`, `let (x, y) = a;`,
//! `(x, y)`, an `if` of these. The module may also have constants, imports and `#[elementwise]` functions; the
//! library's operations need no import in it. Outside, it has `log_sum_exp::reduce(elements)`, which computes on the
//! host, one element after the other.
//!
//! Devices combine in an order of their own, the same at every run. So `combine` must be associative, up to rounding,
//! and commutative, and the identity must leave what it is combined with as it is: nobody checks that. A value of a
//! position is part of `x`, not of the running result. Reductions by a `#[reducer]` have no partials and no derivative.
//! The reference computes it exactly in the order of the elements; its bounds are those of five orders, and as much
//! again: for functions that round they are evidence and no proof, and for those that only choose among values (as
//! `max` does) exact.
//!
//! # Results
//!
//! The last line is a name or a tuple of names. A returned value can also be used in the body. A parameter can't be
//! returned, unless it is a [`TensorMut`] that was assigned to.

//! # Backward passes
//!
//! `#[epilogue(backward)]` also makes the epilogue of the backward pass, `BiasGeluBackward` beside `BiasGelu`. Its accumulator is the
//! gradient of one output, `through`: the product `dY · Wᵀ` that comes from the layers behind. In parentheses is what it is to do:
//!
//! | | names | if it is not said |
//! |---|---|---|
//! | `through = y` | the output whose gradient the accumulator is, a `Tensor` of numbers | the first such one |
//! | `saved(z, keep)` | outputs that are read in place of being computed again, `Tensor` or `Bits` | all others of M×N |
//! | `given(loss)` | outputs that have gradients of their own, as parameters `d_loss` of the output's class and element type; others have the gradient 0 | none |
//! | `gradients(bias)` | parameters whose gradients are results, as `d_bias` | all of numbers with fractions but `Scalar`s |
//! | `gradients_of_all(bias)` | the same, summed over the batch: of what all batches share | none |
//! | `name = Gradients` | the struct | `BiasGeluBackward` |
//!
//! The struct's first fields are the forward parameters, the saved outputs and the given gradients. Then come `d_` and
//! the name of each accumulator and of each wanted parameter. A field that no derivative needs is not read. Random
//! numbers are drawn again from the seed. A derivative that needs an accumulator finds it among what is saved:
//! `let z = accum;`, returned. A value without a derivative is an error of [`Gemm::plan`](crate::Gemm::plan), with its
//! place in the source. Examples are reductions by `Mul` and by a `#[reducer]`. The rules are those of
//! [`evt::derive`](crate::evt::derive).
//!
//! ```
//! use epilogue::prelude::*;
//!
//! #[epilogue(backward)]
//! fn bias_gelu(accum: Accum, bias: RowVector) -> (Tensor, Tensor) {
//!     let z = accum + bias;
//!     let y = gelu(z);
//!     (y, z)
//! }
//!
//! let device = Device::cpu();
//! let (dx, wt) = (device.full::<f32>([2, 4], 0.5)?, device.full::<f32>([4, 3], 0.5)?);
//! let (bias, z) = (device.zeros::<f32>([3])?, device.full::<f32>([2, 3], 40.0)?); // where GELU's slope is 1
//! let (mut d, mut d_bias) = (device.zeros::<f32>([2, 3])?, device.zeros::<f32>([3])?);
//! let gemm = Gemm::plan::<BiasGeluBackward>(&device, &dx, &wt)?;
//! gemm.run(&dx, &wt, BiasGeluBackward { bias: &bias, z: &z, d_accum: &mut d, d_bias: &mut d_bias })?;
//! assert_eq!((d.to_vec::<f32>()?, d_bias.to_vec::<f32>()?), (vec![1.0; 6], vec![2.0; 3]));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod functions;

use std::marker::PhantomData;

/// Stands for the element type of a class for which none is written.
#[derive(Debug)]
pub enum Unwritten {}

/// An accumulator: the M×N values of A·B, in the arithmetic type. It is the first parameter of every epilogue. Up to
/// three more may follow it, each the product of the same A and a separate B.
#[derive(Debug)]
pub enum Accum {}

/// As a parameter, M×N values that are read; as a result, M×N values that are written.
#[derive(Debug)]
pub struct Tensor<T = Unwritten>(PhantomData<T>, Unwritten);

/// M×N values that are read, assigned to and returned under one name: one argument, updated in place.
///
/// ```
/// # use epilogue::prelude::*;
/// #[epilogue]
/// fn accumulate(accum: Accum, total: TensorMut, alpha: Scalar) -> Tensor {
///     total += alpha * accum;
///     total
/// }
/// ```
#[derive(Debug)]
pub struct TensorMut<T = Unwritten>(PhantomData<T>, Unwritten);

/// N values, the same in every row. As a result, what a reduction along `Column` gives.
#[derive(Debug)]
pub struct RowVector<T = Unwritten>(PhantomData<T>, Unwritten);

/// M values, the same in every column. As a result, what a reduction along `Row` gives.
#[derive(Debug)]
pub struct ColumnVector<T = Unwritten>(PhantomData<T>, Unwritten);

/// One value that the host gives at each run. Its field is an `f64`, which is rounded to the arithmetic type.
///
/// If it is 0 and multiplies a loaded value, the product is 0 and nothing is loaded, even if the value would be NaN:
/// the rule that BLAS has for beta.
#[derive(Debug)]
pub enum Scalar {}

/// One value in device memory. As a result, what a reduction over `All` gives.
#[derive(Debug)]
pub struct DeviceScalar<T = Unwritten>(PhantomData<T>, Unwritten);

/// M×N truth values with eight columns in a byte: as a parameter they are read, as a result written.
///
/// In memory they are `u8`, of shape `[M, ceil(N / 8)]`, with a leading batch axis if there is one, and any strides.
/// Column n is bit n % 8, from the lowest, of byte n / 8 of its row, as in the masks of cuBLASLt's ReLU. Bits beyond the last
/// column are written as 0, and are not looked at. In the body they are truth values like those of `Tensor<bool>`, which take
/// eight times the memory.
///
/// ```
/// use epilogue::prelude::*;
///
/// /// Where ReLU lets its value pass is one bit for each element.
/// #[epilogue]
/// fn relu_forward(accum: Accum) -> (Tensor, Bits) {
///     let keep = accum > 0.0;
///     let y = if keep { accum } else { 0.0 };
///     (y, keep)
/// }
///
/// /// The gradient in the next layer's backward pass, and that of the bias.
/// #[epilogue]
/// fn relu_backward(accum: Accum, keep: Bits) -> (Tensor, RowVector) {
///     let d = if keep { accum } else { 0.0 };
///     let bias = reduction_op(d, Column, Add);
///     (d, bias)
/// }
///
/// let device = Device::cpu();
/// let (a, b) = (device.tensor(&[1f32, -1.0], [2, 1])?, device.tensor(&[1f32, -2.0, 3.0], [1, 3])?);
/// let (mut y, mut keep) = (device.zeros::<f32>([2, 3])?, device.zeros::<u8>([2, 1])?);
/// Gemm::plan::<ReluForward>(&device, &a, &b)?.run(&a, &b, ReluForward { y: &mut y, keep: &mut keep })?;
/// assert_eq!(keep.to_vec::<u8>()?, [0b101, 0b010]);
///
/// let (mut d, mut bias) = (device.zeros::<f32>([2, 3])?, device.zeros::<f32>([3])?);
/// let run = ReluBackward { keep: &keep, d: &mut d, bias: &mut bias };
/// Gemm::plan::<ReluBackward>(&device, &a, &b)?.run(&a, &b, run)?;
/// assert_eq!(bias.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub enum Bits {}

/// The result of `reduction_op(x, Row, op, threadblock_shape.n)`: `[ceil(N / tile_n), M]` values of f32, with a leading
/// batch axis if there is a batch; see `Gemm::partials_shape`.
#[derive(Debug)]
pub enum RowPartials {}

/// The result of `reduction_op(x, Column, op, threadblock_shape.m)`: `[ceil(M / tile_m), N]` values of f32, with a
/// leading batch axis if there is a batch; see `Gemm::partials_shape`.
#[derive(Debug)]
pub enum ColumnPartials {}

/// `reduction_op(value, axis, operation)` reduces along an axis; a fourth argument, `threadblock_shape.n` for `Row` or
/// `threadblock_shape.m` for `Column`, asks for one partial per tile.
///
/// | axis | what is reduced | result |
/// |---|---|---|
/// | `Row` | every row vector | M values, a [`ColumnVector`] |
/// | `Column` | every column vector | N values, a [`RowVector`] |
/// | `All` | everything | one value, a [`DeviceScalar`] |
///
/// `(Row, Batch)`, `(Column, Batch)` and `(All, Batch)` also reduce the batch. A complete result is a value like any other;
/// partials are bound by a `let` and returned.
///
/// As an item it only lets rustc check an epilogue's body, for one element: there, the reduction is the value.
#[must_use]
pub const fn reduction_op(value: f32) -> f32 {
    value
}

pub use self::functions::{InMemory, batch, column, columns, integer, random, real, row, rows};
pub use crate::argument::Seed;
