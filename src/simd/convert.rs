//! Conversions between f32 and the 16-bit floats as code without branches, which loops make vector code of.

use half::{bf16, f16};

/// Rounds to f32 so that rounding again to fewer bits gives what rounding once would: towards 0, and an inexact result
/// gets an odd last bit. (`half`'s own conversions from f64 drop the low half of the significand.)
#[inline(always)]
pub(crate) fn to_odd(x: f64) -> f32 {
    let near = x as f32;
    let bits = near.to_bits();
    if f64::from(near) == x || x.is_nan() {
        return near;
    }
    let towards_zero = if f64::from(near.abs()) > x.abs() { bits - 1 } else { bits };
    f32::from_bits(towards_zero | 1)
}

/// Rounds to nearest even without branches.
#[inline(always)]
pub(crate) fn bf16_from_f32(x: f32) -> bf16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    // A NaN stays one, quiet, with its sign and leading payload.
    bf16::from_bits(if x.is_nan() { (bits >> 16) as u16 | 0x40 } else { rounded as u16 })
}

/// Widens without branches, so that loops become vector code. (`half` converts 8 at a time behind a call.)
#[inline(always)]
pub(crate) fn f16_to_f32(x: f16) -> f32 {
    let bits = u32::from(x.to_bits());
    let magnitude = (bits & 0x7fff) << 13;
    // The exponent's bias grows by 112; that of infinity and NaN, which has all bits, twice.
    let rebias = if magnitude < 0x0f80_0000 { 112 << 23 } else { 224 << 23 };
    let normal = f32::from_bits(magnitude + rebias);
    let subnormal = ((bits & 0x3ff) as i32 as f32) * (1.0 / 16_777_216.0);
    let value = if magnitude < 0x0080_0000 { subnormal } else { normal };
    f32::from_bits(value.to_bits() | ((bits & 0x8000) << 16))
}

/// Rounds to nearest even without branches.
#[inline(always)]
pub(crate) fn f16_from_f32(x: f32) -> f16 {
    let bits = x.to_bits();
    // From 2^16 on, the result is infinite.
    let magnitude = (bits & 0x7fff_ffff).min(0x4780_0000);
    let even = (magnitude >> 13) & 1;
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + even) >> 13;
    // Next to 0.5 an f32's last bit is a half's smallest step: the addition rounds, to even.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let code = if magnitude < 0x3880_0000 { subnormal } else { normal };
    let code = if x.is_nan() { 0x7e00 } else { code };
    f16::from_bits((code | ((bits >> 16) & 0x8000)) as u16)
}

/// Widens exactly.
#[inline(always)]
pub(crate) fn bf16_to_f32(x: bf16) -> f32 {
    f32::from_bits(u32::from(x.to_bits()) << 16)
}
