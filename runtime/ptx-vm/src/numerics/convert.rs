//! `cvt` (PTX ISA 9.7.9.21): every conversion between floating-point formats and integers.
//!
//! The general functions take formats as values and are exact by construction. The short functions after them
//! ([`f32_to_f16`], [`f16_to_f32`], …) are branch-free, so that a loop over 32 lanes becomes SIMD code; they are tested
//! against the general ones. Conversions of packed pairs are in [`packed`](super::packed).

use super::format::{BF16, E4M3, E5M2, Exact, F16, F32, Format, Rounding, TF32, Value};

/// `.sat` and `.satfinite`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Saturation {
    /// Overflow is handled by the rounding mode.
    #[default]
    None,
    /// `.sat`: clamp to `[0, 1]`, NaN to +0.
    Unit,
    /// `.satfinite`: infinity and overflow to the largest finite number, NaN to the canonical NaN.
    Finite,
}

/// The modifiers of a conversion between floating-point formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FloatCast {
    /// The rounding mode. It has no effect if the target can hold every source value.
    pub rounding: Rounding,
    /// `.ftz`: subnormal `.f32` inputs and results become zeros of their sign.
    pub flush: bool,
    /// `.sat` or `.satfinite`.
    pub saturation: Saturation,
    /// `.relu`: negative results become +0, NaN stays NaN.
    pub relu: bool,
}

impl FloatCast {
    /// A conversion with a rounding mode only.
    pub const fn rounding(rounding: Rounding) -> Self {
        FloatCast { rounding, flush: false, saturation: Saturation::None, relu: false }
    }
}

/// An integer type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Integer {
    /// Width: 8, 16, 32 or 64.
    pub bits: u32,
    /// Whether it is signed (two's complement).
    pub signed: bool,
}

impl Integer {
    /// `.u8` to `.u64`.
    pub const fn unsigned(bits: u32) -> Self {
        Integer { bits, signed: false }
    }

    /// `.s8` to `.s64`.
    pub const fn signed(bits: u32) -> Self {
        Integer { bits, signed: true }
    }

    const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    const fn least(self) -> i128 {
        if self.signed { -(1i128 << (self.bits - 1)) } else { 0 }
    }

    const fn greatest(self) -> i128 {
        if self.signed { (1i128 << (self.bits - 1)) - 1 } else { (1i128 << self.bits) - 1 }
    }

    /// The value of the low `bits` bits.
    pub const fn value(self, bits: u64) -> i128 {
        let unused = 64 - self.bits;
        if self.signed { ((bits << unused) as i64 >> unused) as i128 } else { ((bits << unused) >> unused) as i128 }
    }

    fn clamped(self, value: i128) -> u64 {
        value.clamp(self.least(), self.greatest()) as u64 & self.mask()
    }
}

/// Float to float, rounded once. `.tf32` values are the 19 bits of [`TF32`].
pub fn float_to_float(from: Format, to: Format, bits: u64, cast: FloatCast) -> u64 {
    let bits = if cast.flush && from == F32 { from.flushed(bits) } else { bits };
    let value = from.decode(bits);
    let mut result = to.encode_value(value, cast.rounding);
    if cast.saturation == Saturation::Finite && value != Value::Nan {
        let magnitude = result & !to.sign_bit();
        if to.is_nan(result) || Some(magnitude) == to.infinity() {
            let negative = match value {
                Value::Infinite(negative) => negative,
                Value::Finite(number) => number.negative,
                Value::Nan => false,
            };
            result = to.largest() | if negative { to.sign_bit() } else { 0 };
        }
    }
    finish(to, result, cast)
}

/// Applies `.ftz`, `.sat` and `.relu` to a rounded result.
fn finish(to: Format, result: u64, cast: FloatCast) -> u64 {
    let result = if cast.flush && to == F32 { to.flushed(result) } else { result };
    let negative = result & to.sign_bit() != 0;
    if cast.saturation == Saturation::Unit {
        let one = to.encode(Exact::integer(false, 1), Rounding::NearestEven);
        return if to.is_nan(result) || negative { 0 } else { result.min(one) };
    }
    if cast.relu && negative && !to.is_nan(result) {
        return 0;
    }
    result
}

