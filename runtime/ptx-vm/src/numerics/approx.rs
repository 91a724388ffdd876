//! The approximate functions (PTX ISA 9.7.3.13 to 9.7.3.23, 9.7.4.10, 9.7.4.11).
//!
//! Each is evaluated in `f64` with an error below 2^-40 of the result, and rounded once. So a result is at most [`ULP`]
//! units from the true value. This is inside every bound of the document, but not equal to the bits of the hardware's
//! tables. So compare with a GPU by the document's bound ([`Function::hardware_bound`]), never by bits. Infinities,
//! NaN, signed zeros, subnormals and `.ftz` follow the document's tables.
//!
//! The functions are branch-free and call no library, so lanes are vectorised, and results are the same on every
//! machine. The exceptions are [`sin`] and [`cos`] of arguments beyond 2^19, which call the standard library.

use super::convert::Half;
use super::float::{NAN_F32, canonical_f32, flush_f32};
use super::half::to_odd_f32;

/// The bound on the error of this module's `.f32` results, in units of the last place of the result.
pub const ULP: f64 = 0.501;

/// The functions of this module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// `ex2.approx`: 2^x.
    Ex2,
    /// `lg2.approx`: log2 x.
    Lg2,
    /// `rcp.approx`: 1/x.
    Rcp,
    /// `rsqrt.approx`: 1/√x.
    Rsqrt,
    /// `sqrt.approx`: √x.
    Sqrt,
    /// `sin.approx`.
    Sin,
    /// `cos.approx`.
    Cos,
    /// `tanh.approx`.
    Tanh,
}

/// The document's bound on the error of the hardware's result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// Units in the last place.
    Ulp(f64),
    /// Relative error.
    Relative(f64),
    /// Absolute error.
    Absolute(f64),
}

impl Function {
    /// Every function.
    pub const ALL: [Function; 8] = [
        Function::Ex2,
        Function::Lg2,
        Function::Rcp,
        Function::Rsqrt,
        Function::Sqrt,
        Function::Sin,
        Function::Cos,
        Function::Tanh,
    ];

    /// The bound for the `.f32` form. For `lg2` it is an absolute bound on arguments in (0.5, 2) (2^-22); elsewhere the
    /// relative bound is the same number. For `sin` and `cos` it holds in [-π, π].
    pub fn hardware_bound(self) -> Bound {
        match self {
            Function::Ex2 => Bound::Relative(2f64.powi(-22)),
            Function::Lg2 => Bound::Absolute(2f64.powi(-22)),
            Function::Rcp => Bound::Ulp(1.0),
            Function::Rsqrt => Bound::Relative(2f64.powf(-22.9)),
            Function::Sqrt => Bound::Relative(2f64.powi(-23)),
            Function::Sin | Function::Cos => Bound::Absolute(2f64.powf(-20.5)),
            Function::Tanh => Bound::Relative(2f64.powi(-11)),
        }
    }

    /// The scalar `.f32` form. `tanh` has no `.ftz`; the argument is ignored there.
    pub fn evaluate(self, x: f32, flush: bool) -> f32 {
        fn both(x: f32, flush: bool, with: fn(f32) -> f32, without: fn(f32) -> f32) -> f32 {
            if flush { with(x) } else { without(x) }
        }
        match self {
            Function::Ex2 => both(x, flush, ex2::<true>, ex2::<false>),
            Function::Lg2 => both(x, flush, lg2::<true>, lg2::<false>),
            Function::Rcp => both(x, flush, rcp::<true>, rcp::<false>),
            Function::Rsqrt => both(x, flush, rsqrt::<true>, rsqrt::<false>),
            Function::Sqrt => both(x, flush, sqrt::<true>, sqrt::<false>),
            Function::Sin => both(x, flush, sin::<true>, sin::<false>),
            Function::Cos => both(x, flush, cos::<true>, cos::<false>),
            Function::Tanh => tanh(x),
        }
    }
}

#[inline(always)]
fn wide<const FLUSH: bool>(x: f32) -> f64 {
    f64::from(if FLUSH { flush_f32(x) } else { x })
}

