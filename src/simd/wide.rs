//! The functions in f64: the algorithms of their f32 counterparts, with polynomials of higher degree.

use super::exp::{ROUND_F64, multiply_add};

/// ln 2 in two parts; the first has 32 significant bits, so that its products with exponents are exact.
const LN2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
const LN2_LOW: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);

/// Evaluates a polynomial by Horner's scheme; the highest coefficient comes first.
#[inline(always)]
fn horner<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    let mut y = coefficients[0];
    for c in &coefficients[1..] {
        y = multiply_add(x, y, *c);
    }
    y
}

/// `2^n` for -1023 < n < 1024.
#[inline(always)]
fn power_of_two(n: i64) -> f64 {
    f64::from_bits((n.wrapping_add(1023) as u64).wrapping_shl(52))
}

#[inline(always)]
fn scale(p: f64, n: i64) -> f64 {
    let half = n >> 1;
    (p * power_of_two(half)) * power_of_two(n.wrapping_sub(half))
}

/// `e^r - 1` for |r| ≤ 0.35; relative error 2^-59 of e^r before rounding (minimax fit).
#[inline(always)]
fn expm1_reduced(r: f64) -> f64 {
    let q = horner::<11>(
        r,
        [
            2.092_485_343_320_627_2e-9,
            2.510_643_915_991_745_6e-8,
            2.755_724_582_345_784_6e-7,
            2.755_725_242_937_85e-6,
            2.480_158_735_180_338_2e-5,
            1.984_126_987_719_028_6e-4,
            1.388_888_888_887_382_6e-3,
            8.333_333_333_325_449e-3,
            4.166_666_666_666_668_5e-2,
            0.166_666_666_666_666_7,
            0.5,
        ],
    );
    multiply_add(r * r, q, r)
}

#[inline(always)]
fn rounded_bits(shifted: f64) -> i64 {
    shifted.to_bits().wrapping_sub(ROUND_F64.to_bits()) as i64
}

#[inline(always)]
fn reduce(x: f64) -> (f64, i64) {
    let shifted = multiply_add(x, std::f64::consts::LOG2_E, ROUND_F64);
    let n = shifted - ROUND_F64;
    let r = multiply_add(n, -LN2_LOW, multiply_add(n, -LN2_HIGH, x));
    (r, rounded_bits(shifted))
}

#[inline(always)]
fn hold(x: f64, low: f64, high: f64) -> f64 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// `e^x`.
#[inline(always)]
pub(super) fn exp(x: f64) -> f64 {
    let (r, n) = reduce(hold(x, -746.0, 710.0));
    scale(1.0 + expm1_reduced(r), n)
}

/// `2^x`.
#[inline(always)]
pub(super) fn exp2(x: f64) -> f64 {
    let x = hold(x, -1076.0, 1025.0);
    let shifted = x + ROUND_F64;
    let r = (x - (shifted - ROUND_F64)) * std::f64::consts::LN_2;
    scale(1.0 + expm1_reduced(r), rounded_bits(shifted))
}

/// Hyperbolic tangent: an odd polynomial up to 0.55, `1 - 2 / (e^2|x| + 1)` above.
#[inline(always)]
pub(super) fn tanh(x: f64) -> f64 {
    let s = x * x;
    let p = horner::<12>(
        s,
        [
            7.743_877_307_268_804e-6,
            -3.351_086_322_642_602_5e-5,
            9.440_567_997_686_693e-5,
            -2.384_157_526_827_124_3e-4,
            5.898_914_948_455_626e-4,
            -1.455_816_955_347_515_5e-3,
            3.592_126_557_198_624e-3,
            -8.863_235_450_017_829e-3,
            2.186_948_853_360_321_3e-2,
            -5.396_825_396_821_176e-2,
            0.133_333_333_333_333_05,
            -0.333_333_333_333_333_3,
        ],
    );
    let small = multiply_add(x * s, p, x);
    let twice = 2.0 * x.abs();
    // From 40 on, the result rounds to 1.
    let (r, n) = reduce(if twice > 40.0 { 40.0 } else { twice });
    let e = (1.0 + expm1_reduced(r)) * power_of_two(n);
    let large = 1.0 - 2.0 / (e + 1.0);
    (if twice < 1.1 { small } else { large }).copysign(x)
}

/// Splits a positive finite `x` into `m · 2^k`, m between √½ and √2.
#[inline(always)]
fn split(x: f64) -> (f64, f64) {
    const SQRT_HALF_BITS: u64 = 0x3fe6_a09e_667f_3bcd;
    let subnormal = x < f64::MIN_POSITIVE;
    let scaled = if subnormal { x * 18_014_398_509_481_984.0 } else { x };
    let bits = scaled.to_bits().wrapping_sub(SQRT_HALF_BITS);
    // The exponent's difference, through the same rounding constant as elsewhere: AVX2 converts no 64-bit integers.
    let k = f64::from_bits((((bits as i64) >> 52) as u64).wrapping_add(ROUND_F64.to_bits())) - ROUND_F64;
    let m = f64::from_bits((bits & 0x000f_ffff_ffff_ffff).wrapping_add(SQRT_HALF_BITS));
    (m, k - if subnormal { 54.0 } else { 0.0 })
}

