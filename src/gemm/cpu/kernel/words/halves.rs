//! Dot products of a few rows of f32s with columns of bf16s or f16s, contiguous along K. The columns are widened in
//! registers, on CPUs that have no instructions for their [words](super).

use std::arch::x86_64::{__m256, __m512, _MM_HINT_T1, _mm_prefetch};

use super::super::Matrix;
use super::multiplies_f32;
use super::pack::Source;
use super::vector::{Vector, Widened};

/// The most rows at a time: with AVX-512, and without.
const HIGH: usize = 6;
const HIGH_BY_AVX2: usize = 4;

/// The most rows: with more, widening B once for all of them is faster.
pub(in crate::gemm::cpu) fn most_rows_of_halves() -> usize {
    most_rows_by(multiplies_f32())
}

const fn most_rows_by(avx512: bool) -> usize {
    if avx512 { 3 * HIGH } else { HIGH_BY_AVX2 }
}

/// `to = a · b` for at most [`most_rows_of_halves`] rows, this many columns and elements along K; element `[i, j]` goes to the place
/// `i · strides[0] + j · strides[1]`.
///
/// # Safety
/// `a` and `b` must have these elements, contiguous along K, which nobody writes meanwhile; the CPU must have AVX2, FMA and F16C.
///
/// # Panics
/// If there are more rows, or `to` is too short.
pub(in crate::gemm::cpu) unsafe fn halves<H: Widened>(
    extents: [usize; 3],
    a: Matrix<f32>,
    b: Source,
    to: &mut [f32],
    strides: [usize; 2],
) {
    // SAFETY: the caller's promise, and the CPU has been asked.
    unsafe { halves_by::<H>(multiplies_f32(), extents, a, b, to, strides) }
}

/// The same by AVX-512, which the CPU must have then, or without.
pub(super) unsafe fn halves_by<H: Widened>(
    avx512: bool,
    [rows, columns, depth]: [usize; 3],
    a: Matrix<f32>,
    b: Source,
    to: &mut [f32],
    strides: [usize; 2],
) {
    assert!(rows <= most_rows_by(avx512), "{rows} rows");
    if rows == 0 || columns == 0 {
        return;
    }
    assert!(to.len() > (rows - 1) * strides[0] + (columns - 1) * strides[1], "room for the product");
    let dots = Dots { rows, columns, depth, a, b, to: to.as_mut_ptr(), strides };
    // SAFETY: the caller's promise, and what was tested.
    unsafe {
        if avx512 {
            dots.by_avx512::<H>();
        } else {
            dots.by_avx2::<H>();
        }
    }
}

struct Dots {
    rows: usize,
    columns: usize,
    depth: usize,
    a: Matrix<f32>,
    b: Source,
    to: *mut f32,
    strides: [usize; 2],
}

impl Dots {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn by_avx512<H: Widened>(&self) {
        for row in (0..self.rows).step_by(HIGH) {
            // SAFETY: the caller's promise.
            unsafe {
                match self.rows - row {
                    1 => self.all::<H, __m512, 1, 4>(row),
                    2 => self.all::<H, __m512, 2, 4>(row),
                    3 => self.all::<H, __m512, 3, 4>(row),
                    4 => self.all::<H, __m512, 4, 4>(row),
                    5 => self.all::<H, __m512, 5, 4>(row),
                    _ => self.all::<H, __m512, HIGH, 4>(row),
                }
            }
        }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn by_avx2<H: Widened>(&self) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.rows {
                1 => self.all::<H, __m256, 1, 4>(0),
                2 => self.all::<H, __m256, 2, 4>(0),
                3 => self.all::<H, __m256, 3, 3>(0),
                _ => self.all::<H, __m256, HIGH_BY_AVX2, 2>(0),
            }
        }
    }

    #[inline(always)]
    unsafe fn all<H: Widened, V: Vector, const HIGH: usize, const WIDE: usize>(&self, row: usize) {
        let whole = self.columns / WIDE * WIDE;
        // SAFETY: the caller's promise.
        unsafe {
            for column in (0..whole).step_by(WIDE) {
                self.sums::<H, V, HIGH, WIDE>(row, column);
            }
            for column in whole..self.columns {
                self.sums::<H, V, HIGH, 1>(row, column);
            }
        }
    }

    #[inline(always)]
    unsafe fn sums<H: Widened, V: Vector, const HIGH: usize, const WIDE: usize>(&self, row: usize, column: usize) {
        let whole = self.depth / V::LANES * V::LANES;
        // SAFETY: the caller's promise: every row and column has `depth` elements, and what is fetched may be at any address.
        unsafe {
            let mut sums = [[V::zero(); WIDE]; HIGH];
            for k in (0..whole).step_by(V::LANES) {
                let mut columns = [V::zero(); WIDE];
                for (j, to) in columns.iter_mut().enumerate() {
                    *to = V::widen(self.b.at(k, column + j).cast::<H>());
                    if row == 0 {
                        _mm_prefetch::<_MM_HINT_T1>(self.b.at(k, column + WIDE + j).cast());
                    }
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let row = V::load(self.a.at(row + i, k).pointer);
                    for (sum, column) in sums.iter_mut().zip(columns) {
                        *sum = row.multiply_add(column, *sum);
                    }
                }
            }
            for (i, sums) in sums.into_iter().enumerate() {
                for (j, sum) in sums.into_iter().enumerate() {
                    let rest = (whole..self.depth).map(|k| {
                        let of_b: f32 = self.b.at(k, column + j).cast::<H>().read_unaligned().into();
                        *self.a.at(row + i, k).pointer * of_b
                    });
                    let total = sum.total() + rest.sum::<f32>();
                    *self.to.add((row + i) * self.strides[0] + (column + j) * self.strides[1]) = total;
                }
            }
        }
    }
}
