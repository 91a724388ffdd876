//! The 8-bit floating-point types as Rust types, with names like those of `half`.
//!
//! Conversions to them are those of the kernels: they round to nearest even, and values that are too large, including
//! infinities, become the largest finite number.

use std::fmt;

/// A format of at most 8 bits: a sign, an exponent, `MANTISSA` bits.
pub(crate) trait Format {
    const MANTISSA: i32;
    /// The exponent of the smallest normal number.
    const SMALLEST: i32;
    /// The bits of the largest finite number.
    const LARGEST: u8;
}

/// The bits of a number, without its sign.
pub(crate) fn magnitude<F: Format>(x: f64) -> u8 {
    let x = x.abs();
    // The exponent with which x is stored: its own, except for subnormal numbers.
    let own = i32::try_from(x.to_bits() >> 52).unwrap_or(0) - 1023;
    let exponent = own.max(F::SMALLEST);
    if exponent > 127 {
        return F::LARGEST; // before the sum below leaves its type
    }
    let quanta = (x * power_of_two(F::MANTISSA - exponent)).round_ties_even();
    // The leading one of a normal number adds 1 to the exponent field.
    let bits = f64::from((exponent - F::SMALLEST) << F::MANTISSA) + quanta;
    // Both are whole and not negative.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let bits = bits as u32;
    u8::try_from(bits).unwrap_or(F::LARGEST).min(F::LARGEST)
}

/// The number with these bits, if they are finite. The sign's bit may be set only if it is the eighth.
pub(crate) fn finite<F: Format>(bits: u8) -> f64 {
    let field = i32::from(bits & 0x7f) >> F::MANTISSA;
    let mantissa = i32::from(bits) & ((1 << F::MANTISSA) - 1);
    let quanta = if field == 0 { mantissa } else { mantissa + (1 << F::MANTISSA) };
    f64::from(quanta) * power_of_two(field.max(1) - 1 + F::SMALLEST - F::MANTISSA)
}

/// For exponents of normal numbers.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(u64::from((1023 + exponent).unsigned_abs()) << 52)
}

