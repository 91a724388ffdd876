//! `.f16` and `.bf16` arithmetic (PTX ISA 9.7.4). Each result is rounded once, to nearest even.
//!
//! Scalar functions take and return 16-bit patterns; [`packed`](super::packed) applies them to pairs. A NaN result is
//! `0x7fff`.

use super::convert::Half;
use super::float::{MinMax, max_bits, min_bits};

/// The modifiers of half-precision arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct HalfMode {
    /// `.ftz` (`.f16` only): subnormal inputs and results become zeros of the same sign.
    pub flush: bool,
    /// `.sat`: clamp to `[0, 1]`, NaN to +0.
    pub saturate: bool,
    /// `.relu` (`fma` only): negative results become +0; NaN stays NaN.
    pub relu: bool,
}

impl HalfMode {
    #[inline(always)]
    fn input<T: Half>(self, bits: u16) -> f32 {
        T::widen(if self.flush { T::FORMAT.flushed(bits.into()) as u16 } else { bits })
    }

    #[inline(always)]
    fn output<T: Half>(self, exact_or_odd: f32) -> u16 {
        let bits = T::narrow(exact_or_odd);
        let bits = if self.flush { T::FORMAT.flushed(bits.into()) as u16 } else { bits };
        let nan = bits & 0x7fff > (T::FORMAT.top() as u16);
        let negative = bits & 0x8000 != 0;
        if self.saturate {
            let one = T::narrow(1.0);
            return if nan || negative { 0 } else { bits.min(one) };
        }
        if self.relu && negative { 0 } else { bits }
    }
}

impl super::format::Format {
    /// The pattern of +∞ of an IEEE format; larger patterns are NaN.
    #[inline(always)]
    const fn top(self) -> u64 {
        match self.infinity() {
            Some(infinity) => infinity,
            None => self.largest(),
        }
    }
}

/// Rounds an `f64` to an odd `f32`: the last bit of an inexact result is set. A second rounding, to at most 22 bits,
/// then gives the result of a single rounding. (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums".)
#[inline(always)]
pub(super) fn to_odd_f32(x: f64) -> f32 {
    let nearest = x as f32;
    let back = f64::from(nearest);
    let bits = nearest.to_bits();
    let away = back.abs() > x.abs();
    let truncated = bits.wrapping_sub(u32::from(away));
    let inexact = back != x && !x.is_nan();
    f32::from_bits(if inexact { truncated | 1 } else { bits })
}

/// The sum of two `f64`, rounded to odd.
#[inline(always)]
fn odd_sum(a: f64, b: f64) -> f64 {
    let sum = a + b;
    // Knuth's two-sum: the error is exact.
    let b_part = sum - a;
    let error = (a - (sum - b_part)) + (b - b_part);
    let bits = sum.to_bits();
    let inexact = error != 0.0 && sum.is_finite();
    let away = (error < 0.0) == (sum > 0.0);
    let truncated = bits.wrapping_sub(u64::from(away));
    f64::from_bits(if inexact { truncated | 1 } else { bits })
}

/// `add{.rn}{.ftz}{.sat}`.
#[inline(always)]
pub fn add<T: Half>(a: u16, b: u16, mode: HalfMode) -> u16 {
    // An f32 sum of two halves, then rounded again, equals one rounding: 24 >= 2·11 + 2, and tiny sums are exact.
    mode.output::<T>(mode.input::<T>(a) + mode.input::<T>(b))
}

/// `sub{.rn}{.ftz}{.sat}`.
#[inline(always)]
pub fn sub<T: Half>(a: u16, b: u16, mode: HalfMode) -> u16 {
    mode.output::<T>(mode.input::<T>(a) - mode.input::<T>(b))
}

/// `mul{.rn}{.ftz}{.sat}`.
#[inline(always)]
pub fn mul<T: Half>(a: u16, b: u16, mode: HalfMode) -> u16 {
    let product = f64::from(mode.input::<T>(a)) * f64::from(mode.input::<T>(b));
    mode.output::<T>(to_odd_f32(product))
}

/// `fma{.rn}{.ftz}{.sat}{.relu}`.
#[inline(always)]
pub fn fma<T: Half>(a: u16, b: u16, c: u16, mode: HalfMode) -> u16 {
    let product = f64::from(mode.input::<T>(a)) * f64::from(mode.input::<T>(b));
    mode.output::<T>(to_odd_f32(odd_sum(product, mode.input::<T>(c).into())))
}

