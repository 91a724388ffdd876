//! Dot products of a few rows of A with columns of B, both contiguous along K.

use pulp::{Simd, WithSimd};

use super::lanes::{Lanes, arch, read, width};
use super::{Extents, Matrix};

/// Rows and columns at a time: these sums, three columns and one row fill the sixteen registers of AVX2.
const ROWS: usize = 4;
const COLUMNS: usize = 3;

/// `to += a · b`; the rows of `to` are `stride` apart.
///
/// # Safety
/// `a` must have rows × depth elements and `b` depth × columns, contiguous along K, which no thread writes meanwhile.
pub(in crate::gemm::cpu) unsafe fn dots<C: Lanes>(
    extents: Extents,
    a: Matrix<C>,
    b: Matrix<C>,
    to: &mut [C],
    stride: usize,
) {
    arch().dispatch(Work { extents, a, b, to, stride });
}

struct Work<'a, C> {
    extents: Extents,
    a: Matrix<C>,
    b: Matrix<C>,
    to: &'a mut [C],
    stride: usize,
}

impl<C: Lanes> WithSimd for Work<'_, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { extents: Extents { rows, columns, depth }, a, b, to, stride } = self;
        for j in (0..columns).step_by(COLUMNS) {
            let wide = (columns - j).min(COLUMNS);
            for i in (0..rows).step_by(ROWS) {
                let high = (rows - i).min(ROWS);
                let block = Block { depth, a: a.at(i, 0), b: b.at(0, j) };
                let to = &mut to[i * stride + j..];
                // SAFETY: the caller's promise.
                unsafe {
                    match (high, wide) {
                        (ROWS, COLUMNS) => block.sums::<S, ROWS, COLUMNS>(simd, to, stride),
                        (3, COLUMNS) => block.sums::<S, 3, COLUMNS>(simd, to, stride),
                        (2, COLUMNS) => block.sums::<S, 2, COLUMNS>(simd, to, stride),
                        (1, COLUMNS) => block.sums::<S, 1, COLUMNS>(simd, to, stride),
                        _ => {
                            for j in 0..wide {
                                for i in 0..high {
                                    let one = Block { depth, a: block.a.at(i, 0), b: block.b.at(0, j) };
                                    one.sums::<S, 1, 1>(simd, &mut to[i * stride + j..], stride);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

struct Block<C> {
    depth: usize,
    a: Matrix<C>,
    b: Matrix<C>,
}

impl<C: Lanes> Block<C> {
    #[inline(always)]
    unsafe fn sums<S: Simd, const HIGH: usize, const WIDE: usize>(&self, simd: S, to: &mut [C], stride: usize) {
        let width = width::<C, S>();
        let whole = self.depth / width * width;
        let a: [*const C; HIGH] = std::array::from_fn(|i| self.a.at(i, 0).pointer);
        let b: [*const C; WIDE] = std::array::from_fn(|j| self.b.at(0, j).pointer);
        let mut sums = [[C::splat(simd, C::NOTHING); WIDE]; HIGH];
        // SAFETY: the caller's promise: every row and column has `depth` elements.
        unsafe {
            for p in (0..whole).step_by(width) {
                let columns: [_; WIDE] = std::array::from_fn(|j| read(simd, b[j].add(p)));
                for (sums, row) in sums.iter_mut().zip(a) {
                    let row = read(simd, row.add(p));
                    for (sum, column) in sums.iter_mut().zip(columns) {
                        *sum = C::multiply_add(simd, row, column, *sum);
                    }
                }
            }
            for (i, sums) in sums.into_iter().enumerate() {
                for (j, sum) in sums.into_iter().enumerate() {
                    let mut total = C::sum(simd, sum);
                    for p in whole..self.depth {
                        total += *a[i].add(p) * *b[j].add(p);
                    }
                    to[i * stride + j] += total;
                }
            }
        }
    }
}
