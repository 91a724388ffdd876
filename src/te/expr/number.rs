//! Rounding to element types, and the bit patterns of narrow floats. Every target of a loop program uses these.

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

/// The bits of a value that an 8-bit float represents exactly.
#[must_use]
pub(crate) fn encode_f8(element: ElementType, x: f64) -> u8 {
    let (mantissa, lowest) = if element == ElementType::F8E4M3 { (3, -6) } else { (2, -14) };
    let sign = u8::from(x.is_sign_negative()) << 7;
    let x = x.abs();
    if x.is_nan() {
        return 0x7f | sign;
    }
    if x == 0.0 {
        return sign;
    }
    let exponent = libm::ilogb(x).max(lowest);
    // The significand as an integer: with the hidden bit for normal values.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 2^(mantissa + 1)")]
    let significand = (x / libm::ldexp(1.0, exponent - mantissa)) as u8;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 31")]
    let biased = (exponent - lowest) as u8;
    sign | ((biased << mantissa) + significand)
}

/// The value of the bits of an 8-bit float.
#[must_use]
pub(crate) fn decode_f8(element: ElementType, bits: u8) -> f64 {
    let e4m3 = element == ElementType::F8E4M3;
    let (mantissa, lowest) = if e4m3 { (3, -6) } else { (2, -14) };
    let magnitude = bits & 0x7f;
    let (exponent, fraction) = (magnitude >> mantissa, magnitude & ((1 << mantissa) - 1));
    let value = if e4m3 && magnitude == 0x7f || !e4m3 && magnitude > 0x7c {
        f64::NAN
    } else if !e4m3 && magnitude == 0x7c {
        f64::INFINITY
    } else if exponent == 0 {
        libm::ldexp(f64::from(fraction), lowest - mantissa)
    } else {
        libm::ldexp(f64::from(fraction | 1 << mantissa), lowest - mantissa + i32::from(exponent) - 1)
    };
    if bits & 0x80 == 0 { value } else { -value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bit_floats_round_trip() {
        for element in [ElementType::F8E4M3, ElementType::F8E5M2] {
            for bits in 0..=u8::MAX {
                let value = decode_f8(element, bits);
                if value.is_nan() {
                    assert!(decode_f8(element, encode_f8(element, value)).is_nan());
                } else if value.is_finite() {
                    assert_eq!(encode_f8(element, value), bits, "{element} {bits:#x}");
                    assert_eq!(round(element, value), value);
                }
            }
        }
        assert_eq!(round(ElementType::F8E4M3, 1e9), 448.0);
        assert_eq!(round(ElementType::F8E5M2, f64::NEG_INFINITY), -57344.0);
        assert_eq!(decode_f8(ElementType::F8E4M3, 0x7e), 448.0);
        assert_eq!(decode_f8(ElementType::F8E4M3, 0x01), 1.0 / 512.0);
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
