//! Few rows of f32s by a B of f32s, bf16s or f16s, which is read in place and widened in registers.
//!
//! One driver takes the rows in shares and the columns in blocks. A table has the shapes of blocks. The two orders of B
//! have a loop each: [`AlongN`] multiplies vectors of columns, row by row of B; [`AlongK`] makes dot products, on CPUs
//! without instructions for B's [words](super).

use std::arch::x86_64::{__m256, __m512, _MM_HINT_T1, _mm_prefetch};
use std::ops::Range;

use super::super::Matrix;
use super::multiplies_f32;
use super::pack::PackedFrom;
use super::steps::{ahead, shares};
use super::vector::{Vector, Widened};

/// The most rows along N: with more, packing B is as fast. (Zen 4, one core, f32s, of 16 and 48 rows: 3072×768 0.74 and 2.2 ms,
/// packed 1.2 and 2.7; 4096×4096 8.8 and 20 ms, packed 11 and 20.) Without AVX-512, the `gemm` crate is as fast for f32s, and for
/// many rows.
pub(in crate::gemm::cpu) fn most_widened_rows(are_f32s: bool) -> usize {
    match (multiplies_f32(), are_f32s) {
        (true, _) => 48,
        (false, true) => 0,
        (false, false) => 12,
    }
}

/// The most rows along K: with more, widening B once for all of them is faster.
pub(in crate::gemm::cpu) fn most_widened_dots() -> usize {
    if multiplies_f32() { 18 } else { 4 }
}

/// The fewest columns along N: those of a vector.
pub(in crate::gemm::cpu) fn fewest_widened_columns() -> usize {
    if multiplies_f32() { __m512::LANES } else { __m256::LANES }
}

/// An order of B's elements.
pub(in crate::gemm::cpu) trait Order: Shapes {
    /// The columns of a vector of sums.
    fn columns<V: Vector>() -> usize;
    /// The rows that are multiplied at the same time, at most so many.
    fn rows(rows: usize, most: usize) -> impl Iterator<Item = Range<usize>>;
    /// A block, from a column on.
    ///
    /// # Safety
    /// The conditions of [`widened`], and the CPU must have these vectors.
    unsafe fn sums<H: Widened, V: Vector, const HIGH: usize, const WIDE: usize>(of: &Rows, column: usize);
}

/// B is contiguous along N, with as many columns as a vector has at least. The result's columns follow each other.
pub(in crate::gemm::cpu) struct AlongN;
/// B is contiguous along K.
pub(in crate::gemm::cpu) struct AlongK;

/// The shapes of an order's blocks.
pub(in crate::gemm::cpu) trait Shapes {
    /// The most rows at a time: with AVX-512, and without.
    const MOST: [usize; 2];
    /// # Safety
    /// The conditions of [`widened`], and the CPU must have the instructions.
    unsafe fn by_avx512<H: Widened>(of: &Rows);
    /// # Safety
    /// The conditions of [`widened`].
    unsafe fn by_avx2<H: Widened>(of: &Rows);
}

macro_rules! shapes {
    ($($order:ident
        avx512: $($high:literal x $wide:literal),*;
        avx2: $($narrow_high:literal x $narrow_wide:literal),*;)*) => {$(
        impl Shapes for $order {
            // The table has every number of rows from 1 on.
            const MOST: [usize; 2] = [[$($high),*].len(), [$($narrow_high),*].len()];

            #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
            unsafe fn by_avx512<H: Widened>(of: &Rows) {
                // SAFETY: the caller's promise.
                unsafe {
                    match of.rows {
                        $($high => of.all::<Self, H, __m512, $high, $wide>(),)*
                        _ => {}
                    }
                }
            }

            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn by_avx2<H: Widened>(of: &Rows) {
                // SAFETY: the caller's promise.
                unsafe {
                    match of.rows {
                        $($narrow_high => of.all::<Self, H, __m256, $narrow_high, $narrow_wide>(),)*
                        _ => {}
                    }
                }
            }
        }
    )*};
}

// Rows by vectors (along K: columns). Their sums, the vectors of B and one of A fill the registers.
shapes! {
    AlongN
        avx512: 1 x 8, 2 x 4, 3 x 4, 4 x 4, 5 x 4, 6 x 4, 7 x 2, 8 x 2, 9 x 2, 10 x 2, 11 x 2, 12 x 2;
        avx2: 1 x 8, 2 x 4, 3 x 3, 4 x 2, 5 x 2, 6 x 2;
    AlongK
        avx512: 1 x 4, 2 x 4, 3 x 4, 4 x 4, 5 x 4, 6 x 4;
        avx2: 1 x 4, 2 x 4, 3 x 3, 4 x 2;
}

/// `to = a · b` for some rows, columns and elements along K; element `[i, j]` goes to the place `i · strides[0] + j · strides[1]`.
///
/// # Safety
/// `a` must have these elements, contiguous along K, and `b` in its order, which nobody writes meanwhile; the CPU must have AVX2, FMA
/// and F16C.
///
/// # Panics
/// If there are fewer columns than the order needs, or `to` is too short.
pub(in crate::gemm::cpu) unsafe fn widened<H: Widened, O: Order>(
    extents: [usize; 3],
    operands: (Matrix<f32>, PackedFrom),
    to: &mut [f32],
    strides: [usize; 2],
) {
    // SAFETY: the caller's promise, and the CPU has been asked.
    unsafe { widened_by::<H, O>(multiplies_f32(), extents, operands, to, strides) }
}

