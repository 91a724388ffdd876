//! Element types on the host: rounding to them, and their bytes. Written independently of every device's conversions.

use half::{bf16, f16};

use crate::ElementType;

/// A binary floating-point format narrower than f64.
#[derive(Clone, Copy)]
struct Format {
    /// Significant bits, including the hidden one.
    significand: i32,
    /// Exponent of the smallest normal value.
    smallest: i32,
    largest: f64,
    saturates: bool,
}

impl Format {
    const F32: Self = Self { significand: 24, smallest: -126, largest: f32::MAX as f64, saturates: false };
    const BF16: Self = Self { significand: 8, smallest: -126, largest: 3.389_531_389_251_535_5e38, saturates: false };
    const F16: Self = Self { significand: 11, smallest: -14, largest: 65504.0, saturates: false };
    const F8E4M3: Self = Self { significand: 4, smallest: -6, largest: 448.0, saturates: true };
    const F8E5M2: Self = Self { significand: 3, smallest: -14, largest: 57344.0, saturates: true };

    /// The nearest value, ties to even; beyond the largest one, infinity or the largest one.
    fn round(self, x: f64) -> f64 {
        if x.is_nan() || x == 0.0 {
            return x;
        }
        if x.is_infinite() {
            return if self.saturates { self.largest.copysign(x) } else { x };
        }
        let exponent = libm::ilogb(x).max(self.smallest);
        // Scaling loses no bits: the quotient has at most 53, and both scales are powers of two in f64's range.
        let quantum = libm::ldexp(1.0, exponent - (self.significand - 1));
        let rounded = (x / quantum).round_ties_even() * quantum;
        if rounded.abs() <= self.largest {
            rounded
        } else if self.saturates {
            self.largest.copysign(x)
        } else {
            f64::INFINITY.copysign(x)
        }
    }
}

/// As `reference::round`, in the caller's mode.
pub(super) fn round(element: ElementType, x: f64) -> f64 {
    let integer = |low: f64, high: f64| if x.is_nan() { 0.0 } else { x.round_ties_even().clamp(low, high) + 0.0 };
    match element {
        ElementType::F32 => Format::F32.round(x),
        ElementType::BF16 => Format::BF16.round(x),
        ElementType::F16 => Format::F16.round(x),
        ElementType::F8E4M3 => Format::F8E4M3.round(x),
        ElementType::F8E5M2 => Format::F8E5M2.round(x),
        ElementType::I64 => integer(-9_223_372_036_854_775_808.0, 9_223_372_036_854_775_807.0),
        ElementType::I32 => integer(-2_147_483_648.0, 2_147_483_647.0),
        ElementType::I16 => integer(-32768.0, 32767.0),
        ElementType::I8 => integer(-128.0, 127.0),
        ElementType::U64 => integer(0.0, 18_446_744_073_709_551_615.0),
        ElementType::U32 => integer(0.0, 4_294_967_295.0),
        ElementType::U16 => integer(0.0, 65535.0),
        ElementType::U8 => integer(0.0, 255.0),
        ElementType::Bool => f64::from(u8::from(x != 0.0)),
        // Only f64 is left.
        _ => x,
    }
}

/// The value of an 8-bit float with `mantissa` stored bits. e4m3 has no infinity, and one NaN of each sign.
fn decode_f8(bits: u8, mantissa: u32, infinite: bool) -> f64 {
    let bias = if mantissa == 3 { 7 } else { 15 };
    let exponent = i32::from((bits & 0x7f) >> mantissa);
    let fraction = f64::from(bits & ((1 << mantissa) - 1));
    let unit = f64::from(1u32 << mantissa);
    let largest_exponent = 0x7f >> mantissa;
    let magnitude = if infinite && exponent == largest_exponent {
        if fraction == 0.0 { f64::INFINITY } else { f64::NAN }
    } else if !infinite && bits & 0x7f == 0x7f {
        f64::NAN
    } else if exponent == 0 {
        libm::ldexp(fraction / unit, 1 - bias)
    } else {
        libm::ldexp(1.0 + fraction / unit, exponent - bias)
    };
    if bits & 0x80 != 0 { -magnitude } else { magnitude }
}

