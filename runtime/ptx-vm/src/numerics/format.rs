//! Binary floating-point formats, and correct rounding to them.
//!
//! Everything here is exact integer arithmetic: an [`Exact`] number is `±mantissa · 2^exponent`, and [`Format::encode`]
//! rounds it once. The fast paths of the other modules are tested against these functions. Nothing here knows PTX
//! instructions.

/// How an inexact result is rounded (PTX ISA 9.7.3: `.rn`, `.rz`, `.rm`, `.rp`; 9.7.9.21: `.rna`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Rounding {
    /// `.rn`: to nearest, ties to even.
    #[default]
    NearestEven,
    /// `.rna`: to nearest, ties away from zero.
    NearestAway,
    /// `.rz`: toward zero.
    TowardZero,
    /// `.rm`: toward negative infinity.
    Down,
    /// `.rp`: toward positive infinity.
    Up,
}

impl Rounding {
    /// All rounding modes, for tests and tables.
    pub const ALL: [Rounding; 5] =
        [Rounding::NearestEven, Rounding::NearestAway, Rounding::TowardZero, Rounding::Down, Rounding::Up];

    /// Whether the magnitude is increased by one unit, given its parity and the bits that are cut off.
    #[inline(always)]
    fn increments(self, negative: bool, odd: bool, half: bool, below_half: bool) -> bool {
        match self {
            Rounding::NearestEven => half && (below_half || odd),
            Rounding::NearestAway => half,
            Rounding::TowardZero => false,
            Rounding::Down => negative && (half || below_half),
            Rounding::Up => !negative && (half || below_half),
        }
    }

    /// Whether an overflow gives infinity; otherwise it gives the largest finite number.
    #[inline(always)]
    fn overflows_to_infinity(self, negative: bool) -> bool {
        match self {
            Rounding::NearestEven | Rounding::NearestAway => true,
            Rounding::TowardZero => false,
            Rounding::Down => negative,
            Rounding::Up => !negative,
        }
    }
}

/// Which bit patterns of the top exponent are special.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Specials {
    /// IEEE 754: the top exponent holds infinity and NaN.
    Ieee,
    /// No infinity; only the all-ones pattern is NaN (e4m3).
    OnlyNan,
    /// Every pattern is a finite number.
    None,
}

/// A binary floating-point format of at most 64 bits: sign, exponent, mantissa.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// Bits of the exponent field.
    pub exponent_bits: u32,
    /// Bits of the mantissa field (without the hidden one).
    pub mantissa_bits: u32,
    /// Which patterns are special.
    pub specials: Specials,
}

/// IEEE binary16.
pub const F16: Format = Format::ieee(5, 10);
/// bfloat16.
pub const BF16: Format = Format::ieee(8, 7);
/// TensorFloat-32 as 19 bits; PTX keeps it in the top bits of a 32-bit register.
pub const TF32: Format = Format::ieee(8, 10);
/// IEEE binary32.
pub const F32: Format = Format::ieee(8, 23);
/// IEEE binary64.
pub const F64: Format = Format::ieee(11, 52);
/// FP8 with 4 exponent bits: largest 448, no infinity.
pub const E4M3: Format = Format { exponent_bits: 4, mantissa_bits: 3, specials: Specials::OnlyNan };
/// FP8 with 5 exponent bits: largest 57344, infinities.
pub const E5M2: Format = Format::ieee(5, 2);

/// 6 bits with 3 exponent bits: largest 28.
pub const E3M2: Format = Format { exponent_bits: 3, mantissa_bits: 2, specials: Specials::None };
/// 6 bits with 2 exponent bits: largest 7.5.
pub const E2M3: Format = Format { exponent_bits: 2, mantissa_bits: 3, specials: Specials::None };
/// 4 bits: largest 6.
pub const E2M1: Format = Format { exponent_bits: 2, mantissa_bits: 1, specials: Specials::None };