/// [`widened`] by AVX-512, if the CPU has it, or without.
pub(super) unsafe fn widened_by<H: Widened, O: Order>(
    avx512: bool,
    [rows, columns, depth]: [usize; 3],
    (a, b): (Matrix<f32>, PackedFrom),
    to: &mut [f32],
    strides: [usize; 2],
) {
    if rows == 0 || columns == 0 {
        return;
    }
    let fewest = if avx512 { O::columns::<__m512>() } else { O::columns::<__m256>() };
    let has_room = to.len() > (rows - 1) * strides[0] + (columns - 1) * strides[1];
    assert!(columns >= fewest && has_room, "columns for a vector, and room for the product");
    for share in O::rows(rows, O::MOST[usize::from(!avx512)]) {
        let to = to[share.start * strides[0]..].as_mut_ptr();
        let (rows, a, are_first) = (share.len(), a.at(share.start, 0), share.start == 0);
        let some = Rows { rows, are_first, columns, depth, a, b, to, strides };
        // SAFETY: the caller's promise, and what was tested.
        unsafe {
            if avx512 {
                O::by_avx512::<H>(&some);
            } else {
                O::by_avx2::<H>(&some);
            }
        }
    }
}

/// Some rows of a product. (Addresses are those of the first of them: others would take the loops' registers.)
pub(in crate::gemm::cpu) struct Rows {
    rows: usize,
    /// Whether they are the first, which bring B to a cache.
    are_first: bool,
    columns: usize,
    depth: usize,
    a: Matrix<f32>,
    b: PackedFrom,
    to: *mut f32,
    strides: [usize; 2],
}

impl Rows {
    /// All columns, in blocks of a shape; if the last ones don't fill a vector, also some of those before.
    #[inline(always)]
    unsafe fn all<O: Order, H: Widened, V: Vector, const HIGH: usize, const WIDE: usize>(&self) {
        let one = O::columns::<V>();
        let whole = self.columns / (WIDE * one) * (WIDE * one);
        // SAFETY: the caller's promise.
        unsafe {
            for column in (0..whole).step_by(WIDE * one) {
                O::sums::<H, V, HIGH, WIDE>(self, column);
            }
            for column in (whole..self.columns).step_by(one) {
                O::sums::<H, V, HIGH, 1>(self, column.min(self.columns - one));
            }
        }
    }
}

impl Order for AlongN {
    #[inline(always)]
    fn columns<V: Vector>() -> usize {
        V::LANES
    }

    fn rows(rows: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
        shares(rows, most)
    }

    #[inline(always)]
    unsafe fn sums<H: Widened, V: Vector, const HIGH: usize, const WIDE: usize>(of: &Rows, column: usize) {
        let &Rows { depth, a, b, to, .. } = of;
        // SAFETY: the caller's promise: there are these rows and columns; what is fetched may be at any address.
        unsafe {
            let mut sums = [[V::zero(); WIDE]; HIGH];
            for k in 0..depth {
                let (row, first) = ahead(k, depth, &(column..column + WIDE * V::LANES));
                let mut of_b = [V::zero(); WIDE];
                for (j, to) in of_b.iter_mut().enumerate() {
                    *to = V::widen(b.at(k, column + j * V::LANES).cast::<H>());
                    _mm_prefetch::<_MM_HINT_T1>(b.at(row, first + j * V::LANES).cast());
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let of_a = V::splat(a.at(i, k).pointer.read_unaligned());
                    for (sum, of_b) in sums.iter_mut().zip(of_b) {
                        *sum = of_a.multiply_add(of_b, *sum);
                    }
                }
            }
            for (i, sums) in sums.into_iter().enumerate() {
                for (j, sum) in sums.into_iter().enumerate() {
                    sum.store(to.add(i * of.strides[0] + column + j * V::LANES));
                }
            }
        }
    }
}

impl Order for AlongK {
    #[inline(always)]
    fn columns<V: Vector>() -> usize {
        1
    }

    fn rows(rows: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
        (0..rows).step_by(most).map(move |first| first..rows.min(first + most))
    }

    #[inline(always)]
    unsafe fn sums<H: Widened, V: Vector, const HIGH: usize, const WIDE: usize>(of: &Rows, column: usize) {
        let whole = of.depth / V::LANES * V::LANES;
        // SAFETY: the caller's promise: every row and column has `depth` elements, and what is fetched may be at any address.
        unsafe {
            let mut sums = [[V::zero(); WIDE]; HIGH];
            for k in (0..whole).step_by(V::LANES) {
                let mut columns = [V::zero(); WIDE];
                for (j, to) in columns.iter_mut().enumerate() {
                    *to = V::widen(of.b.at(k, column + j).cast::<H>());
                    // (AVX2 has no registers left for the question.)
                    if V::LANES == __m256::LANES || of.are_first {
                        _mm_prefetch::<_MM_HINT_T1>(of.b.at(k, column + WIDE + j).cast());
                    }
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let row = V::load(of.a.at(i, k).pointer);
                    for (sum, column) in sums.iter_mut().zip(columns) {
                        *sum = row.multiply_add(column, *sum);
                    }
                }
            }
            for (i, sums) in sums.into_iter().enumerate() {
                for (j, sum) in sums.into_iter().enumerate() {
                    let rest = (whole..of.depth).map(|k| {
                        let of_b: f32 = of.b.at(k, column + j).cast::<H>().read_unaligned().into();
                        *of.a.at(i, k).pointer * of_b
                    });
                    *of.to.add(i * of.strides[0] + (column + j) * of.strides[1]) = sum.total() + rest.sum::<f32>();
                }
            }
        }
    }
}