/// Float to the nearest integral number of the same or another format (`cvt.rni.f32.f32` and similar). A zero result
/// has the sign of the operand.
pub fn float_to_integral(from: Format, to: Format, bits: u64, cast: FloatCast) -> u64 {
    let flushed = if cast.flush && from == F32 { from.flushed(bits) } else { bits };
    let value = match from.decode(flushed) {
        Value::Finite(number) if number.exponent < 0 => {
            Value::Finite(Exact::integer(number.negative, number.rounded_to_unit(0, cast.rounding)))
        }
        other => other,
    };
    finish(to, to.encode_value(value, Rounding::NearestEven), cast)
}

/// Float to integer: rounds, then clamps to the target's range (`.sat` changes nothing). NaN gives 0, or the pattern
/// `1 << (width - 1)` when the source is `.f64` or the target has 64 bits (PTX ISA 9.7.9.21).
pub fn float_to_integer(from: Format, to: Integer, bits: u64, rounding: Rounding, flush: bool) -> u64 {
    let bits = if flush && from == F32 { from.flushed(bits) } else { bits };
    match from.decode(bits) {
        Value::Nan if from.bits() == 64 || to.bits == 64 => 1 << (to.bits - 1),
        Value::Nan => 0,
        Value::Infinite(negative) => to.clamped(if negative { i128::MIN } else { i128::MAX }),
        Value::Finite(number) => {
            let magnitude = number.rounded_to_unit(0, rounding).min(i128::MAX as u128) as i128;
            to.clamped(if number.negative { -magnitude } else { magnitude })
        }
    }
}

/// Integer to float, rounded once.
pub fn integer_to_float(from: Integer, to: Format, bits: u64, cast: FloatCast) -> u64 {
    let value = from.value(bits);
    finish(to, to.encode(Exact::integer(value < 0, value.unsigned_abs()), cast.rounding), cast)
}

/// Integer to integer: sign or zero extension by the source's type, then the low bits; with `.sat`, the nearest number
/// in the target's range.
pub fn integer_to_integer(from: Integer, to: Integer, bits: u64, saturate: bool) -> u64 {
    let value = from.value(bits);
    if saturate { to.clamped(value) } else { value as u64 & to.mask() }
}

/// The result of an integer conversion as PTX leaves it in a wider destination register: sign-extended for a signed
/// type, otherwise zero-extended.
pub fn extended(kind: Integer, bits: u64) -> u64 {
    kind.value(bits) as u64
}

/// `.f16` to `.f32`, exact; NaN gives the canonical NaN.
#[inline(always)]
pub fn f16_to_f32(half: u16) -> f32 {
    let magnitude = u32::from(half & 0x7fff);
    let sign = u32::from(half & 0x8000) << 16;
    // Multiplying by 2^112 moves the exponent bias and makes subnormals normal, exactly.
    let scaled = (f32::from_bits(magnitude << 13) * f32::from_bits((127 + 112) << 23)).to_bits();
    let special = if magnitude > 0x7c00 { 0x7fff_ffff } else { 0x7f80_0000 | sign };
    f32::from_bits(if magnitude >= 0x7c00 { special } else { scaled | sign })
}

/// `.f32` to `.f16`, to nearest even; NaN gives `0x7fff`.
#[inline(always)]
pub fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let sign = (bits >> 16) & 0x8000;
    // Normal results: change the bias, then round at bit 13. The carry may reach infinity, which is right.
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + ((magnitude >> 13) & 1)) >> 13;
    // Subnormal results: adding 1/2 puts a unit of 2^-24 into the last place, and the adder rounds to even.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let finite = if magnitude < (113 << 23) { subnormal } else { normal };
    let bounded = if magnitude >= 0x477f_f000 { 0x7c00 } else { finite };
    (if magnitude > 0x7f80_0000 { 0x7fff } else { sign | bounded }) as u16
}

/// `.bf16` to `.f32`, exact. NaN keeps its bits, as with the hardware's shift.
#[inline(always)]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// `.f32` to `.bf16`, to nearest even; NaN gives `0x7fff`.
#[inline(always)]
pub fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    (if bits & 0x7fff_ffff > 0x7f80_0000 { 0x7fff } else { rounded }) as u16
}

/// `.f32` to `.tf32` in a 32-bit register (low 13 bits zero), ties away from zero; NaN gives `0x7fffe000`.
#[inline(always)]
pub fn f32_to_tf32(x: f32) -> u32 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 { 0x7fff_e000 } else { bits.wrapping_add(0x1000) & 0xffff_e000 }
}