#[inline(always)]
fn with_limits(x: f64, y: f64) -> f64 {
    let y = if x < f64::INFINITY { y } else { x };
    let y = if x == 0.0 { f64::NEG_INFINITY } else { y };
    if x < 0.0 { f64::NAN } else { y }
}

/// `f`, `f²/2`, and the remaining part of log(1 + f).
#[inline(always)]
fn log_parts(m: f64) -> (f64, f64, f64) {
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let p = horner::<8>(
        z,
        [
            0.131_007_213_835_507_56,
            0.132_674_185_964_695_86,
            0.153_862_905_346_592_28,
            0.181_817_947_008_978_03,
            0.222_222_224_005_477_6,
            0.285_714_285_707_644_5,
            0.400_000_000_000_009_4,
            0.666_666_666_666_666_6,
        ],
    );
    let half_square = 0.5 * f * f;
    (f, half_square, s * (half_square + z * p))
}

/// Natural logarithm.
#[inline(always)]
pub(super) fn log(x: f64) -> f64 {
    let (m, k) = split(x);
    let (f, half_square, rest) = log_parts(m);
    let tail = multiply_add(k, LN2_LOW, rest);
    with_limits(x, multiply_add(k, LN2_HIGH, f - (half_square - tail)))
}

/// Base-2 logarithm: the natural one in two parts, times 1/ln 2 in two parts.
#[inline(always)]
pub(super) fn log2(x: f64) -> f64 {
    // 1/ln 2: a first part of 21 bits, so that products with 32 bits are exact; then the rest.
    const INVERSE_HIGH: f64 = f64::from_bits(0x3ff7_1547_6520_0000);
    const INVERSE_LOW: f64 = f64::from_bits(0x3de7_05fc_2eef_a200);
    let (m, k) = split(x);
    let (f, half_square, rest) = log_parts(m);
    let high = f64::from_bits((f - half_square).to_bits() & 0xffff_ffff_0000_0000);
    let low = (f - high) - half_square + rest;
    let small = (low + high) * INVERSE_LOW + low * INVERSE_HIGH;
    let large = high * INVERSE_HIGH;
    // `k` and `large` don't overlap; the sum's rounding error is added again.
    let sum = k + large;
    with_limits(x, sum + (small + ((k - sum) + large)))
}

/// π/2 in three parts; the first two have 33 bits.
const HALF_PI: [f64; 3] = [
    f64::from_bits(0x3ff9_21fb_5440_0000),
    f64::from_bits(0x3dd0_b461_1a60_0000),
    f64::from_bits(0x3ba3_198a_2e03_7073),
];

/// Sine of `x + quarter · π/2`, |x| up to [`REDUCIBLE`](super::trig::REDUCIBLE).
#[inline(always)]
fn sine(x: f64, quarter: u64) -> f64 {
    let shifted = multiply_add(x, std::f64::consts::FRAC_2_PI, ROUND_F64);
    let n = shifted - ROUND_F64;
    // The first two products are exact, and so is the first difference.
    let first = x - n * HALF_PI[0];
    let second = n * HALF_PI[1];
    let near = first - second;
    let lost = (first - near) - second;
    let correction = lost - n * HALF_PI[2];
    let r = near + correction;
    let tail = (near - r) + correction;
    let z = r * r;
    let s = horner::<7>(
        z,
        [
            -7.586_576_588_170_975e-13,
            1.605_852_957_226_787_4e-10,
            -2.505_210_621_952_189_5e-8,
            2.755_731_921_930_192e-6,
            -1.984_126_984_126_501_7e-4,
            8.333_333_333_333_331e-3,
            -0.166_666_666_666_666_66,
        ],
    );
    let s = r + multiply_add(r * z, s, tail);
    let c = horner::<7>(
        z,
        [
            4.745_804_889_760_62e-14,
            -1.147_045_974_967_560_5e-11,
            2.087_675_578_389_404e-9,
            -2.755_731_922_138_211_4e-7,
            2.480_158_730_158_461_8e-5,
            -1.388_888_888_888_888_7e-3,
            4.166_666_666_666_666_4e-2,
        ],
    );
    let half = 0.5 * z;
    let one = 1.0 - half;
    let c = one + (((1.0 - one) - half) + (z * z * c - r * tail));
    let n = shifted.to_bits().wrapping_add(quarter);
    let value = if n & 1 == 0 { s } else { c };
    if n & 2 == 0 { value } else { -value }
}

/// Sine of radians.
#[inline(always)]
pub(super) fn sin(x: f64) -> f64 {
    let y = sine(x, 0);
    if x == 0.0 { x } else { y }
}

/// Cosine of radians.
#[inline(always)]
pub(super) fn cos(x: f64) -> f64 {
    sine(x, 1)
}
