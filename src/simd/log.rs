//! Logarithms and the power.

use super::exp::{exp2_wide, multiply_add};
use super::fma;

const SQRT_HALF_BITS: u32 = 0x3f35_04f3;
const LN2_HIGH: f32 = f32::from_bits(0x3f31_7180);
const LN2_LOW: f32 = f32::from_bits(0x3717_f7d1);

/// Splits a positive finite `x` into `m · 2^k`, m between √½ and √2.
#[inline(always)]
fn split(x: f32) -> (f32, f32) {
    let subnormal = x < f32::MIN_POSITIVE;
    let bits = (if subnormal { x * 33_554_432.0 } else { x }).to_bits().wrapping_sub(SQRT_HALF_BITS);
    let k = (bits as i32) >> 23;
    let m = f32::from_bits((bits & 0x007f_ffff).wrapping_add(SQRT_HALF_BITS));
    (m, k as f32 - if subnormal { 25.0 } else { 0.0 })
}

/// Sets the results of a logarithm of any base at 0, below 0, at infinity and NaN.
#[inline(always)]
fn with_limits(x: f32, y: f32) -> f32 {
    let y = if x < f32::INFINITY { y } else { x };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    if x < 0.0 { f32::NAN } else { y }
}

/// Natural logarithm.
#[inline(always)]
pub(crate) fn log<const FMA: bool>(x: f32) -> f32 {
    with_limits(x, log_corrected::<FMA>(x, -0.0))
}

/// `log(1 + x)`: the logarithm of the rounded sum, and what the sum has lost, divided by it.
#[inline(always)]
pub(crate) fn log1p<const FMA: bool>(x: f32) -> f32 {
    let sum = 1.0 + x;
    // The rounding error of the sum, whichever operand is the larger (Knuth).
    let rest = sum - 1.0;
    let lost = (1.0 - (sum - rest)) + (x - rest);
    let y = with_limits(sum, log_corrected::<FMA>(sum, lost / sum));
    // The sum has lost the sign of a zero.
    if x == 0.0 { x } else { y }
}

/// Natural logarithm of a positive finite number: `k·ln 2 + 2·atanh(f / (2 + f))`, corrected by the rounding error of
/// `f - f²/2` and by what is given. (Adding −0 changes nothing, and takes no instruction.)
#[inline(always)]
fn log_corrected<const FMA: bool>(x: f32, correction: f32) -> f32 {
    let (m, k) = split(x);
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let p = fma::<FMA>(z, 0.235_963_31, 0.285_366_03);
    let p = fma::<FMA>(z, p, 0.400_003_46);
    let p = fma::<FMA>(z, p, 0.666_666_6);
    let half_square = 0.5 * f * f;
    let tail = fma::<FMA>(k, LN2_LOW, s * (half_square + z * p) + correction);
    fma::<FMA>(k, LN2_HIGH, f - (half_square - tail))
}

/// log₂ of a positive finite f32, in f64 with a relative error of 2^-47.
#[inline(always)]
fn log2_wide(x: f32) -> f64 {
    let (m, k) = split(x);
    let f = f64::from(m - 1.0);
    let s = f / (2.0 + f);
    let z = s * s;
    let p = multiply_add(z, 0.242_952_682_491_877_01, 0.261_439_880_216_679_4);
    let p = multiply_add(z, p, 0.320_616_580_834_116_76);
    let p = multiply_add(z, p, 0.412_198_398_179_435_93);
    let p = multiply_add(z, p, 0.577_078_017_282_6);
    let p = multiply_add(z, p, 0.961_796_693_924_220_3);
    let p = multiply_add(z, p, 2.885_390_081_777_926_8);
    multiply_add(s, p, f64::from(k))
}

/// Base-2 logarithm.
#[inline(always)]
pub(crate) fn log2(x: f32) -> f32 {
    with_limits(x, log2_wide(x) as f32)
}

/// `x^y` with C's special cases.
#[inline(always)]
pub(crate) fn pow(x: f32, y: f32) -> f32 {
    let base = x.abs();
    let logarithm = log2_wide(base);
    let logarithm = if base < f32::INFINITY { logarithm } else { f64::from(base) };
    let logarithm = if base == 0.0 { f64::NEG_INFINITY } else { logarithm };
    let magnitude = exp2_wide(f64::from(y) * logarithm) as f32;
    // 1^±∞ and (-1)^±∞ are 1.
    let magnitude = if base == 1.0 && !y.is_nan() { 1.0 } else { magnitude };

    let integer = y.floor() == y;
    let half = 0.5 * y;
    let odd = integer && half.floor() != half;
    let signed = if odd { magnitude.copysign(x) } else { magnitude };
    let undefined = x < 0.0 && !integer && base < f32::INFINITY;
    let result = if undefined { f32::NAN } else { signed };
    if x == 1.0 || y == 0.0 { 1.0 } else { result }
}