#[inline(always)]
fn narrow<const FLUSH: bool>(x: f64) -> f32 {
    let x = x as f32;
    let x = if FLUSH { flush_f32(x) } else { x };
    canonical_f32(x)
}

/// Adding and then subtracting this rounds an `f64` below 2^51 to an integer; the low bits of the sum hold this
/// integer.
const INTEGER_MAGIC: f64 = 6_755_399_441_055_744.0;

/// `2^r − 1` for |r| <= 1/2: the Taylor series of `exp(r ln 2) − 1`, remainder below 2^-46.
#[inline(always)]
fn exp2_minus_one(r: f64) -> f64 {
    let z = r * std::f64::consts::LN_2;
    const INVERSE_FACTORIALS: [f64; 11] = [
        1.0,
        1.0 / 2.0,
        1.0 / 6.0,
        1.0 / 24.0,
        1.0 / 120.0,
        1.0 / 720.0,
        1.0 / 5040.0,
        1.0 / 40320.0,
        1.0 / 362_880.0,
        1.0 / 3_628_800.0,
        1.0 / 39_916_800.0,
    ];
    let mut sum = INVERSE_FACTORIALS[10];
    let mut i = 10;
    while i > 0 {
        i -= 1;
        sum = sum * z + INVERSE_FACTORIALS[i];
    }
    sum * z
}

/// The integer nearest to `x`, as a number and as a power of two. |x| must be at most 1000.
#[inline(always)]
fn integer_part(x: f64) -> (f64, f64) {
    let shifted = x + INTEGER_MAGIC;
    let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    (shifted - INTEGER_MAGIC, power)
}

#[inline(always)]
fn exp2_wide(x: f64) -> f64 {
    // Beyond ±200 the f32 result is infinity or zero; a NaN passes both comparisons unchanged.
    let x = if x > 200.0 { 200.0 } else { x };
    let x = if x < -200.0 { -200.0 } else { x };
    let (integer, power) = integer_part(x);
    exp2_minus_one(x - integer) * power + power
}

/// `ex2.approx{.ftz}.f32`.
#[inline(always)]
pub fn ex2<const FLUSH: bool>(x: f32) -> f32 {
    narrow::<FLUSH>(exp2_wide(wide::<FLUSH>(x)))
}

/// `log2 x` for finite positive `x`.
#[inline(always)]
fn log2_wide(x: f64) -> f64 {
    // x = 2^e · m with m in [√½, √2).
    const ROOT_HALF_BITS: i64 = 0x3fe6_a09e_667f_3bcd;
    let bits = x.to_bits() as i64;
    let exponent = bits.wrapping_sub(ROOT_HALF_BITS) & (0xfff << 52);
    let m = f64::from_bits(bits.wrapping_sub(exponent) as u64);
    // The biased sum puts the exponent, a signed 12-bit number, into the low bits of the magic constant.
    let unsigned = ((exponent as u64) >> 52).wrapping_add(0x800) & 0xfff;
    let e = f64::from_bits(INTEGER_MAGIC.to_bits() + unsigned) - (INTEGER_MAGIC + 2048.0);
    // ln m = 2 artanh s.
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut sum = 1.0 / 19.0;
    let mut k = 9;
    while k > 0 {
        k -= 1;
        sum = sum * z + 1.0 / (2 * k + 1) as f64;
    }
    e + sum * s * (2.0 * std::f64::consts::LOG2_E)
}

/// `lg2.approx{.ftz}.f32`.
#[inline(always)]
pub fn lg2<const FLUSH: bool>(x: f32) -> f32 {
    let y = wide::<FLUSH>(x);
    let result = narrow::<FLUSH>(log2_wide(y));
    let result = if y == 0.0 { f32::NEG_INFINITY } else { result };
    let result = if y == f64::INFINITY { f32::INFINITY } else { result };
    if y >= 0.0 { result } else { NAN_F32 }
}

/// `rcp.approx{.ftz}.f32`.
#[inline(always)]
pub fn rcp<const FLUSH: bool>(x: f32) -> f32 {
    narrow::<FLUSH>(1.0 / wide::<FLUSH>(x))
}

