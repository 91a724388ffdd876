//! Dot products of a few rows of f32s with columns of bf16s or f16s, contiguous along K, by AVX2: these are widened in registers,
//! where a CPU has no instructions that multiply their [words](super).

use std::arch::x86_64::{
    __m256, _mm_loadu_si128, _mm256_castsi256_ps, _mm256_cvtepu16_epi32, _mm256_cvtph_ps, _mm256_fmadd_ps,
    _mm256_loadu_ps, _mm256_setzero_ps, _mm256_slli_epi32, _mm256_storeu_ps,
};

use half::{bf16, f16};

use super::super::Matrix;
use super::pack::Source;

/// The most rows: with more, widening B once for all of them is faster.
pub(in crate::gemm::cpu) const HALVES_ROWS: usize = 4;

/// Lanes of a vector.
const LANES: usize = 8;

/// A type of 16 bits.
pub(in crate::gemm::cpu) trait Half: Copy + Into<f32> {
    /// # Safety
    /// There must be eight elements; the CPU must have AVX2 and F16C.
    unsafe fn widen(from: *const Self) -> __m256;
}

impl Half for bf16 {
    #[inline(always)]
    unsafe fn widen(from: *const Self) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe { _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast())))) }
    }
}

impl Half for f16 {
    #[inline(always)]
    unsafe fn widen(from: *const Self) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
    }
}

/// `to = a · b` for at most [`HALVES_ROWS`] rows, this many columns and elements along K; the rows of `to` are one after another.
///
/// # Safety
/// `a` and `b` must have these elements, contiguous along K, which nobody writes meanwhile; the CPU must have AVX2, FMA and F16C.
///
/// # Panics
/// If there are more rows, or `to` is too short.
#[target_feature(enable = "avx2,fma,f16c")]
pub(in crate::gemm::cpu) unsafe fn halves<H: Half>(
    [rows, columns, depth]: [usize; 3],
    a: Matrix<f32>,
    b: Source,
    to: &mut [f32],
) {
    let dots = Dots { columns, depth, a, b };
    let to = &mut to[..rows * columns];
    // SAFETY: the caller's promise.
    unsafe {
        match rows {
            0 => {}
            1 => dots.all::<H, 1, 4>(to),
            2 => dots.all::<H, 2, 4>(to),
            3 => dots.all::<H, 3, 3>(to),
            HALVES_ROWS => dots.all::<H, HALVES_ROWS, 2>(to),
            _ => panic!("{rows} rows, of {HALVES_ROWS} at most"),
        }
    }
}

struct Dots {
    columns: usize,
    depth: usize,
    a: Matrix<f32>,
    b: Source,
}

impl Dots {
    #[inline(always)]
    unsafe fn all<H: Half, const HIGH: usize, const WIDE: usize>(&self, to: &mut [f32]) {
        let whole = self.columns / WIDE * WIDE;
        // SAFETY: the caller's promise.
        unsafe {
            for column in (0..whole).step_by(WIDE) {
                self.sums::<H, HIGH, WIDE>(column, to);
            }
            for column in whole..self.columns {
                self.sums::<H, HIGH, 1>(column, to);
            }
        }
    }

    #[inline(always)]
    unsafe fn sums<H: Half, const HIGH: usize, const WIDE: usize>(&self, column: usize, to: &mut [f32]) {
        let whole = self.depth / LANES * LANES;
        // SAFETY: the caller's promise: every row and column has `depth` elements.
        unsafe {
            let mut sums = [[_mm256_setzero_ps(); WIDE]; HIGH];
            for k in (0..whole).step_by(LANES) {
                let mut columns = [_mm256_setzero_ps(); WIDE];
                for (j, to) in columns.iter_mut().enumerate() {
                    *to = H::widen(self.b.at(k, column + j).cast());
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let row = _mm256_loadu_ps(self.a.at(i, k).pointer);
                    for (sum, column) in sums.iter_mut().zip(columns) {
                        *sum = _mm256_fmadd_ps(row, column, *sum);
                    }
                }
            }
            for (i, sums) in sums.into_iter().enumerate() {
                for (j, sum) in sums.into_iter().enumerate() {
                    let mut lanes = [0.0; LANES];
                    _mm256_storeu_ps(lanes.as_mut_ptr(), sum);
                    let rest = (whole..self.depth).map(|k| {
                        let of_b: f32 = self.b.at(k, column + j).cast::<H>().read_unaligned().into();
                        *self.a.at(i, k).pointer * of_b
                    });
                    to[i * self.columns + column + j] = lanes.into_iter().sum::<f32>() + rest.sum::<f32>();
                }
            }
        }
    }
}