/// `min{.ftz}{.NaN}{.xorsign.abs}`.
#[inline(always)]
pub fn min<T: Half>(a: u16, b: u16, mode: MinMax) -> u16 {
    min_bits(T::FORMAT, a.into(), b.into(), mode) as u16
}

/// `max{.ftz}{.NaN}{.xorsign.abs}`.
#[inline(always)]
pub fn max<T: Half>(a: u16, b: u16, mode: MinMax) -> u16 {
    max_bits(T::FORMAT, a.into(), b.into(), mode) as u16
}

/// `neg{.ftz}`: flips the sign bit, also of a NaN.
#[inline(always)]
pub fn neg<T: Half>(a: u16, flush: bool) -> u16 {
    (if flush { T::FORMAT.flushed(a.into()) as u16 } else { a }) ^ 0x8000
}

/// `abs{.ftz}`: clears the sign bit, also of a NaN.
#[inline(always)]
pub fn abs<T: Half>(a: u16, flush: bool) -> u16 {
    (if flush { T::FORMAT.flushed(a.into()) as u16 } else { a }) & 0x7fff
}

#[cfg(test)]
mod tests {
    use super::super::convert::{Bf16Type, F16Type};
    use super::super::exact;
    use super::super::format::Rounding;
    use super::*;
    use proptest::prelude::*;

    fn check<T: Half>(a: u16, b: u16, c: u16) -> Result<(), TestCaseError> {
        let (x, y, z) = (u64::from(a), u64::from(b), u64::from(c));
        let (f, rn) = (T::FORMAT, Rounding::NearestEven);
        let plain = HalfMode::default();
        prop_assert_eq!(u64::from(add::<T>(a, b, plain)), exact::add(f, x, y, rn), "{:#x} + {:#x}", a, b);
        prop_assert_eq!(u64::from(sub::<T>(a, b, plain)), exact::add(f, x, y ^ 0x8000, rn), "{:#x} - {:#x}", a, b);
        prop_assert_eq!(u64::from(mul::<T>(a, b, plain)), exact::multiply(f, x, y, rn), "{:#x} * {:#x}", a, b);
        prop_assert_eq!(u64::from(fma::<T>(a, b, c, plain)), exact::fma(f, x, y, z, rn), "{:#x} {:#x} {:#x}", a, b, c);
        let flush = HalfMode { flush: true, ..plain };
        let flushed = f.flushed(exact::fma(f, f.flushed(x), f.flushed(y), f.flushed(z), rn));
        prop_assert_eq!(u64::from(fma::<T>(a, b, c, flush)), flushed);
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100_000))]

        #[test]
        fn f16_rounds_once(a in any::<u16>(), b in any::<u16>(), c in any::<u16>()) {
            check::<F16Type>(a, b, c)?;
        }

        #[test]
        fn bf16_rounds_once(a in any::<u16>(), b in any::<u16>(), c in any::<u16>()) {
            check::<Bf16Type>(a, b, c)?;
        }

        /// Products exactly halfway between two bf16 numbers, with an addend far below: the case that a plain f64 sum
        /// gets wrong.
        #[test]
        fn halfway_products(a in 0x80u16..0x100, b in 0x80u16..0x100, e in 100u16..150, c in any::<u16>()) {
            check::<Bf16Type>((e << 7) | (a & 0x7f), (127 << 7) | (b & 0x7f), c)?;
        }
    }

    #[test]
    fn modifiers() {
        let one = F16Type::narrow(1.0);
        let mode = HalfMode { saturate: true, ..HalfMode::default() };
        assert_eq!(add::<F16Type>(one, one, mode), one);
        assert_eq!(sub::<F16Type>(0, one, mode), 0);
        assert_eq!(add::<F16Type>(0x7e00, one, mode), 0);
        let relu = HalfMode { relu: true, ..HalfMode::default() };
        assert_eq!(fma::<Bf16Type>(Bf16Type::narrow(-1.0), Bf16Type::narrow(2.0), 0, relu), 0);
        assert_eq!(fma::<Bf16Type>(0x7fc0, 0, 0, relu), 0x7fff);
        assert_eq!(neg::<F16Type>(one, false), one | 0x8000);
        assert_eq!(abs::<F16Type>(0x8001, true), 0);
    }
}
