//! Products with codes by AVX-512 with VNNI: a vector is a register.

use std::arch::x86_64::{
    __m512, __m512i, _mm_loadu_si128, _mm256_loadu_si256, _mm512_add_ps, _mm512_and_si512, _mm512_castsi512_ps,
    _mm512_cvtepi32_ps, _mm512_cvtepu8_epi32, _mm512_cvtepu16_epi32, _mm512_cvtph_ps, _mm512_dpbusd_epi32,
    _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_mul_ps, _mm512_set1_epi32, _mm512_set1_ps,
    _mm512_setzero_ps, _mm512_setzero_si512, _mm512_slli_epi32, _mm512_srli_epi32, _mm512_storeu_ps, _mm512_sub_ps,
    _mm512_ternarylogic_epi32,
};

use super::lanes::{INTEGERS, Lanes, OnLanes};
use crate::ElementType;

pub(super) struct Avx512;

/// # Safety
/// The CPU must have AVX-512 with VNNI; the conditions of the work.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) unsafe fn run<W: OnLanes>(work: W) {
    // SAFETY: the caller's promise.
    unsafe { work.run::<Avx512>() }
}

/// `x & y | z`.
const AND_OR: i32 = 0b1110_1010;

#[inline(always)]
unsafe fn shifted(words: __m512i, by: usize) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        match by {
            0 => words,
            4 => _mm512_srli_epi32::<4>(words),
            8 => _mm512_srli_epi32::<8>(words),
            12 => _mm512_srli_epi32::<12>(words),
            16 => _mm512_srli_epi32::<16>(words),
            20 => _mm512_srli_epi32::<20>(words),
            24 => _mm512_srli_epi32::<24>(words),
            _ => _mm512_srli_epi32::<28>(words),
        }
    }
}

impl Lanes for Avx512 {
    type Floats = __m512;
    type Words = __m512i;

    const ROWS: usize = 8;

    #[inline(always)]
    unsafe fn words(from: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn no_words() -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn number<const BITS: usize>(words: __m512i, by: usize) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe {
            let (mask, one) = (_mm512_set1_epi32((1 << BITS) - 1), _mm512_set1_epi32(INTEGERS.to_bits().cast_signed()));
            _mm512_castsi512_ps(_mm512_ternarylogic_epi32::<AND_OR>(shifted(words, by), mask, one))
        }
    }

    #[inline(always)]
    unsafe fn halves(words: __m512i, are_high: bool) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_and_si512(shifted(words, if are_high { 4 } else { 0 }), _mm512_set1_epi32(0x0f0f_0f0f)) }
    }

    #[inline(always)]
    unsafe fn dot<const BITS: usize>(sums: __m512i, bytes: __m512i, by: i32) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_dpbusd_epi32(sums, bytes, _mm512_set1_epi32(by)) }
    }

    #[inline(always)]
    unsafe fn from_integers(words: __m512i) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvtepi32_ps(words) }
    }

    #[inline(always)]
    unsafe fn zero() -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn scales(element: ElementType, from: *const u8) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe {
            match element {
                ElementType::F16 => _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())),
                ElementType::BF16 => {
                    let words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
                    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(words))
                }
                _ => _mm512_loadu_ps(from.cast()),
            }
        }
    }

    #[inline(always)]
    unsafe fn bytes(from: *const u8) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()))) }
    }

    #[inline(always)]
    unsafe fn add(x: __m512, y: __m512) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_add_ps(x, y) }
    }

    #[inline(always)]
    unsafe fn sub(x: __m512, y: __m512) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_sub_ps(x, y) }
    }

    #[inline(always)]
    unsafe fn mul(x: __m512, y: __m512) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_mul_ps(x, y) }
    }

    #[inline(always)]
    unsafe fn multiply_add(x: __m512, y: __m512, z: __m512) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_fmadd_ps(x, y, z) }
    }

    #[inline(always)]
    unsafe fn store(x: __m512, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_ps(to, x) }
    }
}
