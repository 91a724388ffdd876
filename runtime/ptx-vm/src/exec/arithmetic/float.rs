//! Floating-point arithmetic in its most frequent forms (PTX ISA §9.7.3, §9.7.4), rounding to nearest. Everything else
//! goes through [`crate::exec::arithmetic::general`].

use crate::exec::lanes::functions;
use crate::numerics::convert::Half;
use crate::numerics::float;

/// f32 arithmetic with and without `.ftz` and `.sat`.
macro_rules! f32_functions {
    ($module:ident, $flush:literal, $saturate:literal) => {
        pub(crate) mod $module {
            use super::{float, functions};
            functions! {
                Add(a: f32, b: f32) -> f32 { float::add_f32::<$flush, $saturate>(a, b) }
                Sub(a: f32, b: f32) -> f32 { float::sub_f32::<$flush, $saturate>(a, b) }
                Mul(a: f32, b: f32) -> f32 { float::mul_f32::<$flush, $saturate>(a, b) }
                Div(a: f32, b: f32) -> f32 { float::div_f32::<$flush>(a, b) }
                Min(a: f32, b: f32) -> f32 { float::min_f32::<$flush>(a, b) }
                Max(a: f32, b: f32) -> f32 { float::max_f32::<$flush>(a, b) }
            }
            functions! {
                Fma(a: f32, b: f32, c: f32) -> f32 { float::fma_f32::<$flush, $saturate>(a, b, c) }
            }
            functions! {
                Sqrt(a: f32) -> f32 { float::sqrt_f32::<$flush>(a) }
                Rcp(a: f32) -> f32 { float::div_f32::<$flush>(1.0, a) }
                Neg(a: u32) -> u32 { flushed::<$flush>(a) ^ 0x8000_0000 }
                Abs(a: u32) -> u32 { flushed::<$flush>(a) & 0x7fff_ffff }
            }
            #[inline(always)]
            fn flushed<const FLUSH: bool>(a: u32) -> u32 {
                if FLUSH { float::flush_f32(f32::from_bits(a)).to_bits() } else { a }
            }
        }
    };
}

f32_functions!(plain, false, false);
f32_functions!(flush, true, false);
f32_functions!(saturate, false, true);
f32_functions!(flush_saturate, true, true);

pub(crate) mod f64_functions {
    use super::functions;
    functions! {
        Add(a: f64, b: f64) -> f64 { a + b }
        Sub(a: f64, b: f64) -> f64 { a - b }
        Mul(a: f64, b: f64) -> f64 { a * b }
        Div(a: f64, b: f64) -> f64 { a / b }
    }
    functions! {
        Fma(a: f64, b: f64, c: f64) -> f64 { a.mul_add(b, c) }
    }
    functions! {
        Sqrt(a: f64) -> f64 { a.sqrt() }
        Rcp(a: f64) -> f64 { 1.0 / a }
        Neg(a: u64) -> u64 { a ^ 1 << 63 }
        Abs(a: u64) -> u64 { a & !(1 << 63) }
    }
}

/// Packed pairs of 16-bit floats, each result rounded once.
macro_rules! pair_functions {
    ($module:ident, $half:ty) => {
        pub(crate) mod $module {
            use super::{Half, functions};
            use crate::numerics::half::{self, HalfMode};
            use crate::numerics::packed;
            const MODE: HalfMode = HalfMode { flush: false, saturate: false, relu: false };
            functions! {
                Add2(a: u32, b: u32) -> u32 { packed::map2(a, b, |x, y| half::add::<$half>(x, y, MODE)) }
                Sub2(a: u32, b: u32) -> u32 { packed::map2(a, b, |x, y| half::sub::<$half>(x, y, MODE)) }
                Mul2(a: u32, b: u32) -> u32 { packed::map2(a, b, |x, y| half::mul::<$half>(x, y, MODE)) }
                Add(a: u16, b: u16) -> u16 { half::add::<$half>(a, b, MODE) }
                Sub(a: u16, b: u16) -> u16 { half::sub::<$half>(a, b, MODE) }
                Mul(a: u16, b: u16) -> u16 { half::mul::<$half>(a, b, MODE) }
                /// Two f32 to a pair; `a` becomes the high half (PTX ISA §9.7.9.21).
                Narrow2(a: f32, b: f32) -> u32 {
                    u32::from(<$half>::narrow(a)) << 16 | u32::from(<$half>::narrow(b))
                }
            }
            functions! {
                Fma2(a: u32, b: u32, c: u32) -> u32 {
                    packed::map3(a, b, c, |x, y, z| half::fma::<$half>(x, y, z, MODE))
                }
                Fma(a: u16, b: u16, c: u16) -> u16 { half::fma::<$half>(a, b, c, MODE) }
            }
            functions! {
                Neg2(a: u32) -> u32 { a ^ 0x8000_8000 }
                Abs2(a: u32) -> u32 { a & 0x7fff_7fff }
                Neg(a: u16) -> u16 { a ^ 0x8000 }
                Abs(a: u16) -> u16 { a & 0x7fff }
                Widen(a: u16) -> f32 { <$half>::widen(a) }
                Narrow(a: f32) -> u16 { <$half>::narrow(a) }
            }
        }
    };
}

pair_functions!(f16, crate::numerics::convert::F16Type);
pair_functions!(bf16, crate::numerics::convert::Bf16Type);