/// The meaning of a bit pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// A finite number, zero included.
    Finite(Exact),
    /// An infinity; `true` means negative.
    Infinite(bool),
    /// Not a number.
    Nan,
}

/// `±mantissa · 2^exponent`, exactly, or with a *sticky* lowest bit. A function that must drop bits below the lowest
/// one sets it. It keeps enough bits above it that rounding to the target format gives the exact number's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exact {
    /// The sign. Zero has one, too.
    pub negative: bool,
    /// The mantissa, an integer.
    pub mantissa: u128,
    /// The exponent of the power of two.
    pub exponent: i32,
}

impl Exact {
    /// A zero of the given sign.
    pub const fn zero(negative: bool) -> Self {
        Exact { negative, mantissa: 0, exponent: 0 }
    }

    /// An integer.
    pub const fn integer(negative: bool, magnitude: u128) -> Self {
        Exact { negative, mantissa: magnitude, exponent: 0 }
    }

    /// Whether it is ±0.
    pub const fn is_zero(self) -> bool {
        self.mantissa == 0
    }

    /// The position of the leading one: `2^k <= magnitude < 2^(k+1)`. Zero has none.
    fn leading(self) -> i32 {
        self.exponent + 127 - self.mantissa.leading_zeros() as i32
    }

    /// Moves the leading one to bit `position` (at most 126). Bits that are shifted out become a sticky bit.
    pub(super) fn normalised(self, position: u32) -> Self {
        if self.mantissa == 0 {
            return self;
        }
        let top = 127 - self.mantissa.leading_zeros();
        if top <= position {
            let shift = position - top;
            Exact { mantissa: self.mantissa << shift, exponent: self.exponent - shift as i32, ..self }
        } else {
            let shift = top - position;
            let lost = self.mantissa & ((1 << shift) - 1) != 0;
            Exact {
                mantissa: (self.mantissa >> shift) | u128::from(lost),
                exponent: self.exponent + shift as i32,
                ..self
            }
        }
    }

    /// The magnitude as a rounded multiple of `2^unit`. It saturates at `u128::MAX`.
    pub(super) fn rounded_to_unit(self, unit: i32, rounding: Rounding) -> u128 {
        let shift = unit - self.exponent;
        if self.mantissa == 0 {
            return 0;
        }
        if shift <= 0 {
            let left = shift.unsigned_abs();
            return if left > self.mantissa.leading_zeros() { u128::MAX } else { self.mantissa << left };
        }
        let (kept, half, below) = if shift > 128 {
            (0, false, true)
        } else if shift == 128 {
            (0, self.mantissa >> 127 != 0, self.mantissa << 1 != 0)
        } else {
            let half_bit = 1u128 << (shift - 1);
            (self.mantissa >> shift, self.mantissa & half_bit != 0, self.mantissa & (half_bit - 1) != 0)
        };
        kept + u128::from(rounding.increments(self.negative, kept & 1 != 0, half, below))
    }
}

impl Format {
    const fn ieee(exponent_bits: u32, mantissa_bits: u32) -> Self {
        Format { exponent_bits, mantissa_bits, specials: Specials::Ieee }
    }

    /// The whole width in bits.
    pub const fn bits(self) -> u32 {
        1 + self.exponent_bits + self.mantissa_bits
    }

    /// The exponent bias.
    pub const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// The exponent of the smallest normal number, which subnormals share.
    pub const fn minimum_exponent(self) -> i32 {
        1 - self.bias()
    }

    const fn top_exponent(self) -> u64 {
        (1 << self.exponent_bits) - 1
    }

    /// The sign bit.
    pub const fn sign_bit(self) -> u64 {
        1 << (self.bits() - 1)
    }

    /// The pattern of +∞; `None` if the format has none.
    pub const fn infinity(self) -> Option<u64> {
        match self.specials {
            Specials::Ieee => Some(self.top_exponent() << self.mantissa_bits),
            Specials::OnlyNan | Specials::None => None,
        }
    }

