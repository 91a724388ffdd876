//! Exponentials, and the hyperbolic tangent and error function, which use them.

use super::fma;

/// Added to an f32 of small magnitude, it rounds that to an integer n, and the low bits hold n + 127: shifted left by 23, they
/// are `2^n`.
const SHIFT: f32 = 12_582_912.0 + 127.0;
/// Adding and subtracting it rounds an f64 below 2^51 in magnitude to an integer. In between, its low bits hold that integer.
pub(super) const ROUND_F64: f64 = 6_755_399_441_055_744.0;

/// ln 2 in two parts; the first has 9 significant bits, so that its products with small integers are exact.
const LN2_HIGH: f32 = 355.0 / 512.0;
const LN2_LOW: f32 = -2.121_944_4e-4;

/// Splits `x` into `n·ln 2 + r`, |r| ≤ 0.35; `r`, and `n + SHIFT`. |x| below 10⁶.
#[inline(always)]
fn reduce<const FMA: bool>(x: f32) -> (f32, f32) {
    let shifted = fma::<FMA>(x, std::f32::consts::LOG2_E, SHIFT);
    let n = shifted - SHIFT;
    (fma::<FMA>(n, -LN2_LOW, fma::<FMA>(n, -LN2_HIGH, x)), shifted)
}

/// `e^r` for |r| ≤ 0.35; relative error 2^-26 before rounding (minimax fit).
#[inline(always)]
fn exp_reduced<const FMA: bool>(r: f32) -> f32 {
    let q = fma::<FMA>(r, 0.001_388_239_6, 0.008_367_181);
    let q = fma::<FMA>(r, q, 0.041_667_223);
    let q = fma::<FMA>(r, q, 0.166_665_39);
    let q = fma::<FMA>(r, q, 0.499_999_97);
    let q = fma::<FMA>(r, q, 1.0);
    fma::<FMA>(r, q, 1.0)
}

/// `2^n` of `n + SHIFT`, for -127 ≤ n < 128; 0 for -127.
#[inline(always)]
fn power_of_two(shifted: f32) -> f32 {
    f32::from_bits(shifted.to_bits() << 23)
}

/// `p · 2^n` of `n + SHIFT`, rounded once, for any n of an f32 exponential.
#[inline(always)]
fn scale(p: f32, shifted: f32) -> f32 {
    // Twice the bias and n, in two halves. Bits above the lowest 9 are shifted out.
    let both = shifted.to_bits().wrapping_add(127);
    let half = both >> 1;
    (p * f32::from_bits(half << 23)) * f32::from_bits((both - half) << 23)
}

/// `x` limited to `low..=high`; NaN stays.
#[inline(always)]
fn hold(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// `e^x`.
#[inline(always)]
pub(crate) fn exp<const FMA: bool>(x: f32) -> f32 {
    // Beyond these limits the result is 0 or infinite; at the limits the scaling gives the same.
    let (r, shifted) = reduce::<FMA>(hold(x, -104.0, 89.0));
    scale(exp_reduced::<FMA>(r), shifted)
}

/// `2^x`.
#[inline(always)]
pub(crate) fn exp2<const FMA: bool>(x: f32) -> f32 {
    let x = hold(x, -151.0, 129.0);
    let shifted = x + SHIFT;
    let r = (x - (shifted - SHIFT)) * std::f32::consts::LN_2;
    scale(exp_reduced::<FMA>(r), shifted)
}

/// Hyperbolic tangent: an odd polynomial up to 0.6 (minimax fit, relative error 2^-28), `1 - 2 / (e^2|x| + 1)` above.
#[inline(always)]
pub(crate) fn tanh<const FMA: bool>(x: f32) -> f32 {
    let s = x * x;
    let p = fma::<FMA>(s, -0.005_895_158_3, 0.020_795_971);
    let p = fma::<FMA>(s, p, -0.053_783_83);
    let p = fma::<FMA>(s, p, 0.133_319_24);
    let p = fma::<FMA>(s, p, -0.333_333);
    let small = fma::<FMA>(x * s, p, x);

    let twice = 2.0 * x.abs();
    // From 20 on, the result rounds to 1.
    let (r, shifted) = reduce::<FMA>(if twice > 20.0 { 20.0 } else { twice });
    let e = exp_reduced::<FMA>(r) * power_of_two(shifted);
    let large = 1.0 - 2.0 / (e + 1.0);
    // Also keeps the sign of a zero.
    (if twice < 1.2 { small } else { large }).copysign(x)
}

/// The error function: an odd polynomial up to 1, `1 - e^(-y·Q(y))` above (minimax fits, relative errors 2^-29, 2^-31).
#[inline(always)]
pub(crate) fn erf<const FMA: bool>(x: f32) -> f32 {
    let s = x * x;
    let p = fma::<FMA>(s, 7.853_861_5e-5, -8.010_193_7e-4);
    let p = fma::<FMA>(s, p, 0.005_188_327_7);
    let p = fma::<FMA>(s, p, -0.026_853_813);
    let p = fma::<FMA>(s, p, 0.112_835_854);
    let p = fma::<FMA>(s, p, -0.376_126_26);
    let p = fma::<FMA>(s, p, 0.128_379_17);
    let small = fma::<FMA>(x, p, x);

    let y = x.abs();
    // From 4 on, the result rounds to 1.
    let y = if y > 4.0 { 4.0 } else { y };
    let q = fma::<FMA>(y, 1.365_906_8e-5, -3.474_547e-4);
    let q = fma::<FMA>(y, q, 0.003_744_263_2);
    let q = fma::<FMA>(y, q, -0.023_981_042);
    let q = fma::<FMA>(y, q, 0.106_495_775);
    let q = fma::<FMA>(y, q, 0.634_991_7);
    let q = fma::<FMA>(y, q, 1.128_688_6);
    let (r, shifted) = reduce::<FMA>(-(y * q));
    let large = 1.0 - exp_reduced::<FMA>(r) * power_of_two(shifted);
    if y < 1.0 { small } else { large.copysign(x) }
}

/// `2^x` in f64 with a relative error of 2^-40, for the f32 power; 0 and infinity beyond f32's range.
#[inline(always)]
pub(super) fn exp2_wide(x: f64) -> f64 {
    let x = if x < -200.0 { -200.0 } else { x };
    let x = if x > 200.0 { 200.0 } else { x };
    let shifted = x + ROUND_F64;
    let r = x - (shifted - ROUND_F64);
    let p = multiply_add(r, 1.317_891_871_855_293_2e-6, 1.530_917_855_362_395_2e-5);
    let p = multiply_add(r, p, 1.540_382_569_732_955e-4);
    let p = multiply_add(r, p, 1.333_345_477_885_448_8e-3);
    let p = multiply_add(r, p, 9.618_128_615_540_901e-3);
    let p = multiply_add(r, p, 5.550_410_935_347_522e-2);
    let p = multiply_add(r, p, 2.402_265_069_811_404_5e-1);
    let p = multiply_add(r, p, 6.931_471_805_481_938e-1);
    let n = shifted.to_bits().wrapping_sub(ROUND_F64.to_bits());
    multiply_add(r, p, 1.0) * f64::from_bits(n.wrapping_add(1023).wrapping_shl(52))
}

/// `a·b + c`, rounded twice.
#[inline(always)]
pub(super) fn multiply_add(a: f64, b: f64, c: f64) -> f64 {
    a * b + c
}
