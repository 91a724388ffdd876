//! The most frequent conversions (PTX ISA §9.7.9.21). The others go through [`crate::exec::arithmetic::general`].

use crate::exec::lanes::functions;
use crate::numerics::convert;
use crate::numerics::float;

functions! {
    // Between registers of different widths. 8- and 16-bit values are zero-extended in their cells.
    Low32(a: u64) -> u32 { a as u32 }
    Low16(a: u32) -> u16 { a as u16 }
    Low16Of64(a: u64) -> u16 { a as u16 }
    Low8(a: u32) -> u8 { a as u8 }
    Zero32To64(a: u32) -> u64 { u64::from(a) }
    Sign32To64(a: i32) -> i64 { i64::from(a) }
    Sign16To32(a: i16) -> i32 { i32::from(a) }
    Sign16To64(a: i16) -> i64 { i64::from(a) }
    Sign8To16(a: i8) -> i16 { i16::from(a) }
    Sign8To32(a: i8) -> i32 { i32::from(a) }
    Sign8To64(a: i8) -> i64 { i64::from(a) }
    S32ToF32(a: i32) -> f32 { a as f32 }
    U32ToF32(a: u32) -> f32 { a as f32 }
    F32ToS32Truncated(a: f32) -> i32 { convert::f32_to_s32_rzi(a) }
    F32ToS32Nearest(a: f32) -> i32 { convert::f32_to_s32_rni(a) }
    F32ToF64(a: f32) -> f64 { f64::from(a) }
    F64ToF32(a: f64) -> f32 { float::canonical_f32(a as f32) }
    S32ToF64(a: i32) -> f64 { f64::from(a) }
    U32ToF64(a: u32) -> f64 { f64::from(a) }
    F32ToTf32(a: f32) -> u32 { convert::f32_to_tf32(a) }
    SaturateF32(a: f32) -> f32 { float::saturate_f32(a) }
    RoundF32(a: f32) -> f32 { float::canonical_f32(convert::round_ties_even(a)) }
}