    /// The pattern of the largest finite number.
    pub const fn largest(self) -> u64 {
        match self.specials {
            Specials::Ieee => (self.top_exponent() << self.mantissa_bits) - 1,
            Specials::OnlyNan => self.sign_bit() - 2,
            Specials::None => self.sign_bit() - 1,
        }
    }

    /// The NaN that PTX instructions generate: sign 0, all other bits 1 (PTX ISA 9.7.4: `0x7fff`; 9.7.9.21; the same
    /// pattern, `0x7fffffff`, is what sm_80 and sm_90 give for `.f32`). If the format has none, the pattern is its largest
    /// number.
    pub const fn canonical_nan(self) -> u64 {
        self.sign_bit() - 1
    }

    /// The meaning of a bit pattern. Bits above the format's width are ignored.
    pub const fn decode(self, bits: u64) -> Value {
        let negative = bits & self.sign_bit() != 0;
        let fraction = bits & ((1 << self.mantissa_bits) - 1);
        let field = (bits >> self.mantissa_bits) & self.top_exponent();
        if field == self.top_exponent() {
            match self.specials {
                Specials::Ieee if fraction == 0 => return Value::Infinite(negative),
                Specials::Ieee => return Value::Nan,
                Specials::OnlyNan if fraction == (1 << self.mantissa_bits) - 1 => {
                    return Value::Nan;
                }
                Specials::OnlyNan | Specials::None => {}
            }
        }
        let (mantissa, field) = if field == 0 { (fraction, 1) } else { (fraction | 1 << self.mantissa_bits, field) };
        let exponent = field as i32 - self.bias() - self.mantissa_bits as i32;
        Value::Finite(Exact { negative, mantissa: mantissa as u128, exponent })
    }

    /// Rounds a number to the format, once. The rounding mode decides whether an overflow gives infinity or the largest
    /// finite number. A format without infinity gives its NaN instead of infinity.
    pub fn encode(self, number: Exact, rounding: Rounding) -> u64 {
        let sign = if number.negative { self.sign_bit() } else { 0 };
        if number.is_zero() {
            return sign;
        }
        let exponent = number.leading().max(self.minimum_exponent());
        let rounded = number.rounded_to_unit(exponent - self.mantissa_bits as i32, rounding);
        // A carry out of the mantissa correctly increases the exponent field; so does a subnormal that becomes normal.
        let field = (exponent - self.minimum_exponent()) as u128;
        let magnitude = (field << self.mantissa_bits) + rounded;
        if magnitude > u128::from(self.largest()) {
            return sign | self.overflow(number.negative, rounding);
        }
        sign | magnitude as u64
    }

    fn overflow(self, negative: bool, rounding: Rounding) -> u64 {
        if rounding.overflows_to_infinity(negative) {
            self.infinity().unwrap_or(self.canonical_nan())
        } else {
            self.largest()
        }
    }

    /// [`encode`](Self::encode) for any value. Infinities stay (or become NaN if the format has none); NaN becomes the
    /// canonical NaN.
    pub fn encode_value(self, value: Value, rounding: Rounding) -> u64 {
        match value {
            Value::Finite(number) => self.encode(number, rounding),
            Value::Infinite(negative) => match self.infinity() {
                Some(infinity) => infinity | if negative { self.sign_bit() } else { 0 },
                None => self.canonical_nan(),
            },
            Value::Nan => self.canonical_nan(),
        }
    }

    /// Whether a pattern is a subnormal number (zero is not).
    #[inline(always)]
    pub const fn is_subnormal(self, bits: u64) -> bool {
        let magnitude = bits & (self.sign_bit() - 1);
        magnitude != 0 && magnitude >> self.mantissa_bits == 0
    }

