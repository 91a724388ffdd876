//! Sine and cosine.

use super::exp::multiply_add;

/// Up to this magnitude the vector code can reduce by π/2 in two parts: the multiple has 20 bits, so its product with
/// the first part is exact. Beyond it, [`libm`] is used.
pub(super) const REDUCIBLE: f32 = 1_500_000.0;

const ROUND: f64 = 6_755_399_441_055_744.0;
/// The first 33 bits of π/2, and the rest.
const HALF_PI_HIGH: f64 = 1.570_796_326_734_125_6;
const HALF_PI_LOW: f64 = 6.077_100_506_506_192e-11;

/// Sine of `x + quarter · π/2`, in f64 (relative error 2^-37), for |x| up to [`REDUCIBLE`].
#[inline(always)]
fn sine(x: f32, quarter: u64) -> f32 {
    let x = f64::from(x);
    let shifted = multiply_add(x, std::f64::consts::FRAC_2_PI, ROUND);
    let n = shifted - ROUND;
    let r = multiply_add(n, -HALF_PI_LOW, multiply_add(n, -HALF_PI_HIGH, x));
    let z = r * r;
    let s = multiply_add(z, 2.718_047_046_078_333_6e-6, -1.983_930_440_423_516_4e-4);
    let s = multiply_add(z, s, 8.333_329_280_523_64e-3);
    let s = multiply_add(z, s, -0.166_666_666_405_882_04);
    let s = multiply_add(r * z, s, r);
    let c = multiply_add(z, -2.720_504_645_093_368_4e-7, 2.479_945_155_117_246e-5);
    let c = multiply_add(z, c, -1.388_888_346_725_613_5e-3);
    let c = multiply_add(z, c, 4.166_666_661_910_676_4e-2);
    let c = multiply_add(z * z, c, multiply_add(z, -0.5, 1.0));
    let n = shifted.to_bits().wrapping_add(quarter);
    let value = if n & 1 == 0 { s } else { c };
    (if n & 2 == 0 { value } else { -value }) as f32
}

/// Sine of radians, |x| up to [`REDUCIBLE`].
#[inline(always)]
pub(super) fn sin(x: f32) -> f32 {
    let y = sine(x, 0);
    if x == 0.0 { x } else { y }
}

/// Cosine of radians, |x| up to [`REDUCIBLE`].
#[inline(always)]
pub(super) fn cos(x: f32) -> f32 {
    sine(x, 1)
}
