//! f32s on a CPU with AVX2 and fused multiply-add, without AVX-512: sixteen words are two vectors.

use std::arch::x86_64::{
    __m256, __m256i, _mm256_add_ps, _mm256_cmpgt_epi32, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_maskload_ps,
    _mm256_maskstore_ps, _mm256_set1_epi32, _mm256_set1_ps, _mm256_setr_epi32, _mm256_setzero_ps, _mm256_storeu_ps,
};

use super::super::Matrix;
use super::super::transpose::avx;
use super::pack::{Contents, PackedFrom};
use super::pack_f32::{TransposedSquares, pack_f32};
use super::{LANES, TileDot, Words, WordsWork};

/// Lanes of a vector of f32s.
const HALF: usize = LANES / 2;

/// An f32, by AVX2.
#[derive(Clone, Copy, Debug)]
pub(in crate::gemm::cpu) struct F32ByAvx2;

impl Words for F32ByAvx2 {
    type Sum = f32;
    type Vector = [__m256; 2];
    type Sums = [__m256; 2];
    const ELEMENTS: usize = 1;
    const DROPS_SUBNORMALS: bool = false;
    const VECTORS: usize = 1;
    const AMX: Option<TileDot> = None;

    #[target_feature(enable = "avx2,fma")]
    unsafe fn compiled_for<W: WordsWork>(work: W) -> W::Output {
        // SAFETY: this is the one place that calls it.
        unsafe { work.run() }
    }

    #[inline(always)]
    unsafe fn pack(from: PackedFrom, [depth, columns]: [usize; 2], _: bool, to: &mut [i32]) -> Contents {
        // SAFETY: the caller's promise.
        unsafe { pack_f32::<Self>(from, [depth, columns], to) }
    }

    #[inline(always)]
    unsafe fn splat(word: i32) -> [__m256; 2] {
        // SAFETY: the caller's promise.
        [unsafe { _mm256_set1_ps(f32::from_bits(word.cast_unsigned())) }; 2]
    }

    #[inline(always)]
    unsafe fn load(at: *const i32) -> [__m256; 2] {
        let at: *const f32 = at.cast();
        // SAFETY: the caller's promise.
        unsafe { [_mm256_loadu_ps(at), _mm256_loadu_ps(at.add(HALF))] }
    }

    #[inline(always)]
    unsafe fn zero() -> [__m256; 2] {
        // SAFETY: the caller's promise.
        [unsafe { _mm256_setzero_ps() }; 2]
    }

    #[inline(always)]
    unsafe fn dot(sums: [__m256; 2], a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
        // SAFETY: the caller's promise.
        unsafe { [_mm256_fmadd_ps(a[0], b[0], sums[0]), _mm256_fmadd_ps(a[1], b[1], sums[1])] }
    }

    #[inline(always)]
    unsafe fn add(x: [__m256; 2], y: [__m256; 2]) -> [__m256; 2] {
        // SAFETY: the caller's promise.
        unsafe { [_mm256_add_ps(x[0], y[0]), _mm256_add_ps(x[1], y[1])] }
    }

    #[inline(always)]
    unsafe fn load_sums(at: *const f32, count: usize) -> [__m256; 2] {
        // SAFETY: the caller's promise: there are as many.
        unsafe {
            if count >= LANES {
                return Self::load(at.cast());
            }
            let [low, high] = masks(count);
            [_mm256_maskload_ps(at, low), _mm256_maskload_ps(at.wrapping_add(HALF), high)]
        }
    }

    #[inline(always)]
    unsafe fn store_sums(to: *mut f32, sums: [__m256; 2], count: usize) {
        // SAFETY: the caller's promise: there is room for as many.
        unsafe {
            if count >= LANES {
                _mm256_storeu_ps(to, sums[0]);
                _mm256_storeu_ps(to.add(HALF), sums[1]);
                return;
            }
            let [low, high] = masks(count);
            _mm256_maskstore_ps(to, low, sums[0]);
            _mm256_maskstore_ps(to.wrapping_add(HALF), high, sums[1]);
        }
    }
}

/// The first lanes of two vectors, fewer than all.
#[inline(always)]
unsafe fn masks(count: usize) -> [__m256i; 2] {
    // SAFETY: the caller's promise: the CPU has the instructions.
    unsafe {
        let count = _mm256_set1_epi32(count as i32);
        [
            _mm256_cmpgt_epi32(count, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
            _mm256_cmpgt_epi32(count, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)),
        ]
    }
}

impl TransposedSquares for F32ByAvx2 {
    const SIDE: usize = HALF;

    #[inline(always)]
    unsafe fn square(from: Matrix<f32>, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { avx::block(from, to, LANES) };
    }
}