/// `rsqrt.approx{.ftz}.f32`: −0 gives −∞, other negative numbers NaN.
#[inline(always)]
pub fn rsqrt<const FLUSH: bool>(x: f32) -> f32 {
    narrow::<FLUSH>(1.0 / wide::<FLUSH>(x).sqrt())
}

/// `sqrt.approx{.ftz}.f32`.
#[inline(always)]
pub fn sqrt<const FLUSH: bool>(x: f32) -> f32 {
    narrow::<FLUSH>(wide::<FLUSH>(x).sqrt())
}

/// Arguments beyond this are reduced by the standard library.
const REDUCTION_LIMIT: f64 = 524_288.0;

/// Sine and cosine of a finite number of at most [`REDUCTION_LIMIT`].
#[inline(always)]
fn sin_cos_wide(x: f64) -> (f64, f64) {
    // π/2 in three parts; the first two have 33 bits, so their products with the 19-bit quotient are exact.
    const HALF_PI: [f64; 3] = [1.570_796_326_734_125_6, 6.077_100_506_303_966e-11, 2.022_266_248_795_950_6e-21];
    let shifted = x * std::f64::consts::FRAC_2_PI + INTEGER_MAGIC;
    let quadrant = shifted.to_bits();
    let k = shifted - INTEGER_MAGIC;
    let r = ((x - k * HALF_PI[0]) - k * HALF_PI[1]) - k * HALF_PI[2];
    let z = r * r;
    // Taylor to r^17 and r^18: the remainders at π/4 are below 2^-62.
    const SINE: [f64; 9] = taylor(1);
    const COSINE: [f64; 10] = taylor(0);
    let (mut sine, mut cosine) = (SINE[8], COSINE[9]);
    let mut i = 8;
    while i > 0 {
        i -= 1;
        sine = sine * z + SINE[i];
    }
    i = 9;
    while i > 0 {
        i -= 1;
        cosine = cosine * z + COSINE[i];
    }
    sine *= r;
    let (a, b) = if quadrant & 1 != 0 { (cosine, sine) } else { (sine, cosine) };
    let negate = |x: f64, when: bool| f64::from_bits(x.to_bits() ^ (u64::from(when) << 63));
    (negate(a, quadrant & 2 != 0), negate(b, quadrant.wrapping_add(1) & 2 != 0))
}

/// `(−1)^i / (2i + odd)!` for i = 0, 1, …
const fn taylor<const N: usize>(odd: usize) -> [f64; N] {
    let mut coefficients = [0.0; N];
    let mut factorial = 1.0;
    let mut i = 0;
    while i < N {
        if i > 0 {
            factorial *= -(((2 * i + odd) * (2 * i + odd - 1)) as f64);
        }
        coefficients[i] = 1.0 / factorial;
        i += 1;
    }
    coefficients
}

/// `sin.approx{.ftz}.f32`. It is accurate for every argument; the hardware's error is bounded only in [-π, π].
#[inline(always)]
pub fn sin<const FLUSH: bool>(x: f32) -> f32 {
    let y = wide::<FLUSH>(x);
    if y.abs() > REDUCTION_LIMIT {
        return narrow::<FLUSH>(y.sin());
    }
    // Keeps -0, which the sum of the series would lose.
    let result = narrow::<FLUSH>(sin_cos_wide(y).0);
    if y == 0.0 { y as f32 } else { result }
}

/// `cos.approx{.ftz}.f32`.
#[inline(always)]
pub fn cos<const FLUSH: bool>(x: f32) -> f32 {
    let y = wide::<FLUSH>(x);
    if y.abs() > REDUCTION_LIMIT { narrow::<FLUSH>(y.cos()) } else { narrow::<FLUSH>(sin_cos_wide(y).1) }
}

/// `tanh` through `e^{2|x|} − 1`, so that small arguments keep their relative accuracy.
#[inline(always)]
fn tanh_wide(x: f64) -> f64 {
    let magnitude = x.abs();
    // tanh(20) rounds to 1 in f32.
    let bounded = if magnitude > 20.0 { 20.0 } else { magnitude };
    let t = bounded * (2.0 * std::f64::consts::LOG2_E);
    let (integer, power) = integer_part(t);
    let e = exp2_minus_one(t - integer) * power + (power - 1.0);
    (e / (e + 2.0)).copysign(x)
}