    /// Replaces a subnormal by a zero of the same sign (`.ftz`).
    #[inline(always)]
    pub const fn flushed(self, bits: u64) -> u64 {
        if self.is_subnormal(bits) { bits & self.sign_bit() } else { bits }
    }

    /// Whether a pattern is NaN.
    #[inline(always)]
    pub const fn is_nan(self, bits: u64) -> bool {
        let magnitude = bits & (self.sign_bit() - 1);
        match self.specials {
            Specials::Ieee => magnitude > self.top_exponent() << self.mantissa_bits,
            Specials::OnlyNan => magnitude == self.sign_bit() - 1,
            Specials::None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_pattern_survives_decode_and_encode() {
        for format in [F16, BF16, TF32, E4M3, E5M2, E3M2, E2M3, E2M1] {
            for bits in 0..1u64 << format.bits() {
                let again = format.encode_value(format.decode(bits), Rounding::NearestEven);
                if format.is_nan(bits) {
                    assert_eq!(again, format.canonical_nan());
                } else {
                    assert_eq!(again, bits, "{format:?} {bits:#x}");
                }
            }
        }
    }

    #[test]
    fn known_limits() {
        let as_f64 =
            |format: Format, bits| f64::from_bits(F64.encode_value(format.decode(bits), Rounding::NearestEven));
        assert_eq!(as_f64(E4M3, E4M3.largest()), 448.0);
        assert_eq!(as_f64(E5M2, E5M2.largest()), 57344.0);
        let values = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
        assert_eq!(std::array::from_fn(|bits| as_f64(E2M1, bits as u64)), values);
        assert_eq!((as_f64(E2M3, E2M3.largest()), as_f64(E3M2, E3M2.largest())), (7.5, 28.0));
        assert_eq!(F16.encode_value(F64.decode(65519.99f64.to_bits()), Rounding::NearestEven), 0x7bff);
        assert_eq!(F16.encode_value(F64.decode(65520f64.to_bits()), Rounding::NearestEven), 0x7c00);
        assert_eq!(F16.encode_value(F64.decode(1e9f64.to_bits()), Rounding::TowardZero), 0x7bff);
        assert_eq!(F16.encode_value(F64.decode((-1e9f64).to_bits()), Rounding::Up), 0xfbff);
        assert_eq!(F16.encode_value(F64.decode(1e-30f64.to_bits()), Rounding::Up), 1);
    }

    proptest! {
        #[test]
        fn narrowing_to_f32_agrees_with_the_processor(bits in any::<u64>()) {
            let x = f64::from_bits(bits);
            prop_assume!(!x.is_nan());
            prop_assert_eq!(F32.encode_value(F64.decode(bits), Rounding::NearestEven), u64::from((x as f32).to_bits()));
        }

        #[test]
        fn narrowing_near_f32_agrees_with_the_processor(bits in any::<u32>(), offset in -1000i64..1000) {
            let bits = (f64::from(f32::from_bits(bits)).to_bits() as i64).wrapping_add(offset << 20) as u64;
            let x = f64::from_bits(bits);
            prop_assume!(!x.is_nan());
            prop_assert_eq!(F32.encode_value(F64.decode(bits), Rounding::NearestEven), u64::from((x as f32).to_bits()));
        }

        /// Directed modes give neighbours that enclose the number, and the nearest mode gives one of them.
        #[test]
        fn directed_modes_enclose(bits in any::<u64>()) {
            let x = f64::from_bits(bits);
            prop_assume!(x.is_finite());
            let at = |rounding| f32::from_bits(F32.encode_value(F64.decode(bits), rounding) as u32);
            let (down, up, nearest) = (at(Rounding::Down), at(Rounding::Up), at(Rounding::NearestEven));
            prop_assert!(f64::from(down) <= x && x <= f64::from(up));
            prop_assert!(nearest == down || nearest == up);
            prop_assert!(at(Rounding::TowardZero).abs() == down.abs().min(up.abs()));
        }
    }
}
