//! Products with codes by AVX2: a vector is two registers.

use std::arch::x86_64::{
    __m256, __m256i, _mm_cvtsi32_si128, _mm_loadl_epi64, _mm_loadu_si128, _mm256_add_epi32, _mm256_add_ps,
    _mm256_and_si256, _mm256_castsi256_ps, _mm256_cvtepi32_ps, _mm256_cvtepu8_epi32, _mm256_cvtepu16_epi32,
    _mm256_cvtph_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_maddubs_epi16,
    _mm256_mul_ps, _mm256_or_si256, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_ps, _mm256_setzero_ps,
    _mm256_setzero_si256, _mm256_slli_epi32, _mm256_srl_epi32, _mm256_storeu_ps, _mm256_sub_ps,
};

use super::lanes::{INTEGERS, Lanes, OnLanes};
use crate::ElementType;

pub(super) struct Avx2;

/// # Safety
/// The CPU must have AVX2, FMA and F16C; the conditions of the work.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn run<W: OnLanes>(work: W) {
    // SAFETY: the caller's promise.
    unsafe { work.run::<Avx2>() }
}

/// Both registers of a result.
macro_rules! both {
    (|$i:ident| $of_one:expr) => {
        // SAFETY: the caller's promise.
        unsafe {
            [
                {
                    let $i = 0;
                    $of_one
                },
                {
                    let $i = 1;
                    $of_one
                },
            ]
        }
    };
}

#[inline(always)]
unsafe fn shifted(words: __m256i, by: usize) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { if by == 0 { words } else { _mm256_srl_epi32(words, _mm_cvtsi32_si128(by as i32)) } }
}

/// The sums of four products of bytes of at most 4 bits, times `factor`: sums of two fit in 16 bits.
#[inline(always)]
unsafe fn dot_of_halves(bytes: __m256i, by: __m256i, factor: i16) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_madd_epi16(_mm256_maddubs_epi16(bytes, by), _mm256_set1_epi16(factor)) }
}

impl Lanes for Avx2 {
    type Floats = [__m256; 2];
    type Words = [__m256i; 2];

    const ROWS: usize = 4;

    #[inline(always)]
    unsafe fn words(from: *const u8) -> [__m256i; 2] {
        both!(|i| _mm256_loadu_si256(from.cast::<__m256i>().add(i)))
    }

    #[inline(always)]
    unsafe fn no_words() -> [__m256i; 2] {
        both!(|_i| _mm256_setzero_si256())
    }

    #[inline(always)]
    unsafe fn number<const BITS: usize>(words: [__m256i; 2], by: usize) -> [__m256; 2] {
        both!(|i| {
            let code = _mm256_and_si256(shifted(words[i], by), _mm256_set1_epi32((1 << BITS) - 1));
            _mm256_castsi256_ps(_mm256_or_si256(code, _mm256_set1_epi32(INTEGERS.to_bits().cast_signed())))
        })
    }

    #[inline(always)]
    unsafe fn halves(words: [__m256i; 2], are_high: bool) -> [__m256i; 2] {
        let by = if are_high { 4 } else { 0 };
        both!(|i| _mm256_and_si256(shifted(words[i], by), _mm256_set1_epi32(0x0f0f_0f0f)))
    }

    #[inline(always)]
    unsafe fn dot<const BITS: usize>(sums: [__m256i; 2], bytes: [__m256i; 2], by: i32) -> [__m256i; 2] {
        both!(|i| {
            let by = _mm256_set1_epi32(by);
            if BITS == 4 {
                _mm256_add_epi32(sums[i], dot_of_halves(bytes[i], by, 1))
            } else {
                // Two products of 8 bits wouldn't fit in 16 bits.
                let mask = _mm256_set1_epi32(0x0f0f_0f0f);
                let low = dot_of_halves(_mm256_and_si256(bytes[i], mask), by, 1);
                let high = dot_of_halves(_mm256_and_si256(shifted(bytes[i], 4), mask), by, 16);
                _mm256_add_epi32(sums[i], _mm256_add_epi32(low, high))
            }
        })
    }

    #[inline(always)]
    unsafe fn from_integers(words: [__m256i; 2]) -> [__m256; 2] {
        both!(|i| _mm256_cvtepi32_ps(words[i]))
    }

    #[inline(always)]
    unsafe fn zero() -> [__m256; 2] {
        both!(|_i| _mm256_setzero_ps())
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> [__m256; 2] {
        both!(|_i| _mm256_set1_ps(x))
    }

    #[inline(always)]
    unsafe fn scales(element: ElementType, from: *const u8) -> [__m256; 2] {
        both!(|i| match element {
            ElementType::F16 => _mm256_cvtph_ps(_mm_loadu_si128(from.add(16 * i).cast())),
            ElementType::BF16 => {
                let words = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.add(16 * i).cast()));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(words))
            }
            _ => _mm256_loadu_ps(from.add(32 * i).cast()),
        })
    }

    #[inline(always)]
    unsafe fn bytes(from: *const u8) -> [__m256; 2] {
        both!(|i| _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from.add(8 * i).cast()))))
    }

    #[inline(always)]
    unsafe fn add(x: [__m256; 2], y: [__m256; 2]) -> [__m256; 2] {
        both!(|i| _mm256_add_ps(x[i], y[i]))
    }

    #[inline(always)]
    unsafe fn sub(x: [__m256; 2], y: [__m256; 2]) -> [__m256; 2] {
        both!(|i| _mm256_sub_ps(x[i], y[i]))
    }

    #[inline(always)]
    unsafe fn mul(x: [__m256; 2], y: [__m256; 2]) -> [__m256; 2] {
        both!(|i| _mm256_mul_ps(x[i], y[i]))
    }

    #[inline(always)]
    unsafe fn multiply_add(x: [__m256; 2], y: [__m256; 2], z: [__m256; 2]) -> [__m256; 2] {
        both!(|i| _mm256_fmadd_ps(x[i], y[i], z[i]))
    }

    #[inline(always)]
    unsafe fn store(x: [__m256; 2], to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe {
            _mm256_storeu_ps(to, x[0]);
            _mm256_storeu_ps(to.add(8), x[1]);
        }
    }
}