/// `tanh.approx.f32`.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    narrow::<false>(tanh_wide(x.into()))
}

/// `ex2.approx{.ftz}.{f16,bf16}`, rounded once.
#[inline(always)]
pub fn ex2_half<T: Half>(bits: u16, flush: bool) -> u16 {
    let flushed = |bits: u16| if flush { T::FORMAT.flushed(bits.into()) as u16 } else { bits };
    flushed(T::narrow(to_odd_f32(exp2_wide(T::widen(flushed(bits)).into()))))
}

/// `tanh.approx.{f16,bf16}`, rounded once.
#[inline(always)]
pub fn tanh_half<T: Half>(bits: u16) -> u16 {
    T::narrow(to_odd_f32(tanh_wide(T::widen(bits).into())))
}

/// `rcp.approx.ftz.f64`: uses and returns only the upper 32 bits (PTX ISA 9.7.3.14).
pub fn rcp_f64(x: f64) -> f64 {
    upper(1.0 / upper(x))
}

/// `rsqrt.approx.ftz.f64`: uses and returns only the upper 32 bits (PTX ISA 9.7.3.18).
pub fn rsqrt_f64(x: f64) -> f64 {
    upper(1.0 / upper(x).sqrt())
}

/// The upper 32 bits, with subnormals flushed and NaN canonical.
fn upper(x: f64) -> f64 {
    let bits = x.to_bits() & 0xffff_ffff_0000_0000;
    if x.is_nan() {
        f64::from_bits(0x7fff_ffff_0000_0000)
    } else if bits & (0x7ff << 52) == 0 {
        f64::from_bits(bits & (1 << 63))
    } else {
        f64::from_bits(bits)
    }
}

/// `div.full{.ftz}.f32` and `div.approx{.ftz}.f32` if the divisor's magnitude is at most 2^126: the rounded quotient.
/// For `approx` and 2^126 < |b| < 2^128 the document gives 0, or NaN for an infinite dividend.
#[inline(always)]
pub fn div<const FLUSH: bool>(a: f32, b: f32, full: bool) -> f32 {
    let (x, y) = (wide::<FLUSH>(a), wide::<FLUSH>(b));
    let quotient = narrow::<FLUSH>(x / y);
    let beyond = !full && y.abs() > 8.507_059_173_023_462e37 && y.is_finite();
    let zero = f32::from_bits((a.to_bits() ^ b.to_bits()) & 0x8000_0000);
    let limit = if x.is_finite() { zero } else { NAN_F32 };
    if beyond { limit } else { quotient }
}

#[cfg(test)]
mod tests {
    use super::super::convert::{Bf16Type, F16Type, f16_to_f32};
    use super::*;

    /// The error of `found` in units of the last place of `exact` rounded to f32.
    fn ulps(found: f32, exact: f64) -> f64 {
        let nearest = exact as f32;
        if nearest.is_infinite() || nearest == 0.0 || !exact.is_finite() {
            return if found == nearest { 0.0 } else { f64::INFINITY };
        }
        let exponent = (nearest.abs().to_bits() >> 23).max(1) as i32 - 150;
        (f64::from(found) - exact).abs() / 2f64.powi(exponent)
    }

    fn exact(function: Function, x: f64) -> f64 {
        match function {
            Function::Ex2 => x.exp2(),
            Function::Lg2 => x.log2(),
            Function::Rcp => 1.0 / x,
            Function::Rsqrt => 1.0 / x.sqrt(),
            Function::Sqrt => x.sqrt(),
            Function::Sin => x.sin(),
            Function::Cos => x.cos(),
            Function::Tanh => x.tanh(),
        }
    }

    #[test]
    fn errors_stay_below_the_bound() {
        for function in Function::ALL {
            let mut worst = 0f64;
            // Every 4099th bit pattern: all exponents and signs.
            for bits in (0..=u32::MAX).step_by(4099) {
                let x = f32::from_bits(bits);
                let (found, expected) = (function.evaluate(x, false), exact(function, x.into()));
                if expected.is_nan() {
                    assert_eq!(found.to_bits(), 0x7fff_ffff, "{function:?} {x:e}");
                } else {
                    let error = ulps(found, expected);
                    assert!(error <= ULP, "{function:?}({x:e}) = {found:e}, exactly {expected:e}: {error} ulp");
                    worst = worst.max(error);
                }
            }
            assert!(worst > 0.4, "{function:?} was hardly tested");
        }
    }

