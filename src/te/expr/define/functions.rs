//! Functions of expressions, each as a function and as a method.

use crate::expr::Function;
use crate::ops;
use crate::te::dtype::DType;
use crate::te::expr::expression::{Binary, Expr};

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($other:ident),*);)*) => {
        impl Expr {$(
            $(#[$doc])*
            #[must_use]
            pub fn $name(&self $(, $other: impl Into<Self>)*) -> Self {
                called(ops::$name::function(), vec![self.clone() $(, $other.into())*])
            }
        )*}

        $(
            $(#[$doc])*
            ///
            /// It is the method of [`Expr`] as a function.
            #[must_use]
            pub fn $name(x: impl Into<Expr> $(, $other: impl Into<Expr>)*) -> Expr {
                x.into().$name($($other),*)
            }
        )*
    };
}

fn called(function: &'static Function, operands: Vec<Expr>) -> Expr {
    Expr::call(function, operands)
}

functions! {
    /// `e^x`, of a floating-point number.
    exp();
    /// `2^x`, of a floating-point number.
    exp2();
    /// The natural logarithm of a floating-point number.
    log();
    /// The logarithm to base 2 of a floating-point number.
    log2();
    /// `log(1 + x)` of a floating-point number, also where it is small.
    log1p();
    /// The square root of a floating-point number.
    sqrt();
    /// `1 / sqrt(x)`, of a floating-point number.
    rsqrt();
    /// `1 / x`, of a floating-point number.
    recip();
    /// The hyperbolic tangent of a floating-point number.
    tanh();
    /// The error function of a floating-point number.
    erf();
    /// The sine of a floating-point number of radians.
    sin();
    /// The cosine of a floating-point number of radians.
    cos();
    /// The largest integer not above a floating-point number, as a floating-point number.
    floor();
    /// The smallest integer not below a floating-point number, as a floating-point number.
    ceil();
    /// The nearest integer to a floating-point number, ties away from zero, as a floating-point number.
    round();
    /// `x^y` of floating-point numbers, as C's `pow`.
    pow(y);
    /// `x * y + z` of floating-point numbers, rounded once.
    fma(y, z);
    /// `max(x, 0)`, of a floating-point number.
    relu();
    /// `1 / (1 + e^-x)`, of a floating-point number.
    sigmoid();
    /// `x * sigmoid(x)`, of a floating-point number.
    silu();
    /// `x` times the normal distribution's share below it, of a floating-point number.
    gelu();
    /// [`gelu`](ops::gelu()) by its approximation with tanh, of a floating-point number.
    gelu_tanh();
    /// `log(1 + e^x)`, of a floating-point number.
    softplus();
}

impl Expr {
    /// `|x|`. The least value of an integer type has none, and stays.
    #[must_use]
    pub fn abs(&self) -> Self {
        if self.error().is_none() && self.dtype().is_integer() {
            return self.less(0).select(Self::int(0) - self, self);
        }
        called(ops::abs::function(), vec![self.clone()])
    }

    /// `low` for a value below it, `high` for one above it; NaN stays. `low` must not be above `high`.
    #[must_use]
    pub fn clamp(&self, low: impl Into<Self>, high: impl Into<Self>) -> Self {
        self.max(low).min(high)
    }
}

/// `|x|`. The least value of an integer type has none, and stays.
///
/// It is the method of [`Expr`] as a function.
#[must_use]
pub fn abs(x: impl Into<Expr>) -> Expr {
    x.into().abs()
}

/// [`Expr::clamp`] as a function: numpy's `clip`.
#[must_use]
pub fn clamp(x: impl Into<Expr>, low: impl Into<Expr>, high: impl Into<Expr>) -> Expr {
    x.into().clamp(low, high)
}

/// The larger of two values; NaN if either is NaN. It is [`Expr::max`]; [`te::max`](super::reducer::max) reduces.
#[must_use]
pub fn maximum(a: impl Into<Expr>, b: impl Into<Expr>) -> Expr {
    Expr::binary(Binary::Max, a.into(), b.into())
}

/// The smaller of two values; NaN if either is NaN. It is [`Expr::min`]; [`te::min`](super::reducer::min) reduces.
#[must_use]
pub fn minimum(a: impl Into<Expr>, b: impl Into<Expr>) -> Expr {
    Expr::binary(Binary::Min, a.into(), b.into())
}

/// `if condition { then } else { otherwise }`: numpy's `where`. Only the chosen side is evaluated.
#[must_use]
pub fn select(condition: impl Into<Expr>, then: impl Into<Expr>, otherwise: impl Into<Expr>) -> Expr {
    condition.into().select(then, otherwise)
}

/// `floor(a / b)` of integers.
#[must_use]
pub fn floor_div(a: impl Into<Expr>, b: impl Into<Expr>) -> Expr {
    Expr::binary(Binary::FloorDiv, a.into(), b.into())
}

/// `a - b * floor(a / b)` of integers: the remainder has the sign of `b`, as in numpy.
#[must_use]
pub fn floor_mod(a: impl Into<Expr>, b: impl Into<Expr>) -> Expr {
    Expr::binary(Binary::FloorMod, a.into(), b.into())
}

/// A value in another type: see [`Expr::cast`].
#[must_use]
pub fn cast(x: impl Into<Expr>, to: impl Into<DType>) -> Expr {
    x.into().cast(to)
}
