//! The epilogue language: what stands in a function under [`#[epilogue]`](crate::prelude::epilogue), and what it means.
//!
//! The items of this module are words of that language and nothing else: no value has one of these types. An editor
//! leads from the words in an epilogue to their pages here.
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
//! The function becomes the struct `RowReduction`: one field for every parameter but the accumulators and for every
//! returned name. `#[epilogue(name = X)]` names it otherwise. As a type it has no lifetime, so that a plan is kept as
//! `gemm: Gemm<RowReduction>`; only the arguments of a run, `RowReduction { c: &c, … }`, borrow. The first parameter is the accumulator, [`Accum`],
//! or the first up to four are, each the product of A and a B of its own (see [`Right`](crate::gemm::Right)); the others have the classes [`Tensor`], [`TensorMut`], [`RowVector`], [`ColumnVector`], [`Scalar`] and [`DeviceScalar`].
//! M, N, K, the batch and all strides belong to a run, not to the function: a leading batch axis on any argument means
//! one of it per batch, none means it is shared.
//!
//! # The closure form
//!
//! ```
//! use epilogue::prelude::relu;
//!
//! let bias_relu = epilogue::epilogue!(|accum, bias: RowVector, alpha: Scalar| {
//!     let d: Tensor<f32> = relu(alpha * accum + bias);
//!     d
//! });
//! let arguments = bias_relu.alpha(1.0); // .bias(&bias).d(&mut d)
//! # let _ = arguments;
//! ```
//!
//! The same language as a value with one setter for every parameter and output; results' classes follow from the body,
//! and a `let`'s type states an element type. Only the value with everything set is accepted by a run.
//!
//! # Element types
//!
//! `Tensor<f32>`, `RowVector<bf16>`, …: a type that implements [`Element`](crate::Element). Unwritten, a tensor's or
//! vector's is that of the operand A; results of reductions and scalars are f32, or f64 when A is f64. Loads widen,
//! arithmetic is in f32 (f64 when A is f64), stores round to nearest even; integers and 8-bit floats saturate.
//! `x.cast::<f16>()` rounds where it stands. `Tensor<bool>` and vectors of `bool` hold truth values, a byte each: any byte
//! but 0 is true when it is read, and 0 or 1 is written.
//!
//! Products of 8-bit integers are summed in `i32`, where K up to 33025 (133152 if both are `i8`) can't overflow. As a result
//! of `i32` or `i64` the accumulator itself is stored exactly (`let d = accum;`); computed with, it is an f32, which holds
//! integers up to 2^24.
//!
//! # The body
//!
//! It is Rust with less in it, and what is left means what Rust means: `let` with shadowing, `let mut` with `=`, `+=`,
//! `-=`, `*=`, `/=`, the operators `+ - * /`, unary minus, comparisons, `&&`, `||` and `!` of truth values, `if … else …`
//! as a value, blocks as values, number literals (an integer literal beside an integer, and where a tensor of integers is
//! compared with it), paths to constants of type `f32`, and calls. A method call `x.f(a)` is a call of the library's own
//! `f(x, a)`. Anything else is refused where it stands, with what to write instead. Both branches of an `if` are
//! computed and one is taken, as no operation has an effect.
//!
//! rustc sees the body too, with every number an `f32`, every integer an `i64` and every truth value a `bool`, and reports wrong numbers of arguments, unused variables and
//! functions that don't exist as in any function. Where nothing in the file can give a function's name a meaning, the
//! message is this library's, and says what there is instead.
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
//! Beside numbers there are integers and truth values. [`row()`](row), [`column()`](column) and [`batch()`](batch) are the
//! element's place, from 0, and [`rows()`](rows) and [`columns()`](columns) how many there are. [`integer(labels)`](integer)
//! is what a parameter of an integer type, or of `bool`, has in memory, exactly; its plain name is that integer as a
//! number. [`real(i)`](real) makes a number of an integer.
//!
//! An integer is an `i64`; sums, differences and products that leave its range wrap. (Kernels use 32 bits where no value
//! can leave those.) There are `+ - *`, unary minus, `min`, `max`, comparisons and `if`; integers are not divided, and no
//! other function takes one. An integer and a number never stand in one operation: one of them is converted, by name.
//!
//! A truth value is a comparison, an element of type `bool`, or made of those by `&&`, `||` and `!`; both sides of `&&` and
//! `||` are computed. A comparison with NaN is false, but for `!=`. It is bound, chosen by an `if`, returned, and otherwise
//! a condition; arithmetic and reductions take numbers: `if keep { 1.0 } else { 0.0 }`.
//!
//! As results, truth values are stored as `bool`, and integers as i64, i32, i8 or u8, where those beyond the type's range
//! become its nearest value; where no type is written, as `bool` and i64.
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
//! # Operations
//!
//! Those of [`ops`](crate::ops), and the user's own:
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
//! An `#[elementwise]` function is called on the host like any other, is imported and renamed like any other, and may
//! call others, but not, over any detour, itself. Like the library's own, it takes expressions of tensors, too, and gives
//! one: `softsign(x.at([i]))` stands in a [`te::compute`](crate::te::compute).
//!
//! # Reductions
//!
//! [`reduction_op`]`(value, axis, operation)`: the axis is `Row`, `Column` or `All`, in a pair with `Batch` to reduce
//! the batch as well; the operation is `Add`, `Mul`, `Max`, `Min`, `AbsMax` or `SumSquares`. The result is complete and
//! has the same bits in every run. A fourth argument asks for one partial per tile instead.
//!
//! A complete reduction is a value like any other: it is computed with, bound, returned, or both. It is in the arithmetic's
//! type, as no element type has rounded it yet (`m.cast::<f16>()` does). What reads it is of the next *phase*, which may be
//! reduced in turn, four times in a chain; each phase after the first is a launch of its own on a GPU, after the product's.
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
//! # Results
//!
//! The last line is a name or a tuple of names. Any value can be returned and still be used. A parameter is not
//! returned, unless it is a [`TensorMut`] that was assigned to.

