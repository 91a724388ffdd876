//! The operations of the epilogue language.
//!
//! Every operation `f` is a host function `f` and a module `f` that holds its definition as data, which is how users'
//! own operations look too: `#[elementwise]` makes the same pair, and nothing else in this library knows the names.
//! `use other::f as g` carries both.
//!
//! The host functions compute in f64 and round once, so they are within 1 ULP (the functions that IEEE 754 defines
//! exactly, exact). What devices reach for a primitive is in its comment, as ULP of f32; with f64 arithmetic every
//! bound is 2 ULP of f64, `pow` excepted (4). A composite's error follows from its formula, which its comment gives.

mod activation;

use std::sync::LazyLock;

pub use activation::*;

use crate::expr::{Function, Op};

/// Defines operations that devices implement directly.
macro_rules! primitives {
    ($($(#[$doc:meta])* $name:ident($($x:ident: $ty:ty),*) = $op:ident, $host:expr;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name($($x: $ty),*) -> f32 {
            $host
        }

        #[doc = concat!("The definition of [`", stringify!($name), "`](fn@", stringify!($name), ").")]
        pub mod $name {
            use super::{Function, LazyLock, Op};

            #[doc(hidden)]
            pub const CALL_DEPTH: u32 = 0;

            /// The operation as data.
            #[must_use]
            pub fn function() -> &'static Function {
                static FUNCTION: LazyLock<Function> =
                    LazyLock::new(|| Function::primitive(stringify!($name), &[$(stringify!($x)),*], Op::$op));
                &FUNCTION
            }
        }
    )*};
}

/// A result that is accurate in f64, rounded to nearest even.
#[expect(clippy::cast_possible_truncation)]
fn rounded(x: f64) -> f32 {
    x as f32
}

primitives! {
    /// `e^x`. Devices: 2 ULP.
    exp(x: f32) = Exp, rounded(libm::exp(x.into()));
    /// `2^x`. Devices: 2 ULP.
    exp2(x: f32) = Exp2, rounded(libm::exp2(x.into()));
    /// Natural logarithm. Devices: 1 ULP.
    log(x: f32) = Log, rounded(libm::log(x.into()));
    /// Base-2 logarithm. Devices: 1 ULP.
    log2(x: f32) = Log2, rounded(libm::log2(x.into()));
    /// Square root. Exact: rounded to nearest even.
    sqrt(x: f32) = Sqrt, x.sqrt();
    /// `1 / sqrt(x)`. Devices: 2 ULP.
    rsqrt(x: f32) = Rsqrt, rounded(1.0 / f64::from(x).sqrt());
    /// `1 / x`. Exact: rounded to nearest even.
    recip(x: f32) = Recip, 1.0 / x;
    /// Hyperbolic tangent. Devices: 2 ULP.
    tanh(x: f32) = Tanh, rounded(libm::tanh(x.into()));
    /// Error function. Devices: 2 ULP.
    erf(x: f32) = Erf, rounded(libm::erf(x.into()));
    /// Sine of radians. Devices: 2 ULP.
    sin(x: f32) = Sin, rounded(libm::sin(x.into()));
    /// Cosine of radians. Devices: 2 ULP.
    cos(x: f32) = Cos, rounded(libm::cos(x.into()));
    /// `|x|`. Exact.
    abs(x: f32) = Abs, x.abs();
    /// `-x`. Exact.
    neg(x: f32) = Neg, -x;
    /// Largest integer not above `x`. Exact.
    floor(x: f32) = Floor, x.floor();
    /// Smallest integer not below `x`. Exact.
    ceil(x: f32) = Ceil, x.ceil();
    /// Nearest integer, ties away from zero, as [`f32::round`]. Exact.
    round(x: f32) = Round, x.round();
    /// The smaller. Exact; NaN if either is NaN (unlike [`f32::min`]); −0 is below +0.
    min(x: f32, y: f32) = Min, -max(-x, -y);
    /// The larger. Exact; NaN if either is NaN (unlike [`f32::max`]); −0 is below +0.
    max(x: f32, y: f32) = Max, maximum(x, y);
    /// `x^y`, as C's `pow`. Devices: 4 ULP.
    pow(x: f32, y: f32) = Pow, rounded(libm::pow(x.into(), y.into()));
    /// `x * y + z`, rounded once. Exact.
    fma(x: f32, y: f32, z: f32) = Fma, libm::fmaf(x, y, z);
    /// `x` where the condition holds, else `y`: the function form of `if c { x } else { y }`.
    select(condition: bool, x: f32, y: f32) = Select, if condition { x } else { y };
}

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
                panic!("{} is no primitive", function.name())
            };
            assert_eq!(function.name(), op.symbol());
            assert_eq!(function.parameters().len(), op.arity());
        }
    }
}
