//! Trigonometric functions that are made of others.

#![expect(clippy::excessive_precision, reason = "f64 arithmetic uses all digits")]

use super::{abs, cos, max, min, sin};
use epilogue_macros::elementwise;

/// The tangent of radians, `sin(x) / cos(x)`: 5 ULP, also of large arguments; NaN of infinities.
#[elementwise]
pub fn tan(x: f32) -> f32 {
    sin(x) / cos(x)
}

/// The angle of the point `(x, y)` in radians, from -π to π, as C's `atan2`: 3 ULP. Zeros and infinities count by their
/// signs, so `atan2(-0.0, -1.0)` is -π; NaN if either is NaN.
///
/// The arc tangent is a quotient of polynomials (Moshier, Cephes, `atan`). A multiple of π is a sum of two numbers; the
/// first is an f32.
#[elementwise]
pub fn atan2(y: f32, x: f32) -> f32 {
    let across = abs(x);
    let up = abs(y);
    let low = min(across, up);
    let high = max(across, up);
    let ratio = low / high;
    // Two zeros give 0, two infinities 1.
    let whole = if ratio == 1.0 { ratio } else { min(high, 1.0) };
    let t = if low == high { whole } else { ratio };
    // Near 1, from π/4 on.
    let u = if t > 0.66 { (t - 1.0) / (t + 1.0) } else { t };
    let z = u * u;
    let p = -64.85021904942025371773
        + z * (-122.8866684490136173410
            + z * (-75.00855792314704667340 + z * (-16.15753718733365076637 - z * 0.8750608600031904122785)));
    let q = 194.5506571482613964425
        + z * (485.3903996359136964868
            + z * (432.8810604912902668951 + z * (165.0270098316988542046 + z * (24.85846490142306297962 + z))));
    let a = u + u * (z * (p / q));
    let eighth = if t > 0.66 { (a + 0.785398185253143310546875) - 2.18556950009312142e-8 } else { a };
    let quarter = if up > across { (1.57079637050628662109375 - eighth) - 4.37113900018624283e-8 } else { eighth };
    // The sign of a zero is that of its reciprocal.
    let side = if x == 0.0 { 1.0 / x } else { x };
    let half = if side < 0.0 { (3.1415927410125732421875 - quarter) - 8.74227800037248566e-8 } else { quarter };
    let sign = if y == 0.0 { 1.0 / y } else { y };
    if sign < 0.0 { -half } else { half }
}