use std::marker::PhantomData;

/// Stands for the element type that a class has where none is written.
#[derive(Debug)]
pub enum Unwritten {}

/// An accumulator: the M×N values of A·B, in the arithmetic's type. The first parameter of every epilogue; the second, third
/// and fourth may be too, of the same A and a B each.
#[derive(Debug)]
pub enum Accum {}

/// As a parameter, M×N values that are read; as a result, M×N values that are written.
#[derive(Debug)]
pub struct Tensor<T = Unwritten>(PhantomData<T>, Unwritten);

/// M×N values that are read, assigned to and returned under one name: one argument, accumulated in place.
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

/// N values, the same in every row: broadcast down the rows. As a result, what a reduction along `Column` leaves.
#[derive(Debug)]
pub struct RowVector<T = Unwritten>(PhantomData<T>, Unwritten);

/// M values, the same in every column: broadcast along the columns. As a result, what a reduction along `Row` leaves.
#[derive(Debug)]
pub struct ColumnVector<T = Unwritten>(PhantomData<T>, Unwritten);

/// One value that the host gives at each run; its field is an `f64`, rounded to the arithmetic's type.
///
/// Where it multiplies a value that is loaded and is 0, the product is 0 and nothing is loaded, even if NaN is there:
/// the rule that BLAS has for beta.
#[derive(Debug)]
pub enum Scalar {}

/// One value in device memory. As a result, what a reduction over `All` leaves.
#[derive(Debug)]
pub struct DeviceScalar<T = Unwritten>(PhantomData<T>, Unwritten);

/// The result of `reduction_op(x, Row, op, threadblock_shape.n)`: `[ceil(N / tile_n), M]` values of f32, with the batch
/// in front; `Gemm::partials_shape` tells.
#[derive(Debug)]
pub enum RowPartials {}

/// The result of `reduction_op(x, Column, op, threadblock_shape.m)`: `[ceil(M / tile_m), N]` values of f32, with the
/// batch in front; `Gemm::partials_shape` tells.
#[derive(Debug)]
pub enum ColumnPartials {}

/// `reduction_op(value, axis, operation)` reduces along an axis; a fourth argument, `threadblock_shape.n` for `Row` or
/// `threadblock_shape.m` for `Column`, asks for one partial per tile.
///
/// | axis | reduces | leaves |
/// |---|---|---|
/// | `Row` | every row vector | M values, a [`ColumnVector`] |
/// | `Column` | every column vector | N values, a [`RowVector`] |
/// | `All` | everything | one value, a [`DeviceScalar`] |
///
/// `(Row, Batch)`, `(Column, Batch)` and `(All, Batch)` also reduce the batch. A complete result is a value like any other;
/// partials are bound by a `let` and returned.
///
/// As an item it only lets rustc read an epilogue's body, one element at a time: there, the reduction is the value.
#[must_use]
pub const fn reduction_op(value: f32) -> f32 {
    value
}

/// The element's row, from 0: an integer, the same along each row.
#[must_use]
pub const fn row() -> i64 {
    0
}

/// The element's column, from 0: an integer, the same down each column.
#[must_use]
pub const fn column() -> i64 {
    0
}

/// The element's batch, from 0: an integer, the same in each batch.
#[must_use]
pub const fn batch() -> i64 {
    0
}

/// How many rows there are, M: an integer.
#[must_use]
pub const fn rows() -> i64 {
    0
}

/// How many columns there are, N: an integer.
#[must_use]
pub const fn columns() -> i64 {
    0
}

/// `integer(labels)` is the integer that a parameter of an integer type, or of type bool, has in memory, exactly: the
/// parameter's own name is that integer as a number, which an f32 holds up to 2^24.
///
/// As an item it only lets rustc read an epilogue's body.
#[must_use]
pub fn integer(parameter: impl InMemory) -> i64 {
    parameter.in_memory()
}

/// `real(i)` is an integer as a number, rounded to the nearest: exact in f32 up to 2^24.
///
/// As an item it only lets rustc read an epilogue's body.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "it rounds, as is said")]
pub const fn real(integer: i64) -> f32 {
    integer as f32
}

/// What stands for a parameter's value where rustc reads an epilogue's body: a number, or a truth value.
pub trait InMemory {
    /// The integer.
    #[doc(hidden)]
    fn in_memory(self) -> i64;
}

impl InMemory for f32 {
    #[expect(clippy::cast_possible_truncation, reason = "it holds an integer")]
    fn in_memory(self) -> i64 {
        self as i64
    }
}

impl InMemory for bool {
    fn in_memory(self) -> i64 {
        self.into()
    }
}
