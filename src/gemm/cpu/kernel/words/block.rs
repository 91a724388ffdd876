//! A block of the product, of panels of B's words.

use std::arch::x86_64::{
    __m512i, _MM_HINT_T0, _mm_prefetch, _mm512_loadu_si512, _mm512_mask_storeu_epi32, _mm512_maskz_loadu_epi32,
    _mm512_set1_epi32, _mm512_setzero_si512,
};
use std::marker::PhantomData;
use std::ops::Range;

use super::amx;
use super::operands::{Of, Panels, ROWS, Rows, Run};
use super::pack::{Magnitude, VECTORS};
use super::{LANES, Words, Work};

/// Words along K between two tests of a loop: counting them takes multiplications' places. (One core of a Xeon, 1024×1024×1024
/// f32s: 14.6 ms in place of 16.3.)
const UNROLLED: usize = 4;

/// `to = a · b` for this many columns of some rows of `to`; where `adds`, `to += a · b`. The rows of `to` are `stride` apart. Sums
/// that are stored are never -0, so it is the same whether products with 0 are among them or not. Gives the least magnitude of
/// A's elements, if these are bf16s and words follow each other in memory.
///
/// # Safety
/// `a` must have the words that it says, which nobody writes meanwhile; the CPU must multiply such words.
///
/// # Panics
/// If the runs end after B's words, or `b` or `to` are too short.
pub(in crate::gemm::cpu) unsafe fn block<W: Words>(
    columns: usize,
    a: &[Rows<'_>],
    b: Panels<'_>,
    (to, stride, adds): (&mut [W::Sum], usize, bool),
) -> Magnitude {
    if columns == 0 {
        return Magnitude::NONE;
    }
    assert!(b.words.len() >= super::panel_words(columns, b.deep), "all words of B");
    for a in a {
        let is_inside = |run: &Run| run.first.checked_add(run.length).is_some_and(|end| end <= b.deep);
        assert!(a.runs.iter().all(is_inside), "words of B for all of A's");
        let are_all = || a.runs.iter().all(|run| run.of == Of::All);
        assert!(a.starts.len() <= ROWS || are_all(), "a run of all rows, if these are many");
        assert!(a.places.is_none_or(|places| places.len() == a.starts.len()), "a place for each row");
        let end = a.places.map_or(a.starts.len(), |places| places.iter().max().map_or(0, |last| last + 1));
        assert!(end == 0 || to.len() >= (end - 1) * stride + columns, "room for the block");
    }
    let to = to.as_mut_ptr();
    // SAFETY: the caller's promise, and what was tested.
    unsafe {
        if let Some(dot) = W::tiles() {
            let runs = || a.iter().flat_map(|a| a.runs);
            let first = runs().map(|run| run.first).min().unwrap_or(0);
            let words = first..runs().map(|run| run.first + run.length).max().unwrap_or(0);
            if !words.is_empty() {
                return W::compiled_for(amx::Block::<W> { dot, columns, a, b, words, to, stride, adds });
            }
        }
        W::compiled_for(Block::<W> { columns, a, b, to, stride, adds, of: PhantomData });
        a.iter().map(|a| a.magnitude::<W>()).min().unwrap_or(Magnitude::NONE)
    }
}

struct Block<'a, W: Words> {
    columns: usize,
    a: &'a [Rows<'a>],
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
            for a in self.a {
                // Nearly as many at each time: a single row at the end would wait for B's words.
                let (count, times) = (a.starts.len(), a.starts.len().div_ceil(ROWS));
                for i in 0..times {
                    let rows = i * count / times..(i + 1) * count / times;
                    // SAFETY: the caller's promise.
                    unsafe {
                        match (self.columns - column).div_ceil(LANES) {
                            1 => self.sums::<1>(a, rows, column),
                            2 => self.sums::<2>(a, rows, column),
                            3 => self.sums::<3>(a, rows, column),
                            _ => self.sums::<VECTORS>(a, rows, column),
                        }
                    }
                }
            }
        }
    }
}

/// The sums of at most [`ROWS`] rows, and where these begin.
struct Sums<W: Words, const WIDE: usize> {
    of: [[W::Sums; WIDE]; ROWS],
    starts: [*const u8; ROWS],
}