/// `.f32` to `.tf32` with any modifiers, in a 32-bit register (low 13 bits zero).
pub fn f32_to_tf32_with(x: f32, cast: FloatCast) -> u32 {
    (float_to_float(F32, TF32, x.to_bits().into(), cast) as u32) << 13
}

/// The value that a tensor core reads from a `.tf32` register: the low 13 bits are cut off.
#[inline(always)]
pub fn tf32_operand(register: u32) -> f32 {
    f32::from_bits(register & 0xffff_e000)
}

/// The two FP8 formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fp8 {
    /// 4 exponent bits, 3 mantissa bits, largest 448.
    E4M3,
    /// 5 exponent bits, 2 mantissa bits, largest 57344.
    E5M2,
}

impl Fp8 {
    /// The format's description.
    pub const fn format(self) -> Format {
        match self {
            Fp8::E4M3 => E4M3,
            Fp8::E5M2 => E5M2,
        }
    }
}

/// `.f32` to FP8, as `cvt.rn.satfinite{.relu}`; NaN gives `0x7f`.
pub fn f32_to_fp8(kind: Fp8, x: f32, relu: bool) -> u8 {
    let cast = FloatCast { saturation: Saturation::Finite, relu, ..FloatCast::default() };
    float_to_float(F32, kind.format(), x.to_bits().into(), cast) as u8
}

/// `.f16` to FP8, as `cvt.rn.satfinite{.relu}`; NaN gives `0x7f`.
pub fn f16_to_fp8(kind: Fp8, half: u16, relu: bool) -> u8 {
    let cast = FloatCast { saturation: Saturation::Finite, relu, ..FloatCast::default() };
    float_to_float(F16, kind.format(), half.into(), cast) as u8
}

/// FP8 to `.f16`, exact; NaN gives `0x7fff`.
#[inline(always)]
pub fn fp8_to_f16(kind: Fp8, bits: u8) -> u16 {
    match kind {
        Fp8::E5M2 => {
            let half = u16::from(bits) << 8;
            if half & 0x7fff > 0x7c00 { 0x7fff } else { half }
        }
        Fp8::E4M3 => f32_to_f16(e4m3_to_f32(bits)),
    }
}

/// FP8 to `.f32`, exact; NaN gives the canonical NaN.
#[inline(always)]
pub fn fp8_to_f32(kind: Fp8, bits: u8) -> f32 {
    match kind {
        Fp8::E5M2 => f16_to_f32(u16::from(bits) << 8),
        Fp8::E4M3 => e4m3_to_f32(bits),
    }
}

#[inline(always)]
fn e4m3_to_f32(bits: u8) -> f32 {
    let magnitude = u32::from(bits & 0x7f);
    let sign = u32::from(bits & 0x80) << 24;
    let scaled = (f32::from_bits(magnitude << 20) * f32::from_bits((127 + 120) << 23)).to_bits();
    f32::from_bits(if magnitude == 0x7f { 0x7fff_ffff } else { scaled | sign })
}

/// `.f32` to the nearest integral number, ties to even, sign kept.
#[inline(always)]
pub fn round_ties_even(x: f32) -> f32 {
    // Below 2^23 the adder of the magnitude plus 2^23 does the rounding; above, every number is integral.
    const UNIT: f32 = 8_388_608.0;
    let rounded = ((x.abs() + UNIT) - UNIT).copysign(x);
    if x.abs() < UNIT { rounded } else { x }
}

/// `cvt.rzi.s32.f32`.
#[inline(always)]
pub fn f32_to_s32_rzi(x: f32) -> i32 {
    x as i32
}

/// `cvt.rni.s32.f32`.
#[inline(always)]
pub fn f32_to_s32_rni(x: f32) -> i32 {
    round_ties_even(x) as i32
}

/// A 16-bit format of arithmetic instructions, as a type, so that loops over lanes are compiled for each.
pub trait Half: Copy + Send + Sync + 'static {
    /// The format's description.
    const FORMAT: Format;
    /// Exact widening.
    fn widen(bits: u16) -> f32;
    /// Narrowing, to nearest even, NaN to `0x7fff`.
    fn narrow(x: f32) -> u16;
}

/// `.f16`.
#[derive(Debug, Clone, Copy)]
pub struct F16Type;

