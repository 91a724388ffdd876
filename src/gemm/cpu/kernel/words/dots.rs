//! Dot products of a few rows of A with columns of B, both contiguous along K.

use std::arch::x86_64::{__m512i, _mm512_maskz_loadu_epi8, _mm512_set1_epi8, _mm512_setzero_si512, _mm512_xor_si512};
use std::marker::PhantomData;

use super::pack::{Least, Magnitude, Source};
use super::{LANES, Words, Work};

/// Rows and columns at a time: their sums, a word of each column and one of a row fill 29 of the 32 registers.
const ROWS: usize = 6;
const COLUMNS: usize = 4;

/// `to += a · b` for this many rows, columns and elements along K; the rows of `to` are `stride` apart. Gives the least
/// magnitude of B's elements if they are bf16s; `flipped` is what it is for [`pack`](super::pack).
///
/// # Safety
/// `a` and `b` must have these elements, contiguous along K, which nobody writes meanwhile; the CPU must multiply such
/// words.
///
/// # Panics
/// If `to` is too short.
pub(in crate::gemm::cpu) unsafe fn dots<W: Words>(
    [rows, columns, depth]: [usize; 3],
    (a, b): (Source, Source),
    flipped: bool,
    to: &mut [W::Sum],
    stride: usize,
) -> Magnitude {
    assert!(rows == 0 || columns == 0 || to.len() >= (rows - 1) * stride + columns, "room for the block");
    let of = PhantomData;
    // SAFETY: the caller's promise, and what was tested.
    unsafe { W::compiled_for(Dots::<W> { rows, columns, depth, a, b, flipped, to: to.as_mut_ptr(), stride, of }) }
}

struct Dots<W: Words> {
    rows: usize,
    columns: usize,
    depth: usize,
    a: Source,
    b: Source,
    flipped: bool,
    to: *mut W::Sum,
    stride: usize,
    of: PhantomData<W>,
}

impl<W: Words> Work for Dots<W> {
    type Output = Magnitude;

    #[inline(always)]
    unsafe fn run(self) -> Magnitude {
        // SAFETY: the caller's promise.
        unsafe {
            let mut least = Least::new();
            for column in (0..self.columns).step_by(COLUMNS) {
                for row in (0..self.rows).step_by(ROWS) {
                    least = match self.columns - column {
                        1 => self.of_rows::<1>(row, column, least),
                        2 => self.of_rows::<2>(row, column, least),
                        3 => self.of_rows::<3>(row, column, least),
                        _ => self.of_rows::<COLUMNS>(row, column, least),
                    };
                }
            }
            least.magnitude()
        }
    }
}

impl<W: Words> Dots<W> {
    #[inline(always)]
    unsafe fn of_rows<const WIDE: usize>(&self, row: usize, column: usize, least: Least) -> Least {
        // SAFETY: the caller's promise.
        unsafe {
            match self.rows - row {
                1 => self.sums::<1, WIDE>(row, column, least),
                2 => self.sums::<2, WIDE>(row, column, least),
                3 => self.sums::<3, WIDE>(row, column, least),
                4 => self.sums::<4, WIDE>(row, column, least),
                5 => self.sums::<5, WIDE>(row, column, least),
                _ => self.sums::<ROWS, WIDE>(row, column, least),
            }
        }
    }

    #[inline(always)]
    unsafe fn sums<const HIGH: usize, const WIDE: usize>(&self, row: usize, column: usize, least: Least) -> Least {
        let step = LANES * W::ELEMENTS;
        let bytes = 4 / W::ELEMENTS;
        // SAFETY: the caller's promise; only elements that there are are read.
        unsafe {
            let flip = _mm512_set1_epi8(if self.flipped { i8::MIN } else { 0 });
            let mut least = least;
            let mut sums = [[W::zero(); WIDE]; HIGH];
            for k in (0..self.depth).step_by(step) {
                let mask = u64::MAX >> (64 - bytes * (self.depth - k).min(step));
                let mut columns: [__m512i; WIDE] = [_mm512_setzero_si512(); WIDE];
                for (j, to) in columns.iter_mut().enumerate() {
                    let x = _mm512_maskz_loadu_epi8(mask, self.b.at(k, column + j).cast());
                    // Those of the first rows have been seen then.
                    if W::DROPS_SUBNORMALS && row == 0 {
                        least = least.with(x);
                    }
                    *to = _mm512_xor_si512(x, flip);
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let a = _mm512_maskz_loadu_epi8(mask, self.a.at(k, row + i).cast());
                    for (sum, column) in sums.iter_mut().zip(columns) {
                        *sum = W::dot(*sum, a, column);
                    }
                }
            }
            for (i, sums) in sums.into_iter().enumerate() {
                for (j, sum) in sums.into_iter().enumerate() {
                    *self.to.add((row + i) * self.stride + column + j) += W::total(sum);
                }
            }
            least
        }
    }
}