macro_rules! float8 {
    ($(#[$doc:meta])* $name:ident, $mantissa:literal, $smallest:literal, $largest:literal, $special:expr) => {
        $(#[$doc])*
        ///
        /// ```
        #[doc = concat!("use epilogue_runtime::", stringify!($name), ";")]
        ///
        #[doc = concat!("assert_eq!(", stringify!($name), "::from_f32(-1.5).to_f32(), -1.5);")]
        #[doc = concat!("assert_eq!(", stringify!($name), "::from_f32(1e9), ", stringify!($name), "::MAX);")]
        /// ```
        #[allow(non_camel_case_types, reason = "named as `half::f16` is, and as the primitive types are")]
        #[derive(Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
        #[repr(transparent)]
        pub struct $name(u8);

        impl Format for $name {
            const MANTISSA: i32 = $mantissa;
            const SMALLEST: i32 = $smallest;
            const LARGEST: u8 = $largest;
        }

        impl $name {
            /// The largest finite number.
            pub const MAX: Self = Self($largest);
            /// Not a number.
            pub const NAN: Self = Self(0x7f);

            /// The number with these bits.
            #[must_use]
            pub const fn from_bits(bits: u8) -> Self {
                Self(bits)
            }

            /// Its bits.
            #[must_use]
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// The nearest number, ties to even; at most [`MAX`](Self::MAX).
            #[must_use]
            pub fn from_f32(x: f32) -> Self {
                Self::from_f64(f64::from(x))
            }

            /// The nearest number, rounded once.
            #[must_use]
            pub fn from_f64(x: f64) -> Self {
                if x.is_nan() {
                    return Self::NAN;
                }
                Self(magnitude::<Self>(x) | u8::from(x.is_sign_negative()) << 7)
            }

            /// Its value, exactly.
            #[must_use]
            #[expect(clippy::cast_possible_truncation, reason = "f32 has every number of this type")]
            pub fn to_f32(self) -> f32 {
                self.to_f64() as f32
            }

            /// Its value, exactly.
            #[must_use]
            pub fn to_f64(self) -> f64 {
                let special: fn(u8) -> Option<f64> = $special;
                let value = special(self.0 & 0x7f).unwrap_or_else(|| finite::<Self>(self.0));
                if self.0 & 0x80 == 0 { value } else { -value }
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                self.to_f32().partial_cmp(&other.to_f32())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.to_f32(), f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.to_f32(), f)
            }
        }
    };
}

float8!(
    /// An 8-bit float with 4 bits of exponent and 3 of mantissa (E4M3 of the OCP's "8-bit Floating Point
    /// Specification"): up to 448, one NaN of each sign, no infinities.
    f8e4m3, 3, -6, 0x7e, |magnitude| (magnitude == 0x7f).then_some(f64::NAN)
);

float8!(
    /// An 8-bit float with 5 bits of exponent and 2 of mantissa (E5M2 of the OCP's "8-bit Floating Point
    /// Specification"). It is the upper half of an f16: up to 57344, with infinities and NaNs.
    f8e5m2, 2, -14, 0x7b, |magnitude| match magnitude {
        0x7c => Some(f64::INFINITY),
        0x7d.. => Some(f64::NAN),
        _ => None,
    }
);

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;

    #[test]
    fn every_number_comes_back() {
        for bits in 0..=u8::MAX {
            let (x, y) = (f8e4m3::from_bits(bits), f8e5m2::from_bits(bits));
            if x.to_f64().is_nan() {
                assert_eq!(bits & 0x7f, 0x7f);
            } else {
                assert_eq!(f8e4m3::from_f64(x.to_f64()).to_bits(), bits);
            }
            if y.to_f64().is_finite() {
                assert_eq!(f8e5m2::from_f64(y.to_f64()).to_bits(), bits);
            }
            // e5m2 is the upper half of an f16.
            let half = f16::from_bits(u16::from(bits) << 8);
            assert!(half.to_f32() == y.to_f32() || half.is_nan() && y.to_f32().is_nan(), "{bits:#x}");
        }
        assert_eq!((f8e4m3::MAX.to_f32(), f8e5m2::MAX.to_f32()), (448.0, 57344.0));
        assert_eq!(f8e4m3::from_bits(1).to_f64(), 2f64.powi(-9));
        assert_eq!(f8e4m3::from_bits(0x38).to_f64(), 1.0);
    }

    #[test]
    fn between_two_numbers_the_nearer_one_and_of_two_the_even_one() {
        fn check(from: impl Fn(f64) -> u8, to: impl Fn(u8) -> f64, largest: u8) {
            for low in 0..largest {
                let (x, y) = (to(low), to(low + 1));
                let middle = f64::midpoint(x, y);
                assert_eq!(from(middle), low + low % 2, "{middle}");
                assert_eq!(from(-middle), (low + low % 2) | 0x80);
                assert_eq!(from(middle.next_down()), low);
                assert_eq!(from(middle.next_up()), low + 1);
            }
            for large in [to(largest), to(largest) * 1.01, 1e300, f64::INFINITY] {
                assert_eq!((from(large), from(-large)), (largest, largest | 0x80));
            }
            for small in [0.0, f64::from_bits(1), to(1) * 0.4] {
                assert_eq!((from(small), from(-small)), (0, 0x80));
            }
        }
        check(|x| f8e4m3::from_f64(x).to_bits(), |bits| f8e4m3::from_bits(bits).to_f64(), 0x7e);
        check(|x| f8e5m2::from_f64(x).to_bits(), |bits| f8e5m2::from_bits(bits).to_f64(), 0x7b);
        assert!(f8e4m3::from_f32(f32::NAN).to_f32().is_nan() && f8e5m2::from_f32(f32::NAN).to_f32().is_nan());
    }
}
