//! Conversions between f32 and the 16-bit floats without branches, so that loops over them become vector code.

use half::{bf16, f16};

/// Rounds to f32 towards 0, and gives an inexact result an odd last bit. Rounding this again to fewer bits gives the
/// result of rounding once. (`half`'s own conversions from f64 drop the low half of the significand.)
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

/// Rounds a 64-bit integer to f64 in the same way.
#[inline(always)]
pub(crate) fn integer_to_odd(x: i64) -> f64 {
    let exact = x.unsigned_abs() < 1 << 53;
    // The lowest 11 bits are below an f64's last one for the largest integers; any that is set makes bit 11 odd.
    let odd = if exact { x } else { (x & !0x7ff) | (i64::from(x & 0x7ff != 0) << 11) };
    odd as f64
}

/// Rounds to nearest even without branches.
#[inline(always)]
pub(crate) fn bf16_from_f32(x: f32) -> bf16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    // A NaN stays one, quiet, with its sign and leading payload.
    bf16::from_bits(if x.is_nan() { (bits >> 16) as u16 | 0x40 } else { rounded as u16 })
}

/// Elements that are widened at once.
pub(crate) const GROUP: usize = 8;

/// An element in memory that can be widened to a type for computations.
pub(crate) trait Widen<T>: Copy {
    /// The value in the wider type.
    fn widen(self) -> T;

    /// The values of a group of neighbours.
    ///
    /// # Safety
    /// `FMA` is what [`Vectorised::run`](super::Vectorised::run) was given by [`dispatch`](super::dispatch).
    #[inline(always)]
    unsafe fn widen_group<const FMA: bool>(group: &[Self; GROUP]) -> [T; GROUP] {
        group.map(Self::widen)
    }

    /// The values of a row of neighbours. Its length is a multiple of [`GROUP`].
    ///
    /// # Safety
    /// As [`widen_group`](Self::widen_group).
    unsafe fn widen_row<const FMA: bool, const WIDTH: usize>(row: &[Self; WIDTH]) -> [T; WIDTH];
}

macro_rules! same {
    ($($ty:ty),*) => {$(
        impl Widen<$ty> for $ty {
            #[inline(always)]
            fn widen(self) -> $ty {
                self
            }

            #[inline(always)]
            unsafe fn widen_group<const FMA: bool>(group: &[Self; GROUP]) -> [$ty; GROUP] {
                *group
            }

            #[inline(always)]
            unsafe fn widen_row<const FMA: bool, const WIDTH: usize>(row: &[Self; WIDTH]) -> [$ty; WIDTH] {
                *row
            }
        }
    )*};
}

same!(f32, f64, i32, i64);

/// Implements widening for types that x86-64 can widen eight at once: how to load a vector, convert it, and store it.
macro_rules! widened {
    ($($from:ty => $to:ty: $widen:expr, $load:ident, |$x:ident| $group:expr, $store:ident;)*) => {$(
        impl Widen<$to> for $from {
            #[inline(always)]
            fn widen(self) -> $to {
                $widen(self)
            }

            #[inline(always)]
            unsafe fn widen_row<const FMA: bool, const WIDTH: usize>(row: &[Self; WIDTH]) -> [$to; WIDTH] {
                const { assert!(WIDTH.is_multiple_of(GROUP)) };
                let mut wide = [<$to>::default(); WIDTH];
                let (to, from) = (wide.as_chunks_mut::<GROUP>().0, row.as_chunks::<GROUP>().0);
                for (to, from) in to.iter_mut().zip(from) {
                    // SAFETY: the caller's promise.
                    *to = unsafe { Self::widen_group::<FMA>(from) };
                }
                wide
            }

            #[inline(always)]
            unsafe fn widen_group<const FMA: bool>(group: &[Self; GROUP]) -> [$to; GROUP] {
                #[cfg(target_arch = "x86_64")]
                if FMA {
                    let mut wide = <[$to; GROUP]>::default();
                    // SAFETY: the CPU has AVX2 and F16C if `FMA` holds; the load reads the bytes of a group, and the
                    // store writes 8 values of 4 bytes.
                    unsafe {
                        use std::arch::x86_64::*;
                        let $x = $load(group.as_ptr().cast());
                        $store(wide.as_mut_ptr().cast(), $group);
                    }
                    return wide;
                }
                group.map(Self::widen)
            }
        }
    )*};
}

widened! {
    f16 => f32: f16_to_f32, _mm_loadu_si128, |x| _mm256_cvtph_ps(x), _mm256_storeu_ps;
    bf16 => f32: bf16_to_f32, _mm_loadu_si128, |x| _mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(x)), _mm256_storeu_si256;
    i16 => i32: i32::from, _mm_loadu_si128, |x| _mm256_cvtepi16_epi32(x), _mm256_storeu_si256;
    u16 => i32: i32::from, _mm_loadu_si128, |x| _mm256_cvtepu16_epi32(x), _mm256_storeu_si256;
    i8 => i32: i32::from, _mm_loadl_epi64, |x| _mm256_cvtepi8_epi32(x), _mm256_storeu_si256;
    u8 => i32: i32::from, _mm_loadl_epi64, |x| _mm256_cvtepu8_epi32(x), _mm256_storeu_si256;
}

impl Widen<i64> for u32 {
    #[inline(always)]
    fn widen(self) -> i64 {
        self.into()
    }

    #[inline(always)]
    unsafe fn widen_row<const FMA: bool, const WIDTH: usize>(row: &[Self; WIDTH]) -> [i64; WIDTH] {
        row.map(Self::widen)
    }
}

/// Widens without branches, so that loops become vector code. (`half` converts 8 at a time behind a call.) A NaN
/// becomes quiet, as with F16C.
#[inline(always)]
pub(crate) fn f16_to_f32(x: f16) -> f32 {
    let bits = u32::from(x.to_bits());
    let magnitude = (bits & 0x7fff) << 13;
    // The exponent's bias grows by 112; for infinity and NaN, whose exponent has all bits set, by twice that.
    let rebias = if magnitude < 0x0f80_0000 { 112 << 23 } else { 224 << 23 };
    let normal = f32::from_bits(magnitude + rebias);
    let subnormal = ((bits & 0x3ff) as i32 as f32) * (1.0 / 16_777_216.0);
    let value = if magnitude < 0x0080_0000 { subnormal } else { normal };
    let quiet = if magnitude > 0x0f80_0000 { 0x0040_0000 } else { 0 };
    f32::from_bits(value.to_bits() | quiet | ((bits & 0x8000) << 16))
}

/// Rounds to nearest even without branches.
#[inline(always)]
pub(crate) fn f16_from_f32(x: f32) -> f16 {
    let bits = x.to_bits();
    // From 2^16 on, the result is infinite.
    let magnitude = (bits & 0x7fff_ffff).min(0x4780_0000);
    let even = (magnitude >> 13) & 1;
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + even) >> 13;
    // Near 0.5, an f32's last bit is a half's smallest step: so the addition rounds, to even.
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
