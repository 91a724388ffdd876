//! Rounding to element types. Every target of a loop program uses it.

use half::{bf16, f16};

use crate::ElementType;
use crate::simd::convert::{integer_to_odd, to_odd};

/// The nearest value of a floating-point type, ties to even. 8-bit floats saturate, also for infinities. Other types
/// give `x` unchanged.
#[must_use]
pub(crate) fn round(element: ElementType, x: f64) -> f64 {
    match element {
        #[expect(clippy::cast_possible_truncation)]
        ElementType::F32 => f64::from(x as f32),
        ElementType::F16 => f16::from_f32(to_odd(x)).to_f64(),
        ElementType::BF16 => bf16::from_f32(to_odd(x)).to_f64(),
        ElementType::F8E4M3 => narrow(x, 3, -6, 448.0),
        ElementType::F8E5M2 => narrow(x, 2, -14, 57344.0),
        _ => x,
    }
}

/// The nearest value of a floating-point type to an integer.
#[must_use]
pub(crate) fn round_integer(element: ElementType, x: i64) -> f64 {
    match element {
        #[expect(clippy::cast_precision_loss)]
        ElementType::F32 => f64::from(x as f32),
        ElementType::F64 => x as f64,
        _ => round(element, integer_to_odd(x)),
    }
}

/// Rounds to a float of `mantissa` stored bits whose smallest normal exponent is `lowest`; beyond `largest` it saturates.
fn narrow(x: f64, mantissa: i32, lowest: i32, largest: f64) -> f64 {
    if x == 0.0 || x.is_nan() {
        return x;
    }
    if x.is_infinite() {
        return largest.copysign(x);
    }
    let exponent = libm::ilogb(x).max(lowest);
    let unit = libm::ldexp(1.0, exponent - mantissa);
    ((x / unit).round_ties_even() * unit).clamp(-largest, largest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::element::{E4M3, E5M2};
    use crate::simd::convert::Widen as _;

    #[test]
    fn eight_bit_floats_are_their_own_nearest() {
        for bits in 0..=u8::MAX {
            let (narrow, wide) = (E4M3(bits), E5M2(bits));
            for (element, value, nearest) in [
                (ElementType::F8E4M3, narrow.widen(), E4M3::of(narrow.widen()).0),
                (ElementType::F8E5M2, wide.widen(), E5M2::of(wide.widen()).0),
            ] {
                if value.is_finite() {
                    assert_eq!(nearest, bits, "{element} {bits:#x}");
                    assert_eq!(round(element, value.into()), f64::from(value));
                }
            }
        }
        assert_eq!(round(ElementType::F8E4M3, 1e9), 448.0);
        assert_eq!(round(ElementType::F8E5M2, f64::NEG_INFINITY), -57344.0);
        assert_eq!(E4M3(0x7e).widen(), 448.0);
        assert_eq!(E4M3(0x01).widen(), 1.0 / 512.0);
    }

    #[test]
    fn a_bit_far_below_decides_a_tie() {
        let tie = 1.0 + 1.0 / 2048.0;
        assert_eq!(round(ElementType::F16, tie), 1.0);
        assert_eq!(round(ElementType::F16, tie + f64::EPSILON), 1.0 + 1.0 / 1024.0);
        assert_eq!(round(ElementType::BF16, 1.0 + 1.0 / 256.0 + 1e-12), 1.0 + 1.0 / 128.0);
        let tie = (1 << 62) + (1 << 54);
        assert_eq!(round_integer(ElementType::BF16, tie), (1u64 << 62) as f64);
        assert_eq!(round_integer(ElementType::BF16, tie + 1), ((1u64 << 62) + (1 << 55)) as f64);
    }
}