/// `.bf16`.
#[derive(Debug, Clone, Copy)]
pub struct Bf16Type;

impl Half for F16Type {
    const FORMAT: Format = F16;
    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        f16_to_f32(bits)
    }
    #[inline(always)]
    fn narrow(x: f32) -> u16 {
        f32_to_f16(x)
    }
}

impl Half for Bf16Type {
    const FORMAT: Format = BF16;
    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        bf16_to_f32(bits)
    }
    #[inline(always)]
    fn narrow(x: f32) -> u16 {
        f32_to_bf16(x)
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::F64;
    use super::*;
    use proptest::prelude::*;

    const PLAIN: FloatCast = FloatCast::rounding(Rounding::NearestEven);

    #[test]
    fn fast_widening_is_exact_for_every_pattern() {
        for bits in 0..=u16::MAX {
            let exact = |format| float_to_float(format, F32, bits.into(), PLAIN) as u32;
            assert_eq!(f16_to_f32(bits).to_bits(), exact(F16), "{bits:#x}");
            if !BF16.is_nan(bits.into()) {
                assert_eq!(bf16_to_f32(bits).to_bits(), exact(BF16), "{bits:#x}");
            }
        }
        for bits in 0..=u8::MAX {
            for kind in [Fp8::E4M3, Fp8::E5M2] {
                let exact = |to| float_to_float(kind.format(), to, bits.into(), PLAIN);
                assert_eq!(u64::from(fp8_to_f32(kind, bits).to_bits()), exact(F32), "{bits:#x}");
                assert_eq!(u64::from(fp8_to_f16(kind, bits)), exact(F16), "{bits:#x}");
            }
        }
    }

    /// Bits around every 16-bit number's rounding boundary.
    fn near_half() -> impl Strategy<Value = u32> {
        prop_oneof![
            any::<u32>(),
            (any::<u16>(), -3i32..=3).prop_map(|(h, d)| f16_to_f32(h).to_bits().wrapping_add_signed(d)),
            (any::<u16>(), -3i32..=3).prop_map(|(h, d)| (f16_to_f32(h).to_bits() + 0x1000).wrapping_add_signed(d)),
            (any::<u16>(), -3i32..=3).prop_map(|(h, d)| ((u32::from(h) << 16) + 0x8000).wrapping_add_signed(d)),
            // Halfway between subnormal halves.
            (0u32..2050, -3i32..=3)
                .prop_map(|(k, d)| ((k as f32 + 0.5) * 2f32.powi(-24)).to_bits().wrapping_add_signed(d)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn fast_narrowing_rounds_once(bits in near_half()) {
            let x = f32::from_bits(bits);
            let exact = |to, cast| float_to_float(F32, to, bits.into(), cast);
            prop_assert_eq!(u64::from(f32_to_f16(x)), exact(F16, PLAIN), "{:#x}", bits);
            prop_assert_eq!(u64::from(f32_to_bf16(x)), exact(BF16, PLAIN), "{:#x}", bits);
            let away = FloatCast::rounding(Rounding::NearestAway);
            prop_assert_eq!(u64::from(f32_to_tf32(x)), exact(TF32, away) << 13, "{:#x}", bits);
        }

        #[test]
        fn integers_agree_with_casts(x in any::<f32>(), d in any::<u64>(), i in any::<i64>()) {
            let (y, z) = (f64::from_bits(d), Rounding::TowardZero);
            let single = |to| float_to_integer(F32, to, x.to_bits().into(), z, false);
            prop_assert_eq!(single(Integer::signed(32)) as u32, x as i32 as u32);
            prop_assert_eq!(single(Integer::unsigned(32)) as u32, x as u32);
            prop_assert_eq!(single(Integer::signed(8)) as u8, x as i8 as u8);
            if !y.is_nan() {
                prop_assert_eq!(float_to_integer(F64, Integer::signed(64), d, z, false), y as i64 as u64);
                prop_assert_eq!(float_to_integer(F64, Integer::unsigned(64), d, z, false), y as u64);
            }
            prop_assert_eq!(integer_to_float(Integer::signed(64), F32, i as u64, PLAIN) as u32, (i as f32).to_bits());
            prop_assert_eq!(integer_to_float(Integer::unsigned(64), F64, i as u64, PLAIN), (i as u64 as f64).to_bits());
            prop_assert_eq!(integer_to_float(Integer::signed(32), F32, i as u64, PLAIN) as u32, (i as i32 as f32).to_bits());
            prop_assert_eq!(f32_to_s32_rni(x) as u32, float_to_integer(F32, Integer::signed(32), x.to_bits().into(), Rounding::NearestEven, false) as u32);
        }

        #[test]
        fn integral_rounding_agrees(x in any::<f32>()) {
            let at = |rounding| f32::from_bits(float_to_integral(F32, F32, x.to_bits().into(), FloatCast::rounding(rounding)) as u32);
            prop_assume!(!x.is_nan());
            prop_assert_eq!(at(Rounding::TowardZero).to_bits(), x.trunc().to_bits());
            prop_assert_eq!(at(Rounding::Down).to_bits(), x.floor().to_bits());
            prop_assert_eq!(at(Rounding::Up).to_bits(), x.ceil().to_bits());
            prop_assert_eq!(at(Rounding::NearestEven).to_bits(), x.round_ties_even().to_bits());
            prop_assert_eq!(round_ties_even(x).to_bits(), x.round_ties_even().to_bits());
        }
    }

    #[test]
    fn nan_to_integer_follows_the_table() {
        let nan32 = u64::from(f32::NAN.to_bits());
        let nan64 = f64::NAN.to_bits();
        let z = Rounding::TowardZero;
        assert_eq!(float_to_integer(F32, Integer::signed(32), nan32, z, false), 0);
        assert_eq!(float_to_integer(F32, Integer::signed(64), nan32, z, false), 1 << 63);
        assert_eq!(float_to_integer(F64, Integer::signed(32), nan64, z, false), 1 << 31);
        assert_eq!(float_to_integer(F64, Integer::unsigned(64), nan64, z, false), 1 << 63);
    }

    #[test]
    fn saturation_and_relu() {
        assert_eq!(f32_to_fp8(Fp8::E4M3, 1e9, false), 0x7e);
        assert_eq!(f32_to_fp8(Fp8::E4M3, f32::NEG_INFINITY, false), 0xfe);
        assert_eq!(f32_to_fp8(Fp8::E4M3, -3.0, true), 0);
        assert_eq!(f32_to_fp8(Fp8::E4M3, f32::NAN, true), 0x7f);
        assert_eq!(f32_to_fp8(Fp8::E5M2, f32::INFINITY, false), 0x7b);
        assert_eq!(f32_to_fp8(Fp8::E5M2, -f32::NAN, false), 0x7f);
        let unit = FloatCast { saturation: Saturation::Unit, ..PLAIN };
        let sat = |x: f32| f32::from_bits(float_to_float(F32, F32, x.to_bits().into(), unit) as u32);
        assert_eq!([sat(-1.0), sat(0.25), sat(3.0), sat(f32::NAN), sat(f32::INFINITY)], [0.0, 0.25, 1.0, 0.0, 1.0]);
        let finite = FloatCast { saturation: Saturation::Finite, ..PLAIN };
        assert_eq!(float_to_float(F32, F16, u64::from(1e30f32.to_bits()), finite), 0x7bff);
        assert_eq!(float_to_float(F32, BF16, u64::from(f32::NEG_INFINITY.to_bits()), finite), 0xff7f);
    }

    #[test]
    fn integer_saturation() {
        let (s16, u8_) = (Integer::signed(16), Integer::unsigned(8));
        assert_eq!(integer_to_integer(s16, u8_, 0xff80, true), 0);
        assert_eq!(integer_to_integer(s16, u8_, 300, true), 255);
        assert_eq!(integer_to_integer(s16, Integer::signed(32), 0xff80, false), 0xffff_ff80);
        assert_eq!(integer_to_integer(Integer::unsigned(64), Integer::signed(32), u64::MAX, true), 0x7fff_ffff);
    }

    #[test]
    fn flush_to_zero_is_for_f32_only() {
        let flush = FloatCast { flush: true, ..PLAIN };
        assert_eq!(float_to_float(F32, F64, 1, flush), 0);
        assert_eq!(float_to_float(F16, F32, 1, flush) as u32, 2f32.powi(-24).to_bits());
        assert_eq!(float_to_float(F64, F32, (-1e-40f64).to_bits(), flush), 1 << 31);
        assert_eq!(float_to_float(F32, F16, u64::from(2f32.powi(-20).to_bits()), flush), 16);
    }
}
