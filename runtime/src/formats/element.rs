//! The small floats that are the elements of block formats.

use std::fmt;

use crate::layout::float8::{Format, f8e4m3, f8e5m2, finite, magnitude};

/// A floating-point format of 4, 6 or 8 bits, as OCP's "Microscaling Formats (MX)" specification has them. A value's
/// bits are the lower ones of a byte.
///
/// ```
/// use epilogue_runtime::formats::SmallFloat;
///
/// assert_eq!(SmallFloat::E2M1.encode(-2.4), 0b1100); // the nearest one is -2
/// assert_eq!(SmallFloat::E2M1.decode(0b1100), -2.0);
/// assert_eq!(SmallFloat::E2M1.largest(), 6.0);
/// ```
#[derive(Clone, Copy)]
pub struct SmallFloat {
    name: &'static str,
    bits: u32,
    mantissa: u32,
    largest: f32,
    encode: fn(f64) -> u8,
    decode: fn(u8) -> f64,
}

impl SmallFloat {
    /// 2 bits of exponent and 1 of mantissa: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
    pub const E2M1: Self = tiny::<E2M1>("e2m1", 4, 6.0);
    /// 2 bits of exponent and 3 of mantissa: up to 7.5.
    pub const E2M3: Self = tiny::<E2M3>("e2m3", 6, 7.5);
    /// 3 bits of exponent and 2 of mantissa: up to 28.
    pub const E3M2: Self = tiny::<E3M2>("e3m2", 6, 28.0);
    /// 4 bits of exponent and 3 of mantissa: up to 448 ([`f8e4m3`]).
    pub const E4M3: Self = Self {
        name: "e4m3",
        bits: 8,
        mantissa: 3,
        largest: 448.0,
        encode: |x| f8e4m3::from_f64(x).to_bits(),
        decode: |bits| f8e4m3::from_bits(bits).to_f64(),
    };
    /// 5 bits of exponent and 2 of mantissa: up to 57344 ([`f8e5m2`]).
    pub const E5M2: Self = Self {
        name: "e5m2",
        bits: 8,
        mantissa: 2,
        largest: 57344.0,
        encode: |x| f8e5m2::from_f64(x).to_bits(),
        decode: |bits| f8e5m2::from_bits(bits).to_f64(),
    };

    /// `e2m1`, `e4m3`, …
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The number of its bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.bits
    }

    /// The bits of its mantissa.
    pub(super) const fn mantissa(self) -> u32 {
        self.mantissa
    }

    /// The largest finite value.
    #[must_use]
    pub const fn largest(self) -> f32 {
        self.largest
    }

    /// The exponent of the largest finite value: 2 for 6, which is 1.5 · 2².
    pub(super) const fn largest_exponent(self) -> i32 {
        (self.largest.to_bits() >> 23) as i32 - 127
    }

    /// The bits of the nearest value, ties to even; at most the largest finite one. NaN becomes NaN, or 0 if the format
    /// has none.
    #[must_use]
    pub fn encode(self, x: f64) -> u8 {
        (self.encode)(x)
    }

    /// The value of the lower bits of a byte, exactly.
    #[must_use]
    pub fn decode(self, bits: u8) -> f64 {
        (self.decode)(bits)
    }
}

impl fmt::Debug for SmallFloat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for SmallFloat {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for SmallFloat {}

/// A format without infinities and NaNs.
trait Tiny: Format {
    const BITS: u32;
}

macro_rules! tiny {
    ($($name:ident: $bits:literal bits, mantissa $mantissa:literal, smallest $smallest:literal;)*) => {$(
        struct $name;
        impl Format for $name {
            const MANTISSA: i32 = $mantissa;
            const SMALLEST: i32 = $smallest;
            const LARGEST: u8 = (1 << ($bits - 1)) - 1;
        }
        impl Tiny for $name {
            const BITS: u32 = $bits;
        }
    )*};
}

tiny! {
    E2M1: 4 bits, mantissa 1, smallest 0;
    E2M3: 6 bits, mantissa 3, smallest 0;
    E3M2: 6 bits, mantissa 2, smallest -2;
}

const fn tiny<F: Tiny>(name: &'static str, bits: u32, largest: f32) -> SmallFloat {
    SmallFloat { name, bits, mantissa: F::MANTISSA.unsigned_abs(), largest, encode: encode::<F>, decode: decode::<F> }
}

fn encode<F: Tiny>(x: f64) -> u8 {
    if x.is_nan() {
        return 0;
    }
    magnitude::<F>(x) | u8::from(x.is_sign_negative()) << (F::BITS - 1)
}

fn decode<F: Tiny>(bits: u8) -> f64 {
    let value = finite::<F>(bits & F::LARGEST);
    if bits >> (F::BITS - 1) & 1 == 0 { value } else { -value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_are_those_of_the_specification() {
        let all = |float: SmallFloat, count: u8| (0..count).map(|bits| float.decode(bits)).collect::<Vec<_>>();
        assert_eq!(all(SmallFloat::E2M1, 8), [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
        // OCP MX 1.0, tables 3 and 4.
        let e2m3 = all(SmallFloat::E2M3, 32);
        assert_eq!((e2m3[1], e2m3[7], e2m3[8], e2m3[31]), (0.125, 0.875, 1.0, 7.5));
        let e3m2 = all(SmallFloat::E3M2, 32);
        assert_eq!((e3m2[1], e3m2[3], e3m2[4], e3m2[31]), (0.0625, 0.1875, 0.25, 28.0));
    }

    #[test]
    fn every_value_comes_back_and_ties_go_to_even() {
        for float in [SmallFloat::E2M1, SmallFloat::E2M3, SmallFloat::E3M2, SmallFloat::E4M3] {
            let largest = float.encode(f64::INFINITY);
            let sign = 1u8 << (float.bits() - 1);
            assert_eq!(float.decode(largest), f64::from(float.largest()));
            assert_eq!(f64::from(float.largest_exponent()), f64::from(float.largest()).log2().floor());
            for bits in 0..=largest {
                let x = float.decode(bits);
                assert_eq!((float.encode(x), float.encode(-x)), (bits, bits | sign), "{float:?} {bits}");
                assert_eq!(float.decode(bits | sign), -x);
                if bits < largest {
                    let middle = f64::midpoint(x, float.decode(bits + 1));
                    assert_eq!(float.encode(middle), bits + bits % 2, "{float:?} {bits}");
                    assert_eq!(float.encode(middle.next_down()), bits);
                    assert_eq!(float.encode(middle.next_up()), bits + 1);
                }
            }
        }
        assert_eq!(SmallFloat::E2M1.encode(f64::NAN), 0);
        assert!(SmallFloat::E4M3.decode(SmallFloat::E4M3.encode(f64::NAN)).is_nan());
    }
}
