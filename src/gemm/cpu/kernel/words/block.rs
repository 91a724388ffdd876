//! A block of the product, of panels of B's words.

use std::arch::x86_64::{
    __m512i, _MM_HINT_T0, _mm_prefetch, _mm512_loadu_si512, _mm512_mask_storeu_epi32, _mm512_maskz_loadu_epi32,
    _mm512_set1_epi32, _mm512_setzero_si512,
};
use std::marker::PhantomData;
use std::ops::Range;

use super::pack::VECTORS;
use super::{LANES, Words, Work};

/// Rows at a time: their sums, a word of a panel's columns and one of a row fill 29 of the 32 registers.
const ROWS: usize = 6;

/// The words of A: every row is runs of words, which begin anywhere.
#[derive(Clone, Copy, Debug)]
pub(in crate::gemm::cpu) struct Rows<'a> {
    /// Where the runs of the first row begin, then those of the second, and so on.
    pub(in crate::gemm::cpu) starts: &'a [*const u8],
    /// The words of each run.
    pub(in crate::gemm::cpu) lengths: &'a [usize],
    /// Bytes from one word to the next.
    pub(in crate::gemm::cpu) word: isize,
    /// Whether they are in memory rather than in a cache, so that the next ones are fetched meanwhile.
    pub(in crate::gemm::cpu) are_far: bool,
}

impl Rows<'_> {
    /// The number of rows.
    pub(in crate::gemm::cpu) fn count(self) -> usize {
        self.starts.len() / self.lengths.len().max(1)
    }
}

/// Panels of B, of this many words each.
#[derive(Clone, Copy, Debug)]
pub(in crate::gemm::cpu) struct Panels<'a> {
    pub(in crate::gemm::cpu) words: &'a [i32],
    pub(in crate::gemm::cpu) deep: usize,
}

/// `to = a · b` for this many rows and columns, of the words of B's from `first` on; where `adds`, `to += a · b`. The rows of
/// `to` are `stride` apart.
///
/// # Safety
/// `a` must have the words that it says, which nobody writes meanwhile; the CPU must multiply such words.
///
/// # Panics
/// If `a` has other rows, or `b` or `to` are too short.
pub(in crate::gemm::cpu) unsafe fn block<W: Words>(
    [rows, columns]: [usize; 2],
    first: usize,
    a: Rows<'_>,
    b: Panels<'_>,
    (to, stride, adds): (&mut [W::Sum], usize, bool),
) {
    if rows == 0 || columns == 0 {
        return;
    }
    let end = a.lengths.iter().fold(first, |end, length| end.saturating_add(*length));
    assert!(a.starts.len() == a.lengths.len() * rows, "a start of every run");
    assert!(b.words.len() >= super::panel_words(columns, b.deep) && end <= b.deep, "all words of B");
    assert!(to.len() >= (rows - 1) * stride + columns, "room for the block");
    let to = to.as_mut_ptr();
    // SAFETY: the caller's promise, and what was tested.
    unsafe { W::compiled_for(Block::<W> { rows, columns, first, a, b, to, stride, adds, of: PhantomData }) }
}

struct Block<'a, W: Words> {
    rows: usize,
    columns: usize,
    first: usize,
    a: Rows<'a>,
    b: Panels<'a>,
    to: *mut W::Sum,
    stride: usize,
    adds: bool,
    of: PhantomData<W>,
}

impl<W: Words> Work for Block<'_, W> {
    type Output = ();

    #[inline(always)]
    unsafe fn run(self) {
        for column in (0..self.columns).step_by(VECTORS * LANES) {
            // Nearly as many at each time: a single row at the end would wait for B's words.
            let times = self.rows.div_ceil(ROWS);
            for i in 0..times {
                let (row, end) = (i * self.rows / times, (i + 1) * self.rows / times);
                // SAFETY: the caller's promise.
                unsafe {
                    match (self.columns - column).div_ceil(LANES) {
                        1 => self.of_rows::<1>(row..end, column),
                        2 => self.of_rows::<2>(row..end, column),
                        3 => self.of_rows::<3>(row..end, column),
                        _ => self.of_rows::<VECTORS>(row..end, column),
                    }
                }
            }
        }
    }
}

