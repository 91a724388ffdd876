//! Few rows of f32s by a B of f32s, bf16s or f16s that is contiguous along N. B is read in place, and its rows are
//! widened in registers.

use std::arch::x86_64::{__m256, __m512, _MM_HINT_T1, _mm_prefetch};

use super::super::Matrix;
use super::multiplies_f32;
use super::pack::Source;
use super::steps::{ahead, shares};
use super::vector::{Vector, Widened};

/// The most rows: with more, packing B is as fast. (Zen 4, one core, f32s, of 16 and 48 rows: 3072×768 0.74 and 2.2 ms, packed 1.2
/// and 2.7; 4096×4096 8.8 and 20 ms, packed 11 and 20.) Without AVX-512, the `gemm` crate is as fast for f32s, and for many rows.
pub(in crate::gemm::cpu) fn most_widened_rows(are_f32s: bool) -> usize {
    match (multiplies_f32(), are_f32s) {
        (true, _) => 48,
        (false, true) => 0,
        (false, false) => 2 * HIGH_BY_AVX2,
    }
}

/// The most rows at a time: with AVX-512, and without.
const HIGH: usize = 12;
const HIGH_BY_AVX2: usize = 6;

/// The fewest columns: those of a vector.
pub(in crate::gemm::cpu) fn fewest_columns() -> usize {
    fewest_by(multiplies_f32())
}

const fn fewest_by(avx512: bool) -> usize {
    if avx512 { __m512::LANES } else { __m256::LANES }
}

/// `to = a · b` for some rows, at least [`fewest_columns`] and this many elements along K; the rows of `to` follow each other.
///
/// # Safety
/// `a` must have these elements, contiguous along K, and `b` along N, which nobody writes meanwhile; the CPU must have AVX2, FMA and
/// F16C.
///
/// # Panics
/// If there are fewer columns, or `to` is too short.
pub(in crate::gemm::cpu) unsafe fn widened_rows<H: Widened>(
    extents: [usize; 3],
    a: Matrix<f32>,
    b: Source,
    to: &mut [f32],
) {
    // SAFETY: the caller's promise, and the CPU has been asked.
    unsafe { widened_rows_by::<H>(multiplies_f32(), extents, a, b, to) }
}

/// The same by AVX-512, which the CPU must have then, or without.
pub(super) unsafe fn widened_rows_by<H: Widened>(
    avx512: bool,
    [rows, columns, depth]: [usize; 3],
    a: Matrix<f32>,
    b: Source,
    to: &mut [f32],
) {
    let are_enough = columns >= fewest_by(avx512) && to.len() >= rows * columns;
    assert!(are_enough, "columns for a vector, and room for the product");
    for share in shares(rows, if avx512 { HIGH } else { HIGH_BY_AVX2 }) {
        let to = to[share.start * columns..].as_mut_ptr();
        let some = Rows { first: share.start, rows: share.len(), columns, depth, a, b, to };
        // SAFETY: the caller's promise, and what was tested.
        unsafe {
            if avx512 {
                some.by_avx512::<H>();
            } else {
                some.by_avx2::<H>();
            }
        }
    }
}

/// Some of the rows, from the first of them on.
struct Rows {
    first: usize,
    rows: usize,
    columns: usize,
    depth: usize,
    a: Matrix<f32>,
    b: Source,
    to: *mut f32,
}

impl Rows {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn by_avx512<H: Widened>(&self) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.rows {
                0 => {}
                1 => self.all::<H, __m512, 1, 8>(),
                2 => self.all::<H, __m512, 2, 4>(),
                3 => self.all::<H, __m512, 3, 4>(),
                4 => self.all::<H, __m512, 4, 4>(),
                5 => self.all::<H, __m512, 5, 4>(),
                6 => self.all::<H, __m512, 6, 4>(),
                7 => self.all::<H, __m512, 7, 2>(),
                8 => self.all::<H, __m512, 8, 2>(),
                9 => self.all::<H, __m512, 9, 2>(),
                10 => self.all::<H, __m512, 10, 2>(),
                11 => self.all::<H, __m512, 11, 2>(),
                _ => self.all::<H, __m512, HIGH, 2>(),
            }
        }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn by_avx2<H: Widened>(&self) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.rows {
                0 => {}
                1 => self.all::<H, __m256, 1, 8>(),
                2 => self.all::<H, __m256, 2, 4>(),
                3 => self.all::<H, __m256, 3, 3>(),
                4 => self.all::<H, __m256, 4, 2>(),
                5 => self.all::<H, __m256, 5, 2>(),
                _ => self.all::<H, __m256, HIGH_BY_AVX2, 2>(),
            }
        }
    }

    /// All columns, this many vectors at a time; where the last ones don't fill a vector, also some of those before.
    #[inline(always)]
    unsafe fn all<H: Widened, V: Vector, const HIGH: usize, const WIDE: usize>(&self) {
        let whole = self.columns / (WIDE * V::LANES) * (WIDE * V::LANES);
        // SAFETY: the caller's promise.
        unsafe {
            for column in (0..whole).step_by(WIDE * V::LANES) {
                self.sums::<H, V, HIGH, WIDE>(column);
            }
            for column in (whole..self.columns).step_by(V::LANES) {
                self.sums::<H, V, HIGH, 1>(column.min(self.columns - V::LANES));
            }
        }
    }

    #[inline(always)]
    unsafe fn sums<H: Widened, V: Vector, const HIGH: usize, const WIDE: usize>(&self, column: usize) {
        // SAFETY: the caller's promise: there are these rows and columns; what is fetched may be at any address.
        unsafe {
            let mut sums = [[V::zero(); WIDE]; HIGH];
            for k in 0..self.depth {
                let (row, first) = ahead(k, self.depth, &(column..column + WIDE * V::LANES));
                let mut of_b = [V::zero(); WIDE];
                for (j, to) in of_b.iter_mut().enumerate() {
                    *to = V::widen(self.b.at(k, column + j * V::LANES).cast::<H>());
                    _mm_prefetch::<_MM_HINT_T1>(self.b.at(row, first + j * V::LANES).cast());
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let of_a = V::splat(self.a.at(self.first + i, k).pointer.read_unaligned());
                    for (sum, of_b) in sums.iter_mut().zip(of_b) {
                        *sum = of_a.multiply_add(of_b, *sum);
                    }
                }
            }
            for (i, sums) in sums.into_iter().enumerate() {
                for (j, sum) in sums.into_iter().enumerate() {
                    sum.store(self.to.add(i * self.columns + column + j * V::LANES));
                }
            }
        }
    }
}