/// The bits of a representable value. There are only 128 magnitudes, so it searches them.
fn encode_f8(x: f64, mantissa: u32, infinite: bool) -> u8 {
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    if x.is_nan() {
        return 0x7f;
    }
    (0..=0x7f).find(|&bits| decode_f8(bits, mantissa, infinite) == x.abs()).unwrap_or(0x7f) | sign
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded to the type's range before")]
pub(super) fn encode(element: ElementType, values: &[f64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * element.size());
    for &value in values {
        let x = round(element, value);
        match element {
            ElementType::F64 => bytes.extend(x.to_le_bytes()),
            ElementType::F32 => bytes.extend((x as f32).to_le_bytes()),
            // Exact values convert exactly, with any rounding of `from_f64`.
            ElementType::BF16 => bytes.extend(bf16::from_f64(x).to_le_bytes()),
            ElementType::F16 => bytes.extend(f16::from_f64(x).to_le_bytes()),
            ElementType::F8E4M3 => bytes.push(encode_f8(x, 3, false)),
            ElementType::F8E5M2 => bytes.push(encode_f8(x, 2, true)),
            ElementType::I64 => bytes.extend((x as i64).to_le_bytes()),
            ElementType::I32 => bytes.extend((x as i32).to_le_bytes()),
            ElementType::I16 => bytes.extend((x as i16).to_le_bytes()),
            ElementType::I8 => bytes.push((x as i8) as u8),
            ElementType::U64 => bytes.extend((x as u64).to_le_bytes()),
            ElementType::U32 => bytes.extend((x as u32).to_le_bytes()),
            ElementType::U16 => bytes.extend((x as u16).to_le_bytes()),
            // Only u8 and truth values are left.
            _ => bytes.push(x as u8),
        }
    }
    bytes
}

/// Truth values, as 0 and 1, of rows of this many columns with eight in a byte: bit n % 8 of byte n / 8 of a row.
#[must_use]
pub fn unpack(bytes: &[u8], columns: usize) -> Vec<f64> {
    let row = |row: &[u8]| (0..columns).map(|n| f64::from(row[n / 8] >> (n % 8) & 1)).collect::<Vec<_>>();
    bytes.chunks_exact(columns.div_ceil(8).max(1)).flat_map(row).collect()
}

/// Whether a bit of a packed row beyond the last column is not 0.
#[must_use]
pub fn has_padding(bytes: &[u8], columns: usize) -> bool {
    let used = columns % 8;
    used != 0 && bytes.chunks_exact(columns.div_ceil(8)).any(|row| row[row.len() - 1] >> used != 0)
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_wrap)]
pub(super) fn decode(element: ElementType, bytes: &[u8]) -> Vec<f64> {
    fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
        let mut array = [0; N];
        array.copy_from_slice(bytes);
        array
    }
    let value = |b: &[u8]| match element {
        ElementType::F64 => f64::from_le_bytes(array(b)),
        ElementType::F32 => f32::from_le_bytes(array(b)).into(),
        ElementType::BF16 => bf16::from_le_bytes(array(b)).into(),
        ElementType::F16 => f16::from_le_bytes(array(b)).into(),
        ElementType::F8E4M3 => decode_f8(b[0], 3, false),
        ElementType::F8E5M2 => decode_f8(b[0], 2, true),
        ElementType::I64 => i64::from_le_bytes(array(b)) as f64,
        ElementType::I32 => i32::from_le_bytes(array(b)).into(),
        ElementType::I16 => i16::from_le_bytes(array(b)).into(),
        ElementType::I8 => (b[0] as i8).into(),
        ElementType::U64 => u64::from_le_bytes(array(b)) as f64,
        ElementType::U32 => u32::from_le_bytes(array(b)).into(),
        ElementType::U16 => u16::from_le_bytes(array(b)).into(),
        ElementType::Bool => f64::from(u8::from(b[0] != 0)),
        // Only u8 is left.
        _ => b[0].into(),
    };
    bytes.chunks_exact(element.size()).map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_8_bit_float_reads_back_and_is_a_fixed_point() {
        for element in [ElementType::F8E4M3, ElementType::F8E5M2] {
            for bits in 0..=255u8 {
                let x = decode(element, &[bits])[0];
                if x.is_nan() {
                    assert_eq!(encode(element, &[x]), [0x7f]);
                } else if x.is_infinite() {
                    assert_eq!(round(element, x).abs(), 57344.0);
                } else {
                    assert_eq!(encode(element, &[x]), [bits], "{element} {bits:#x} {x}");
                    assert_eq!(round(element, x).to_bits(), x.to_bits());
                }
            }
        }
    }

    /// By definition: no representable value is nearer, and of two equally near ones the even one is taken.
    #[test]
    fn rounding_to_8_bit_floats_takes_the_nearest() {
        for (element, largest) in [(ElementType::F8E4M3, 0x7eu8), (ElementType::F8E5M2, 0x7b)] {
            let values: Vec<f64> = (0..=largest).map(|bits| decode(element, &[bits])[0]).collect();
            for pair in values.windows(2).enumerate() {
                let (i, &[low, high]) = (pair.0, pair.1) else { continue };
                let middle = f64::midpoint(low, high);
                let even = if i % 2 == 0 { low } else { high };
                assert_eq!(round(element, middle), even);
                assert_eq!(round(element, middle.next_down()), low);
                assert_eq!(round(element, middle.next_up()), high);
                assert_eq!(round(element, -middle.next_up()), -high);
            }
            let top = values[values.len() - 1];
            assert_eq!((round(element, 1e9), round(element, f64::NEG_INFINITY)), (top, -top));
        }
    }

    #[test]
    fn rounding_to_wider_floats_agrees_with_rust() {
        // f32 by `as`; f16 and bf16 from values with few bits, where `half` can't round twice.
        let mut x = 1.234_567_890_123e-50;
        while x < 1e50 {
            #[expect(clippy::cast_possible_truncation)]
            let expected = f64::from(x as f32);
            assert_eq!(round(ElementType::F32, x), expected);
            #[expect(clippy::cast_possible_truncation)]
            let short = f64::from(x as f32);
            assert_eq!(round(ElementType::BF16, short), bf16::from_f32(short as f32).to_f64());
            assert_eq!(round(ElementType::F16, short), f16::from_f32(short as f32).to_f64());
            x *= 1.001_7;
        }
        // A double that rounds differently by way of f32.
        assert_eq!(round(ElementType::F16, 1.0 + 0.000_488_281_25 + 1e-12), 1.000_976_562_5);
        assert_eq!(round(ElementType::F16, 65520.0), f64::INFINITY);
        assert_eq!(round(ElementType::F16, 65519.9), 65504.0);
    }

    #[test]
    fn integers_saturate() {
        assert_eq!(round(ElementType::I8, 2.5), 2.0);
        assert_eq!(round(ElementType::I8, 3.5), 4.0);
        assert_eq!(round(ElementType::I8, 1e9), 127.0);
        assert_eq!(round(ElementType::I8, f64::NEG_INFINITY), -128.0);
        assert_eq!(round(ElementType::U8, -3.0), 0.0);
        assert_eq!(round(ElementType::I32, 3e9), 2_147_483_647.0);
        assert_eq!(round(ElementType::I32, f64::NAN), 0.0);
        assert_eq!(decode(ElementType::I8, &encode(ElementType::I8, &[-5.0])), [-5.0]);
    }
}