impl<W: Words> Block<'_, W> {
    #[inline(always)]
    unsafe fn of_rows<const WIDE: usize>(&self, rows: Range<usize>, column: usize) {
        let row = rows.start;
        // SAFETY: the caller's promise.
        unsafe {
            match rows.len() {
                1 => self.sums::<1, WIDE>(row, column),
                2 => self.sums::<2, WIDE>(row, column),
                3 => self.sums::<3, WIDE>(row, column),
                4 => self.sums::<4, WIDE>(row, column),
                5 => self.sums::<5, WIDE>(row, column),
                _ => self.sums::<ROWS, WIDE>(row, column),
            }
        }
    }

    #[inline(always)]
    unsafe fn sums<const HIGH: usize, const WIDE: usize>(&self, row: usize, column: usize) {
        // SAFETY: the caller's promise: `a` has the rows and words, `b` whole panels, `to` the rows and columns.
        unsafe {
            let mut b = self.b.words.as_ptr().add(column * self.b.deep + self.first * WIDE * LANES);
            let mut sums = [[W::zero(); WIDE]; HIGH];
            let (starts, runs) = (self.a.starts.as_ptr(), self.a.lengths.len());
            let ahead = row + HIGH;
            let has_next = self.a.are_far && runs == 1 && ahead + HIGH <= self.rows;
            let next = if has_next { std::slice::from_raw_parts(starts.add(ahead), HIGH) } else { &[] };
            for (run, &length) in self.a.lengths.iter().enumerate() {
                let starts: [*const u8; HIGH] = std::array::from_fn(|i| *starts.add((row + i) * runs + run));
                let mut at = 0isize;
                for word in 0..length {
                    if word % LANES == 0 {
                        for start in next {
                            _mm_prefetch::<_MM_HINT_T0>(start.wrapping_offset(at).cast());
                        }
                    }
                    let mut columns = [_mm512_setzero_si512(); WIDE];
                    for (j, to) in columns.iter_mut().enumerate() {
                        *to = _mm512_loadu_si512(b.add(j * LANES).cast());
                    }
                    for (start, sums) in starts.into_iter().zip(&mut sums) {
                        let a = _mm512_set1_epi32(start.wrapping_offset(at).cast::<i32>().read_unaligned());
                        for (sum, column) in sums.iter_mut().zip(columns) {
                            *sum = W::dot(*sum, a, column);
                        }
                    }
                    at = at.wrapping_add(self.a.word);
                    b = b.add(WIDE * LANES);
                }
            }
            for (i, sums) in sums.into_iter().enumerate() {
                for (j, sum) in sums.into_iter().enumerate() {
                    let first = column + j * LANES;
                    let to = self.to.add((row + i) * self.stride + first);
                    if self.adds {
                        add::<W>(to, sum, self.columns - first);
                    } else {
                        store::<W>(to, sum, self.columns - first);
                    }
                }
            }
        }
    }
}

/// Stores at most `count` sums.
#[inline(always)]
unsafe fn store<W: Words>(to: *mut W::Sum, sums: W::Sums, count: usize) {
    let mask = u16::MAX >> (LANES - count.min(LANES));
    // SAFETY: the caller's promise: there is room for as many.
    unsafe { _mm512_mask_storeu_epi32(to.cast(), mask, W::bits(sums)) };
}

/// Adds sums to at most `count` numbers.
#[inline(always)]
pub(super) unsafe fn add<W: Words>(to: *mut W::Sum, sums: W::Sums, count: usize) {
    let mask = u16::MAX >> (LANES - count.min(LANES));
    // SAFETY: the caller's promise: there are as many numbers.
    unsafe {
        let before: __m512i = _mm512_maskz_loadu_epi32(mask, to.cast());
        let after = W::bits(W::add(W::of_bits(before), sums));
        _mm512_mask_storeu_epi32(to.cast(), mask, after);
    }
}