impl<W: Words> Block<'_, W> {
    #[inline(always)]
    unsafe fn sums<const WIDE: usize>(&self, a: &Rows<'_>, rows: Range<usize>, column: usize) {
        let (row, high) = (rows.start, rows.len());
        // SAFETY: the caller's promise: `a` has the rows and words, `b` whole panels, `to` the rows and columns.
        unsafe {
            let panel = self.b.words.as_ptr().add(column * self.b.deep);
            let starts = a.starts.as_ptr().add(row);
            let mut sums = Sums::<W, WIDE> {
                of: [[W::zero(); WIDE]; ROWS],
                starts: std::array::from_fn(|i| *starts.add(i.min(high - 1))),
            };
            // What has been multiplied by a panel is in a cache for the next one.
            let has_next = a.are_far && column == 0 && row + 2 * high <= a.starts.len();
            let next = if has_next { std::slice::from_raw_parts(starts.add(high), high) } else { &[] };
            for run in a.runs {
                let b = panel.add(run.first * WIDE * LANES);
                let (from, to) = match run.of {
                    Of::All => (0, high),
                    Of::First(count) => (0, count),
                    Of::From(first) => (first, ROWS),
                };
                match (from, to) {
                    (0, 1) => sums.add::<0, 1>(run, a.word, b, next),
                    (0, 2) => sums.add::<0, 2>(run, a.word, b, next),
                    (0, 3) => sums.add::<0, 3>(run, a.word, b, next),
                    (0, 4) => sums.add::<0, 4>(run, a.word, b, next),
                    (0, 5) => sums.add::<0, 5>(run, a.word, b, next),
                    (1, _) => sums.add::<1, ROWS>(run, a.word, b, next),
                    (2, _) => sums.add::<2, ROWS>(run, a.word, b, next),
                    (3, _) => sums.add::<3, ROWS>(run, a.word, b, next),
                    (4, _) => sums.add::<4, ROWS>(run, a.word, b, next),
                    (5, _) => sums.add::<5, ROWS>(run, a.word, b, next),
                    _ => sums.add::<0, ROWS>(run, a.word, b, next),
                }
            }
            for (i, sums) in sums.of.into_iter().enumerate().take(high) {
                let place = a.places.map_or(row + i, |places| *places.get_unchecked(row + i));
                for (j, sum) in sums.into_iter().enumerate() {
                    let first = column + j * LANES;
                    let to = self.to.add(place * self.stride + first);
                    if self.adds {
                        add::<W>(to, sum, self.columns - first);
                    } else {
                        store::<W>(to, W::add(sum, W::zero()), self.columns - first);
                    }
                }
            }
        }
    }
}

impl<W: Words, const WIDE: usize> Sums<W, WIDE> {
    /// Adds a run's products of some of the rows. Meanwhile the same of the next rows are fetched.
    #[inline(always)]
    unsafe fn add<const FROM: usize, const TO: usize>(
        &mut self,
        run: &Run,
        word: isize,
        mut b: *const i32,
        next: &[*const u8],
    ) {
        // SAFETY: the caller's promise: the rows have the run's words, and B as many.
        unsafe {
            // (They stay in registers so.)
            let mut sums = self.of;
            let mut at = run.offset;
            let mut step = || {
                let mut columns = [_mm512_setzero_si512(); WIDE];
                for (j, to) in columns.iter_mut().enumerate() {
                    *to = _mm512_loadu_si512(b.add(j * LANES).cast());
                }
                for (start, sums) in self.starts[FROM..TO].iter().zip(&mut sums[FROM..TO]) {
                    let a = _mm512_set1_epi32(start.wrapping_offset(at).cast::<i32>().read_unaligned());
                    for (sum, column) in sums.iter_mut().zip(columns) {
                        *sum = W::dot(*sum, a, column);
                    }
                }
                at = at.wrapping_add(word);
                b = b.add(WIDE * LANES);
            };
            let fetch = |number: usize| {
                if number.is_multiple_of(LANES) {
                    let at = run.offset.wrapping_add(number.cast_signed().wrapping_mul(word));
                    for start in next {
                        _mm_prefetch::<_MM_HINT_T0>(start.wrapping_offset(at).cast());
                    }
                }
            };
            let whole = if TO - FROM == ROWS { run.length / UNROLLED * UNROLLED } else { 0 };
            for number in (0..whole).step_by(UNROLLED) {
                fetch(number);
                for _ in 0..UNROLLED {
                    step();
                }
            }
            for number in whole..run.length {
                fetch(number);
                step();
            }
            self.of = sums;
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
