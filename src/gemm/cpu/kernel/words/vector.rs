//! Vectors of f32s, and of types that are widened to f32 in registers.

use std::arch::x86_64::{
    __m256, __m512, _mm_loadu_si128, _mm256_castsi256_ps, _mm256_cvtepu16_epi32, _mm256_cvtph_ps, _mm256_fmadd_ps,
    _mm256_loadu_ps, _mm256_loadu_si256, _mm256_set1_ps, _mm256_setzero_ps, _mm256_slli_epi32, _mm256_storeu_ps,
    _mm512_castsi512_ps, _mm512_cvtepu16_epi32, _mm512_cvtph_ps, _mm512_fmadd_ps, _mm512_loadu_ps,
    _mm512_reduce_add_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_slli_epi32, _mm512_storeu_ps,
};

use half::{bf16, f16};

/// A type whose elements are widened to f32s in registers.
pub(in crate::gemm::cpu) trait Widened: Copy + Into<f32> {
    /// # Safety
    /// There must be eight elements; the CPU must have AVX2 and F16C.
    unsafe fn widen_8(from: *const Self) -> __m256;

    /// # Safety
    /// There must be sixteen elements; the CPU must have AVX-512.
    unsafe fn widen_16(from: *const Self) -> __m512;
}

macro_rules! widened {
    ($($element:ty: |$from:ident| $by_8:expr, $by_16:expr;)*) => {$(
        impl Widened for $element {
            #[inline(always)]
            unsafe fn widen_8($from: *const Self) -> __m256 {
                // SAFETY: the caller's promise.
                unsafe { $by_8 }
            }

            #[inline(always)]
            unsafe fn widen_16($from: *const Self) -> __m512 {
                // SAFETY: the caller's promise.
                unsafe { $by_16 }
            }
        }
    )*};
}

widened! {
    f32: |from| _mm256_loadu_ps(from), _mm512_loadu_ps(from);
    bf16: |from|
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast())))),
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()))));
    f16: |from|
        _mm256_cvtph_ps(_mm_loadu_si128(from.cast())),
        _mm512_cvtph_ps(_mm256_loadu_si256(from.cast()));
}

/// A vector of f32s.
///
/// # Safety
/// The CPU must have its instructions; addresses must be those of as many elements as it has.
pub(in crate::gemm::cpu) trait Vector: Copy {
    const LANES: usize;
    unsafe fn zero() -> Self;
    unsafe fn splat(x: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn widen<H: Widened>(from: *const H) -> Self;
    unsafe fn multiply_add(self, by: Self, to: Self) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn total(self) -> f32;
}

macro_rules! vectors {
    ($($vector:ty, $lanes:literal: $zero:ident, $splat:ident, $load:ident, $widen:ident, $fma:ident, $store:ident,
        |$x:ident| $total:expr;)*) => {$(
        impl Vector for $vector {
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: the caller's promise.
                unsafe { $zero() }
            }

            #[inline(always)]
            unsafe fn splat(x: f32) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $splat(x) }
            }

            #[inline(always)]
            unsafe fn load(from: *const f32) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $load(from) }
            }

            #[inline(always)]
            unsafe fn widen<H: Widened>(from: *const H) -> Self {
                // SAFETY: the caller's promise.
                unsafe { H::$widen(from) }
            }

            #[inline(always)]
            unsafe fn multiply_add(self, by: Self, to: Self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $fma(self, by, to) }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut f32) {
                // SAFETY: the caller's promise.
                unsafe { $store(to, self) }
            }

            #[inline(always)]
            unsafe fn total(self) -> f32 {
                let $x = self;
                // SAFETY: the caller's promise.
                unsafe { $total }
            }
        }
    )*};
}

vectors! {
    __m256, 8: _mm256_setzero_ps, _mm256_set1_ps, _mm256_loadu_ps, widen_8, _mm256_fmadd_ps, _mm256_storeu_ps, |x| {
        let mut lanes = [0.0; 8];
        _mm256_storeu_ps(lanes.as_mut_ptr(), x);
        lanes.into_iter().sum()
    };
    __m512, 16: _mm512_setzero_ps, _mm512_set1_ps, _mm512_loadu_ps, widen_16, _mm512_fmadd_ps, _mm512_storeu_ps,
        |x| _mm512_reduce_add_ps(x);
}
