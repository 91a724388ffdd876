//! The operations of the epilogue language, as functions for the host and as definitions for devices.
//!
//! Every operation `f` is a host function `f` and a module `f` that has its definition as data. Users' own operations
//! have the same form: `#[elementwise]` makes both, and nothing else in this library knows the names.
//! `use other::f as g` imports both.
//!
//! A function takes numbers on the host, or expressions of tensors; with expressions, other operands may be numbers:
//!
//! ```
//! use epilogue::ops::{clamp, gelu};
//! use epilogue::te;
//!
//! assert_eq!(gelu(0.0), 0.0);
//! let x = te::placeholder([64], "x");
//! let y = te::compute([64], "y", |[i]| clamp(gelu(x.at([i])), 0.0, 6.0))?;
//! # assert_eq!(y.dtype(), te::DType::F32);
//! # Ok::<(), te::TeError>(())
//! ```
//!
//! The host functions compute in f64 and round once, so their error is at most 1 ULP; the operations that IEEE 754
//! defines are exact. The comment of each primitive has its error on devices, in ULP of f32. With f64 arithmetic every
//! bound is 2 ULP of f64, except for `pow` (4). The error of a composite operation follows from its formula, which is
//! in its comment.

mod activation;
mod trigonometry;

use std::sync::LazyLock;

pub use activation::*;
pub use trigonometry::*;

use crate::expr::{Condition, Function, Number, Op, Operand};

/// Defines operations that devices implement directly.
macro_rules! primitives {
    ($($(#[$doc:meta])* $name:ident($x:ident $(, $y:ident)*) = $op:ident, $host:expr;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name<X: Number>($x: X $(, $y: impl Operand<X::Value>)*) -> X::Value {
            $x.call([$($y.operand()),*], $name::function, |$x, [$($y),*]| $host)
        }

        primitives!(@definition $name($x $(, $y)*) = $op);
    )*};
    (@definition $name:ident($($x:ident),*) = $op:ident) => {
        #[doc = concat!("The definition of [`", stringify!($name), "`](fn@", stringify!($name), ").")]
        pub mod $name {
            use super::{Function, LazyLock, Op};

            #[doc(hidden)]
            pub const CALL_DEPTH: u32 = 0;

            /// The operation's definition as data.
            #[must_use]
            pub fn function() -> &'static Function {
                static FUNCTION: LazyLock<Function> =
                    LazyLock::new(|| Function::primitive(stringify!($name), &[$(stringify!($x)),*], Op::$op));
                &FUNCTION
            }
        }
    };
}

/// An accurate f64 result, rounded to nearest even.
#[expect(clippy::cast_possible_truncation)]
fn rounded(x: f64) -> f32 {
    x as f32
}

primitives! {
    /// `e^x`. Devices: 2 ULP.
    exp(x) = Exp, rounded(libm::exp(x.into()));
    /// `2^x`. Devices: 2 ULP.
    exp2(x) = Exp2, rounded(libm::exp2(x.into()));
    /// Natural logarithm. Devices: 1 ULP.
    log(x) = Log, rounded(libm::log(x.into()));
    /// Base-2 logarithm. Devices: 1 ULP.
    log2(x) = Log2, rounded(libm::log2(x.into()));
    /// `log(1 + x)`, also where `x` is small. Devices: 2 ULP.
    log1p(x) = Log1p, rounded(libm::log1p(x.into()));
    /// Square root. Exact: rounded to nearest even.
    sqrt(x) = Sqrt, x.sqrt();
    /// `1 / sqrt(x)`. Devices: 2 ULP.
    rsqrt(x) = Rsqrt, rounded(1.0 / f64::from(x).sqrt());
    /// `1 / x`. Exact: rounded to nearest even.
    recip(x) = Recip, 1.0 / x;
    /// Hyperbolic tangent. Devices: 2 ULP.
    tanh(x) = Tanh, rounded(libm::tanh(x.into()));
    /// Error function. Devices: 2 ULP.
    erf(x) = Erf, rounded(libm::erf(x.into()));
    /// Sine of radians. Devices: 2 ULP.
    sin(x) = Sin, rounded(libm::sin(x.into()));
    /// Cosine of radians. Devices: 2 ULP.
    cos(x) = Cos, rounded(libm::cos(x.into()));
    /// `|x|`. Exact.
    abs(x) = Abs, x.abs();
    /// `-x`. Exact.
    neg(x) = Neg, -x;
    /// Largest integer not above `x`. Exact.
    floor(x) = Floor, x.floor();
    /// Smallest integer not below `x`. Exact.
    ceil(x) = Ceil, x.ceil();
    /// Nearest integer, ties away from zero, as [`f32::round`]. Exact.
    round(x) = Round, x.round();
    /// The smaller of two. Exact; NaN if either is NaN (unlike [`f32::min`]); −0 is below +0.
    min(x, y) = Min, -max(-x, -y);
    /// The larger of two. Exact; NaN if either is NaN (unlike [`f32::max`]); −0 is below +0.
    max(x, y) = Max, maximum(x, y);
    /// `x^y`, as C's `pow`. Devices: 4 ULP.
    pow(x, y) = Pow, rounded(libm::pow(x.into(), y.into()));
    /// `x * y + z`, rounded once. Exact.
    fma(x, y, z) = Fma, libm::fmaf(x, y, z);
}

/// `x` if the condition holds, otherwise `y`: the function form of `if c { x } else { y }`.
///
/// ```
/// use epilogue::ops::select;
/// use epilogue::te;
///
/// assert_eq!(select(2.0 > 1.0, 3.0, 4.0), 3.0);
/// let x = te::placeholder([8], "x").at([5]);
/// assert!(select(x.greater(1.0), &x, 1.0) == x.greater(1.0).select(&x, 1.0));
/// ```
#[must_use]
pub fn select<C: Condition>(condition: C, x: impl Operand<C::Value>, y: impl Operand<C::Value>) -> C::Value {
    condition.choose(x.operand(), y.operand())
}

primitives!(@definition select(condition, x, y) = Select);

fn maximum(x: f32, y: f32) -> f32 {
    if x.is_nan() || y.is_nan() {
        f32::NAN
    } else if x > y || (x == y && x.is_sign_positive()) {
        x
    } else {
        y
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_goes_through_min_and_max_and_zeros_are_ordered() {
        assert!(max(f32::NAN, 1.0).is_nan() && max(1.0, f32::NAN).is_nan());
        assert!(min(f32::NAN, 1.0).is_nan() && min(1.0, f32::NAN).is_nan());
        assert_eq!(max(-0.0, 0.0).to_bits(), 0.0f32.to_bits());
        assert_eq!(max(0.0, -0.0).to_bits(), 0.0f32.to_bits());
        assert_eq!(min(0.0, -0.0).to_bits(), (-0.0f32).to_bits());
        assert_eq!(min(-0.0, 0.0).to_bits(), (-0.0f32).to_bits());
        assert_eq!((min(1.0, 2.0), max(1.0, 2.0)), (1.0, 2.0));
    }

    #[test]
    fn a_definition_has_the_operation_of_its_name() {
        for function in [exp::function(), tanh::function(), max::function(), fma::function(), select::function()] {
            let crate::expr::Body::Primitive(op) = function.body() else {
                panic!("{} is not a primitive", function.name())
            };
            assert_eq!(function.name(), op.symbol());
            assert_eq!(function.parameters().len(), op.arity());
        }
    }
}
