//! Activation functions and their derivatives, written as users write theirs.
//!
//! A derivative takes the input of the activation (the pre-activation) and gives the slope there. A backward epilogue
//! multiplies by it: `let dx = accum * gelu_grad(z);`.
//!
//! At ±∞ a function is its limit there. Where a formula would be infinity times 0, it bounds its argument, at a place
//! beyond which nothing changes in f64 either.

#![expect(
    clippy::excessive_precision,
    clippy::approx_constant,
    reason = "f64 arithmetic uses all digits; a constant of `std::f32` has only those of f32"
)]

use super::{abs, cos, erf, exp, exp2, log1p, max, min, sin, tanh};
use epilogue_macros::elementwise;

/// The larger of `x` and 0; NaN gives NaN.
#[elementwise]
pub fn relu(x: f32) -> f32 {
    max(x, 0.0)
}

/// The slope of [`relu`](fn@relu): 1 above 0, otherwise 0; at NaN 1, as in PyTorch.
#[elementwise]
pub fn relu_grad(x: f32) -> f32 {
    if x <= 0.0 { 0.0 } else { 1.0 }
}

/// `x` above 0, otherwise `slope * x`.
#[elementwise]
pub fn leaky_relu(x: f32, slope: f32) -> f32 {
    if x > 0.0 { x } else { slope * x }
}

/// The slope of [`leaky_relu`](fn@leaky_relu): 1 above 0, otherwise `slope`; at NaN `slope`, as in PyTorch.
#[elementwise]
pub fn leaky_relu_grad(x: f32, slope: f32) -> f32 {
    if x > 0.0 { 1.0 } else { slope }
}

/// `x` limited to the range from `low` to `high`: `min(max(x, low), high)`; NaN gives NaN.
#[elementwise]
pub fn clamp(x: f32, low: f32, high: f32) -> f32 {
    min(max(x, low), high)
}

/// `x * x`.
#[elementwise]
pub fn square(x: f32) -> f32 {
    x * x
}

/// The logistic function, `1 / (1 + exp(-x))`: 3 ULP where the result is a normal number.
#[elementwise]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The slope of [`sigmoid`](fn@sigmoid): `sigmoid(x) * sigmoid(-x)`.
#[elementwise]
pub fn sigmoid_grad(x: f32) -> f32 {
    sigmoid(x) * sigmoid(-x)
}

/// The slope of [`tanh`](fn@tanh): `1 - tanh(x)^2`, with an absolute error of 2^-22.
#[elementwise]
pub fn tanh_grad(x: f32) -> f32 {
    let t = tanh(x);
    1.0 - t * t
}

/// `x * sigmoid(x)`, also called swish; −0 at −∞.
#[elementwise]
pub fn silu(x: f32) -> f32 {
    let y = max(x, -800.0);
    y * sigmoid(y)
}

/// The slope of [`silu`](fn@silu): `s * (1 + x * (1 - s))` with `s = sigmoid(x)`.
#[elementwise]
pub fn silu_grad(x: f32) -> f32 {
    let y = clamp(x, -800.0, 800.0);
    sigmoid(y) * (1.0 + y * sigmoid(-y))
}

/// GELU, `x / 2 + x / 2 * erf(x / sqrt(2))`; 0 at −∞. The error is at most 2^-23 |x|: below −3 the sum cancels, as in
/// PyTorch, and below −6 it is 0. A result of 16 bits is also rounded to its type.
#[elementwise]
pub fn gelu(x: f32) -> f32 {
    let y = max(x, -100.0);
    // Not `half * (1 + erf)`: devices fuse the product with the sum.
    let half = 0.5 * y;
    half + half * erf(y * 0.707106781186547524400844362104849)
}

/// The slope of [`gelu`](fn@gelu): the cumulative normal distribution at `x`, plus `x` times its density.
#[elementwise]
pub fn gelu_grad(x: f32) -> f32 {
    // Further out the density is 0 in f64 too; without the bound, infinity times 0 would be NaN.
    let y = clamp(x, -40.0, 40.0);
    let density = 0.398942280401432677939946059934382 * exp(-0.5 * y * y);
    0.5 + 0.5 * erf(x * 0.707106781186547524400844362104849) + y * density
}

/// GELU's approximation by tanh, `x / 2 + x / 2 * tanh(u)` with `u = sqrt(2 / pi) * (x + 0.044715 x^3)`; −0 at −∞.
///
/// It is computed as the same number `x * sigmoid(2 u)`, in which nothing cancels.
#[elementwise]
pub fn gelu_tanh(x: f32) -> f32 {
    let y = max(x, -100.0);
    // `exp(-2 u)` as a power of 2.
    y * (1.0 / (1.0 + exp2(y * (-2.302208198144324889133894770436627 - 0.102943239580023487417622104660074 * y * y))))
}

/// The slope of [`gelu_tanh`](fn@gelu_tanh): `s + x * s * (1 - s) * 2 u'` with `s = sigmoid(2 u)`.
#[elementwise]
pub fn gelu_tanh_grad(x: f32) -> f32 {
    let y = clamp(x, -16.0, 16.0);
    let z = y * y;
    let s = 1.0 / (1.0 + exp2(y * (-2.302208198144324889133894770436627 - 0.102943239580023487417622104660074 * z)));
    s + s * (1.0 - s) * (y * (1.595769121605730711759784239737527 + 0.214064448817800746329016256839591 * z))
}

/// `log(1 + exp(x))`, as `max(x, 0) + log1p(exp(-|x|))`: 5 ULP.
#[elementwise]
pub fn softplus(x: f32) -> f32 {
    max(x, 0.0) + log1p(exp(-abs(x)))
}

