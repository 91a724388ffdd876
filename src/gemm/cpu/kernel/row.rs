//! Products of a single row of A. B's rows are contiguous along N and are read once, in order.

use pulp::{Simd, WithSimd};

use super::lanes::{Lanes, arch, read, width, write};
use super::{Extents, Matrix};

/// Rows of B at a time; for each group the result is read and written once.
const DEPTH: usize = 8;

/// `to += a · b`, where `a` has one row.
///
/// # Safety
/// `a` must have `depth` elements and `b` depth × columns, contiguous along N, which no thread writes meanwhile.
pub(in crate::gemm::cpu) unsafe fn row<C: Lanes>(extents: Extents, a: Matrix<C>, b: Matrix<C>, to: &mut [C]) {
    arch().dispatch(Work { extents, a, b, to });
}

struct Work<'a, C> {
    extents: Extents,
    a: Matrix<C>,
    b: Matrix<C>,
    to: &'a mut [C],
}

impl<C: Lanes> WithSimd for Work<'_, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { extents: Extents { columns, depth, .. }, a, b, to } = self;
        let to = &mut to[..columns];
        let whole = depth / DEPTH * DEPTH;
        // SAFETY: the caller's promise.
        unsafe {
            for p in (0..whole).step_by(DEPTH) {
                add::<C, S, DEPTH>(simd, a.at(0, p), b.at(p, 0), to);
            }
            for p in whole..depth {
                add::<C, S, 1>(simd, a.at(0, p), b.at(p, 0), to);
            }
        }
    }
}

/// Adds `DEEP` rows of B, each multiplied by its element of A.
#[inline(always)]
unsafe fn add<C: Lanes, S: Simd, const DEEP: usize>(simd: S, a: Matrix<C>, b: Matrix<C>, to: &mut [C]) {
    let width = width::<C, S>();
    let whole = to.len() / width * width;
    // SAFETY: the caller's promise.
    unsafe {
        let elements: [C; DEEP] = std::array::from_fn(|p| *a.at(0, p).pointer);
        let factors = elements.map(|x| C::splat(simd, x));
        let rows: [*const C; DEEP] = std::array::from_fn(|p| b.at(p, 0).pointer);
        for j in (0..whole).step_by(width) {
            let place = to.as_mut_ptr().add(j);
            let mut sum = read(simd, place.cast_const());
            for (factor, row) in factors.into_iter().zip(rows) {
                sum = C::multiply_add(simd, factor, read(simd, row.add(j)), sum);
            }
            write(simd, place, sum);
        }
        for (j, to) in to.iter_mut().enumerate().skip(whole) {
            for (x, row) in elements.into_iter().zip(rows) {
                *to += x * *row.add(j);
            }
        }
    }
}
