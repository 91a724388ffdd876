//! Packed pairs in a 32-bit register: the first element is in the low half.

use super::convert::{FloatCast, Fp8, Half, f16_to_fp8, f32_to_fp8, float_to_float, fp8_to_f16};
use super::format::{F32, Rounding};

/// Applies a scalar function to both halves.
#[inline(always)]
pub fn map1(a: u32, f: impl Fn(u16) -> u16) -> u32 {
    join(f(a as u16), f((a >> 16) as u16))
}

/// Applies a scalar function to both halves of two registers.
#[inline(always)]
pub fn map2(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    join(f(a as u16, b as u16), f((a >> 16) as u16, (b >> 16) as u16))
}

/// Applies a scalar function to both halves of three registers.
#[inline(always)]
pub fn map3(a: u32, b: u32, c: u32, f: impl Fn(u16, u16, u16) -> u16) -> u32 {
    join(f(a as u16, b as u16, c as u16), f((a >> 16) as u16, (b >> 16) as u16, (c >> 16) as u16))
}

/// A pair from its low and high halves.
#[inline(always)]
pub fn join(low: u16, high: u16) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

/// `cvt.rn.{f16x2,bf16x2}.f32 d, high, low`: the first source operand becomes the upper half.
#[inline(always)]
pub fn narrow_pair<T: Half>(high: f32, low: f32) -> u32 {
    join(T::narrow(low), T::narrow(high))
}

/// `cvt.{rn,rz}{.relu}{.satfinite}.{f16x2,bf16x2}.f32 d, high, low`.
pub fn narrow_pair_with<T: Half>(high: f32, low: f32, cast: FloatCast) -> u32 {
    let one = |x: f32| float_to_float(F32, T::FORMAT, x.to_bits().into(), cast) as u16;
    join(one(low), one(high))
}

/// `cvt.rn.satfinite{.relu}.{e4m3x2,e5m2x2}.f32 d, high, low`: gives a 16-bit register with the first source operand in
/// the upper byte.
pub fn fp8_pair(kind: Fp8, high: f32, low: f32, relu: bool) -> u16 {
    u16::from(f32_to_fp8(kind, low, relu)) | u16::from(f32_to_fp8(kind, high, relu)) << 8
}

/// `cvt.rn.satfinite{.relu}.{e4m3x2,e5m2x2}.f16x2 d, a`.
pub fn fp8_pair_from_f16(kind: Fp8, pair: u32, relu: bool) -> u16 {
    let one = |half: u32| u16::from(f16_to_fp8(kind, half as u16, relu));
    one(pair) | one(pair >> 16) << 8
}

/// `cvt.rn{.relu}.f16x2.{e4m3x2,e5m2x2} d, a`.
pub fn f16_pair_from_fp8(kind: Fp8, pair: u16, relu: bool) -> u32 {
    let one = |bits: u16| {
        let half = fp8_to_f16(kind, bits as u8);
        // The canonical NaN is positive, so relu leaves it alone.
        if relu && half & 0x8000 != 0 { 0 } else { half }
    };
    join(one(pair), one(pair >> 8))
}

/// The cast of `cvt.rz` on a pair.
pub const TOWARD_ZERO: FloatCast = FloatCast::rounding(Rounding::TowardZero);

#[cfg(test)]
mod tests {
    use super::super::convert::{Bf16Type, F16Type};
    use super::*;

    #[test]
    fn first_operand_goes_up() {
        assert_eq!(narrow_pair::<F16Type>(1.0, 2.0), 0x3c00_4000);
        assert_eq!(narrow_pair::<Bf16Type>(1.0, 2.0), 0x3f80_4000);
        assert_eq!(narrow_pair_with::<Bf16Type>(1.0, 2.0, TOWARD_ZERO), 0x3f80_4000);
        assert_eq!(fp8_pair(Fp8::E4M3, 1.0, 2.0, false), 0x3840);
        assert_eq!(f16_pair_from_fp8(Fp8::E4M3, 0x3840, false), 0x3c00_4000);
        assert_eq!(fp8_pair_from_f16(Fp8::E4M3, 0x3c00_4000, false), 0x3840);
        assert_eq!(f16_pair_from_fp8(Fp8::E5M2, 0xbcff, true), 0x0000_7fff);
    }

    #[test]
    fn maps_keep_halves_apart() {
        assert_eq!(map1(0x0001_ffff, |x| x.wrapping_add(1)), 0x0002_0000);
        assert_eq!(map2(0x0001_0002, 0x0010_0020, |x, y| x + y), 0x0011_0022);
        assert_eq!(map3(0x0001_0002, 0x0010_0020, 0x0100_0200, |x, y, z| x + y + z), 0x0111_0222);
    }
}