/// The slope of [`softplus`](fn@softplus): [`sigmoid`](fn@sigmoid).
#[elementwise]
pub fn softplus_grad(x: f32) -> f32 {
    sigmoid(x)
}

/// `x * clamp(x + 3, 0, 6) / 6`: −0 up to −3, and `x` from 3 on.
#[elementwise]
pub fn hardswish(x: f32) -> f32 {
    // Neither infinity times 0 nor `x * 6`, which overflows.
    let y = max(x, -3.0);
    if x >= 3.0 { x } else { y * (y + 3.0) / 6.0 }
}

/// The slope of [`hardswish`](fn@hardswish): 0 up to −3, 1 from 3 on, and `x / 3 + 1 / 2` between; NaN at NaN.
#[elementwise]
pub fn hardswish_grad(x: f32) -> f32 {
    if x <= -3.0 {
        0.0
    } else if x >= 3.0 {
        1.0
    } else {
        x / 3.0 + 0.5
    }
}

/// The slope of [`exp`](fn@exp): itself.
#[elementwise]
pub fn exp_grad(x: f32) -> f32 {
    exp(x)
}

/// The slope of [`erf`](fn@erf): `2 / sqrt(pi) * exp(-x^2)`.
#[elementwise]
pub fn erf_grad(x: f32) -> f32 {
    1.12837916709551257389615890312155 * exp(-x * x)
}

/// The slope of [`sin`](fn@sin).
#[elementwise]
pub fn sin_grad(x: f32) -> f32 {
    cos(x)
}

/// The slope of [`cos`](fn@cos).
#[elementwise]
pub fn cos_grad(x: f32) -> f32 {
    -sin(x)
}

/// The slope of [`abs`](fn@crate::ops::abs): the sign of `x`, 0 at 0 and NaN.
#[elementwise]
pub fn abs_grad(x: f32) -> f32 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::Function;

    type Host = fn(f32) -> f32;

    /// Slopes against difference quotients in f64 would need f64 host functions; in f32 a step of 2^-8 leaves 2^-7 or
    /// so of error, which a wrong formula exceeds.
    #[test]
    fn slopes_are_slopes() {
        let pairs: [(&str, Host, Host); 13] = [
            ("relu", relu, relu_grad),
            ("leaky_relu", |x| leaky_relu(x, 0.2), |x| leaky_relu_grad(x, 0.2)),
            ("sigmoid", sigmoid, sigmoid_grad),
            ("tanh", tanh, tanh_grad),
            ("silu", silu, silu_grad),
            ("gelu", gelu, gelu_grad),
            ("gelu_tanh", gelu_tanh, gelu_tanh_grad),
            ("softplus", softplus, softplus_grad),
            ("hardswish", hardswish, hardswish_grad),
            ("erf", erf, erf_grad),
            ("sin", sin, sin_grad),
            ("cos", cos, cos_grad),
            ("abs", abs, abs_grad),
        ];
        for (name, f, slope) in pairs {
            for step in -57..=57 {
                // Never near a kink: those are at 0 and ±3.
                let x = step as f32 * 0.125 + 0.0625;
                let h = 1.0 / 256.0;
                let quotient = (f(x + h) - f(x - h)) / (2.0 * h);
                assert!((quotient - slope(x)).abs() < 1e-3, "{name} at {x}: {quotient} or {}", slope(x));
            }
        }
    }

    #[test]
    fn values_that_are_known() {
        assert!(relu(f32::NAN).is_nan() && clamp(f32::NAN, 0.0, 1.0).is_nan());
        assert_eq!((relu(-1.0), relu(2.0), clamp(5.0, -1.0, 1.0)), (0.0, 2.0, 1.0));
        assert!((gelu(1.0) - 0.841_344_75).abs() < 1e-6);
        assert!((gelu_tanh(1.0) - 0.841_192).abs() < 1e-6);
        assert!((silu(1.0) - 0.731_058_6).abs() < 1e-6);
        assert!((softplus(1.0) - 1.313_261_7).abs() < 1e-6 && (softplus(-20.0) - 2.061_153_6e-9).abs() < 1e-15);
        assert_eq!((softplus(f32::NEG_INFINITY), softplus(90.0), softplus(f32::INFINITY)), (0.0, 90.0, f32::INFINITY));
        assert_eq!((hardswish(3.0), hardswish(-3.0), hardswish(1.0)), (3.0, 0.0, 2.0 / 3.0));
        assert_eq!((gelu_grad(f32::INFINITY), gelu_grad(f32::NEG_INFINITY)), (1.0, 0.0));
        assert_eq!((silu_grad(f32::INFINITY), silu_grad(f32::NEG_INFINITY)), (1.0, 0.0));
        assert_eq!((gelu_tanh_grad(1e30), gelu_tanh_grad(-1e30)), (1.0, 0.0));
    }

    #[test]
    fn far_out_a_function_is_its_limit() {
        for (name, f) in [("gelu", gelu as Host), ("gelu_tanh", gelu_tanh), ("silu", silu), ("hardswish", hardswish)] {
            for x in [1e30, f32::MAX, f32::INFINITY] {
                assert_eq!((f(x), f(-x)), (x, 0.0), "{name}({x})");
            }
            assert!(f(f32::NAN).is_nan(), "{name}");
        }
    }

    #[test]
    fn definitions_keep_the_names() {
        let functions: [&'static Function; 3] = [relu::function(), gelu::function(), leaky_relu::function()];
        let names: Vec<_> = functions.iter().map(|f| (f.name(), f.parameters())).collect();
        assert_eq!(names, [("relu", &["x"][..]), ("gelu", &["x"]), ("leaky_relu", &["x", "slope"])]);
    }
}
