//! The operands of operations: numbers of the host, or other kinds of expressions that implement these traits.

use super::Function;

/// The first operand of an operation: an `f32`, or a tensor expression ([`te::Expr`](crate::te::Expr)).
///
/// It determines the result: a number, or an expression that computes it in a kernel. So one name is the same function
/// in an epilogue, on the host and in tensor expressions:
///
/// ```
/// use epilogue::prelude::*;
/// use epilogue::te;
///
/// #[elementwise]
/// fn mish(x: f32) -> f32 {
///     x * tanh(log(1.0 + exp(x)))
/// }
///
/// assert_eq!(mish(0.0), 0.0);
/// let x = te::placeholder([64], "x");
/// let y = te::compute([64], "y", |[i]| clamp(mish(x.at([i])), -1.0, 1.0))?;
/// # assert_eq!(y.rank(), 1);
/// # Ok::<(), te::TeError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a number that an operation takes",
    label = "neither an `f32` nor an expression",
    note = "operations take values of type `f32`, and in tensor expressions `te::Expr`"
)]
pub trait Number: Sized {
    /// The result of an operation: `f32`, or an expression.
    type Value;

    /// Computes the operation: `host` for numbers, a call of `function` for expressions.
    #[doc(hidden)]
    fn call<const REST: usize>(
        self,
        rest: [Self::Value; REST],
        function: fn() -> &'static Function,
        host: impl FnOnce(f32, [f32; REST]) -> f32,
    ) -> Self::Value;
}

/// The other operands of an operation that gives a `V`. With numbers they are `f32`. With expressions they are anything
/// that can become one; a number takes the type of the others.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an operand beside a `{V}`",
    label = "not of the kind that the first operand is of",
    note = "the first operand decides whether an operation computes with numbers (`f32`) or with expressions; a number \
            becomes an expression by `te::Expr::from(x)`"
)]
pub trait Operand<V>: Sized {
    /// The operand in the form that the operation takes.
    #[doc(hidden)]
    fn operand(self) -> V;
}

/// The condition of [`select`](fn@crate::ops::select): a truth value of the host, or an expression of one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a condition",
    label = "neither a `bool` nor an expression",
    note = "a condition is a comparison such as `x > 0.0`, and in tensor expressions such as `x.greater(0)`"
)]
pub trait Condition: Sized {
    /// The type of the values to choose from: `f32`, or an expression.
    type Value;

    /// One of the two values.
    #[doc(hidden)]
    fn choose(self, then: Self::Value, otherwise: Self::Value) -> Self::Value;
}

impl Number for f32 {
    type Value = Self;

    #[inline]
    fn call<const REST: usize>(
        self,
        rest: [Self; REST],
        _function: fn() -> &'static Function,
        host: impl FnOnce(Self, [Self; REST]) -> Self,
    ) -> Self {
        host(self, rest)
    }
}

impl Operand<Self> for f32 {
    #[inline]
    fn operand(self) -> Self {
        self
    }
}

impl Condition for bool {
    type Value = f32;

    #[inline]
    fn choose(self, then: f32, otherwise: f32) -> f32 {
        if self { then } else { otherwise }
    }
}