    #[test]
    fn special_values() {
        let bits = |f: fn(f32) -> f32, x: f32| f(x).to_bits();
        let (inf, tiny) = (f32::INFINITY, f32::from_bits(1));
        assert_eq!(
            [ex2::<false>(-inf), ex2::<false>(inf), ex2::<true>(-0.0), ex2::<true>(-149.0)],
            [0.0, inf, 1.0, 0.0]
        );
        assert_eq!(ex2::<false>(-149.0), tiny);
        assert_eq!(
            [lg2::<false>(0.0), lg2::<false>(-0.0), lg2::<true>(tiny), lg2::<false>(tiny)],
            [-inf, -inf, -inf, -149.0]
        );
        assert_eq!([bits(lg2::<false>, -1.0), bits(lg2::<false>, -inf), bits(ex2::<true>, f32::NAN)], [0x7fff_ffff; 3]);
        assert_eq!(
            [rcp::<true>(tiny), rcp::<true>(-tiny), rcp::<false>(-0.0), lg2::<false>(inf)],
            [inf, -inf, -inf, inf]
        );
        assert_eq!(bits(rcp::<false>, -inf), 1 << 31);
        assert_eq!([bits(rcp::<true>, f32::MAX), bits(rcp::<false>, f32::MAX)], [0, 0x0020_0000]);
        assert_eq!(
            [rsqrt::<false>(-0.0), rsqrt::<true>(-tiny), rsqrt::<false>(0.0), rsqrt::<false>(inf)],
            [-inf, -inf, inf, 0.0]
        );
        assert_eq!(
            [bits(rsqrt::<false>, -tiny), bits(sqrt::<false>, -1.0), bits(sin::<false>, inf), bits(cos::<true>, -inf)],
            [0x7fff_ffff; 4]
        );
        assert_eq!(
            [bits(sqrt::<false>, -0.0), bits(sqrt::<true>, -tiny), bits(sin::<true>, -tiny), bits(sin::<false>, -0.0)],
            [1 << 31; 4]
        );
        assert_eq!([tanh(inf), tanh(-inf), cos::<true>(tiny), tanh(tiny)], [1.0, -1.0, 1.0, tiny]);
        assert_eq!(bits(tanh, -0.0), 1 << 31);
        assert_eq!([div::<false>(1.0, 3.0, true), div::<false>(1.0, f32::MAX, true)], [1.0 / 3.0, 1.0 / f32::MAX]);
        assert_eq!(div::<false>(-1.0, f32::MAX, false).to_bits(), 1 << 31);
        assert!(div::<false>(inf, f32::MAX, false).is_nan());
        assert_eq!(rcp_f64(3.0).to_bits(), 0x3fd5_5555_0000_0000);
        assert_eq!((rsqrt_f64(4.0), rcp_f64(5e-324), rcp_f64(-f64::INFINITY)), (0.5, f64::INFINITY, 0.0));
        assert_eq!(rcp_f64(f64::NAN).to_bits(), 0x7fff_ffff_0000_0000);
    }

    #[test]
    fn halves_are_correctly_rounded() {
        for bits in 0..=u16::MAX {
            for function in [Function::Ex2, Function::Tanh] {
                let x = f64::from(f16_to_f32(bits));
                let exact = exact(function, x);
                let found = match function {
                    Function::Ex2 => ex2_half::<F16Type>(bits, false),
                    _ => tanh_half::<F16Type>(bits),
                };
                assert_eq!(found, F16Type::narrow(to_odd_f32(exact)), "{function:?} {x}");
            }
        }
        assert_eq!(ex2_half::<Bf16Type>(Bf16Type::narrow(3.0), false), Bf16Type::narrow(8.0));
        assert_eq!(tanh_half::<Bf16Type>(0x7f80), Bf16Type::narrow(1.0));
        assert_eq!(ex2_half::<F16Type>(0xd000, true), 0, "a subnormal result is flushed");
    }
}
