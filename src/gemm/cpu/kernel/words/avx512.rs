//! Words that AVX-512 multiplies: f32s, bf16s and 8-bit integers.

use std::arch::x86_64::{
    __m512, __m512bh, __m512i, _mm512_add_epi32, _mm512_add_ps, _mm512_dpbf16_ps, _mm512_dpbusd_epi32, _mm512_fmadd_ps,
    _mm512_loadu_si512, _mm512_mask_storeu_epi32, _mm512_maskz_loadu_epi32, _mm512_set1_epi32, _mm512_setzero_ps,
    _mm512_setzero_si512,
};
use std::mem::transmute;

use super::pack::{Contents, Magnitude, PackedFrom, VECTORS};
use super::{LANES, TileDot, Words, WordsWork, pack_avx512};

/// Words that AVX-512 multiplies.
///
/// # Safety
/// As for [`Words`].
pub(in crate::gemm::cpu) trait Avx512: Words<Vector = __m512i> {
    /// The bits of a word that are a bf16, or the upper half of an f32, without their signs; none if it is of other elements.
    const UPPER_HALVES: i32;

    /// The sums as bits.
    fn bits(x: Self::Sums) -> __m512i;
    /// The sums with these bits.
    fn of_bits(x: __m512i) -> Self::Sums;
}

/// The first lanes: at least one, at most `count`.
#[inline(always)]
pub(super) fn mask(count: usize) -> u16 {
    u16::MAX >> (LANES - count.min(LANES))
}

/// An f32.
#[derive(Clone, Copy, Debug)]
pub(in crate::gemm::cpu) struct F32;

/// Two bf16s.
#[derive(Clone, Copy, Debug)]
pub(in crate::gemm::cpu) struct Bf16;

/// Four 8-bit integers: A's are signed and B's are not.
#[derive(Clone, Copy, Debug)]
pub(in crate::gemm::cpu) struct SignedByUnsigned;

/// Four 8-bit integers: B's are signed and A's are not.
#[derive(Clone, Copy, Debug)]
pub(in crate::gemm::cpu) struct UnsignedBySigned;

macro_rules! words {
    ($($words:ident: $elements:literal elements, sums $sum:ident in $sums:ident by $zero:ident and $add:ident, $features:literal,
        drops subnormals: $drops:literal, upper halves: $upper_halves:literal, tiles: $amx:expr,
        bits: |$x:ident| $bits:expr, $of_bits:expr,
        |$to:ident, $a:ident, $b:ident| $dot:expr;)*) => {$(
        impl Words for $words {
            type Sum = $sum;
            type Vector = __m512i;
            type Sums = $sums;
            const ELEMENTS: usize = $elements;
            const DROPS_SUBNORMALS: bool = $drops;
            const VECTORS: usize = VECTORS;
            const AMX: Option<TileDot> = $amx;

            #[target_feature(enable = $features)]
            unsafe fn compiled_for<W: WordsWork>(work: W) -> W::Output {
                // SAFETY: this is the one place that calls it.
                unsafe { work.run() }
            }

            #[inline(always)]
            unsafe fn pack(from: PackedFrom, extents: [usize; 2], flipped: bool, to: &mut [i32]) -> Contents {
                // SAFETY: the caller's promise.
                unsafe { pack_avx512::avx512::<Self>(from, extents, flipped, to) }
            }

            unsafe fn magnitude(starts: &[*const u8], offset: isize, length: usize) -> Magnitude {
                if !Self::DROPS_SUBNORMALS {
                    return Magnitude::NONE;
                }
                // SAFETY: the caller's promise.
                unsafe { pack_avx512::magnitude(starts, offset, length) }
            }

            #[inline(always)]
            unsafe fn splat(word: i32) -> __m512i {
                // SAFETY: the caller's promise.
                unsafe { _mm512_set1_epi32(word) }
            }

            #[inline(always)]
            unsafe fn load(at: *const i32) -> __m512i {
                // SAFETY: the caller's promise.
                unsafe { _mm512_loadu_si512(at.cast()) }
            }

            #[inline(always)]
            unsafe fn zero() -> $sums {
                // SAFETY: the caller's promise.
                unsafe { $zero() }
            }

            #[inline(always)]
            unsafe fn dot($to: $sums, $a: __m512i, $b: __m512i) -> $sums {
                // SAFETY: the caller's promise; the types are all 512 bits, and all their values are allowed.
                unsafe { $dot }
            }

            #[inline(always)]
            unsafe fn add(x: $sums, y: $sums) -> $sums {
                // SAFETY: the caller's promise.
                unsafe { $add(x, y) }
            }

            #[inline(always)]
            unsafe fn load_sums(at: *const Self::Sum, count: usize) -> Self::Sums {
                // SAFETY: the caller's promise: there are as many.
                Self::of_bits(unsafe { _mm512_maskz_loadu_epi32(mask(count), at.cast()) })
            }

            #[inline(always)]
            unsafe fn store_sums(to: *mut Self::Sum, sums: Self::Sums, count: usize) {
                // SAFETY: the caller's promise: there is room for as many.
                unsafe { _mm512_mask_storeu_epi32(to.cast(), mask(count), Self::bits(sums)) };
            }
        }

        impl Avx512 for $words {
            const UPPER_HALVES: i32 = $upper_halves;

            #[inline(always)]
            fn bits($x: $sums) -> __m512i {
                $bits
            }

            #[inline(always)]
            fn of_bits($x: __m512i) -> $sums {
                $of_bits
            }
        }
    )*};
}

/// The bits of f32s.
#[inline(always)]
fn bits_of(x: __m512) -> __m512i {
    // SAFETY: both types are 512 bits, and all their values are allowed.
    unsafe { transmute(x) }
}

#[inline(always)]
fn floats_of(x: __m512i) -> __m512 {
    // SAFETY: both types are 512 bits, and all their values are allowed.
    unsafe { transmute(x) }
}

words! {
    F32: 1 elements, sums f32 in __m512 by _mm512_setzero_ps and _mm512_add_ps, "avx512f,avx512bw,avx512vl",
        drops subnormals: false, upper halves: 0x7fff_0000, tiles: None,
        bits: |x| bits_of(x), floats_of(x),
        |sums, a, b| _mm512_fmadd_ps(floats_of(a), floats_of(b), sums);
    Bf16: 2 elements, sums f32 in __m512 by _mm512_setzero_ps and _mm512_add_ps, "avx512f,avx512bw,avx512vl,avx512bf16",
        drops subnormals: true, upper halves: 0x7fff_7fff, tiles: Some(TileDot::Bf16),
        bits: |x| bits_of(x), floats_of(x),
        |sums, a, b| _mm512_dpbf16_ps(sums, transmute::<__m512i, __m512bh>(a), transmute::<__m512i, __m512bh>(b));
    SignedByUnsigned: 4 elements, sums i32 in __m512i by _mm512_setzero_si512 and _mm512_add_epi32,
        "avx512f,avx512bw,avx512vl,avx512vnni",
        drops subnormals: false, upper halves: 0, tiles: Some(TileDot::SignedByUnsigned),
        bits: |x| x, x,
        |sums, a, b| _mm512_dpbusd_epi32(sums, b, a);
    UnsignedBySigned: 4 elements, sums i32 in __m512i by _mm512_setzero_si512 and _mm512_add_epi32,
        "avx512f,avx512bw,avx512vl,avx512vnni",
        drops subnormals: false, upper halves: 0, tiles: Some(TileDot::UnsignedBySigned),
        bits: |x| x, x,
        |sums, a, b| _mm512_dpbusd_epi32(sums, a, b);
}
