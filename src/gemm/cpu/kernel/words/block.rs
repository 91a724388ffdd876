//! A block of the product, of panels of B's words.

use std::marker::PhantomData;
use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use super::amx;
use super::operands::{Of, Panels, ROWS, WordRows, WordRun};
use super::pack::{Magnitude, VECTORS};
use super::{LANES, Words, WordsWork};
use crate::simd::stream;

/// Words along K between two tests of a loop: counting them takes multiplications' places. (One core of a Xeon, 1024×1024×1024
/// f32s: 14.6 ms in place of 16.3.)
const UNROLLED: usize = 4;
/// Words of B that are fetched ahead for the first rows: while so much waits to be added, a CPU doesn't look further by itself.
/// (The same core, 1536×384 f32s from a shared cache, packed: by 6 rows 0.14 ms in place of 0.30, by 12 rows 0.25 in place of
/// 0.35.)
const AHEAD: usize = 2048;
/// Rows at a time by half a panel: registers are as full as with [`ROWS`] and a whole one. (12 rows: 0.22 ms in place of 0.25.)
const TALL: usize = 2 * ROWS;

/// `to = a · b` for this many columns of some rows of `to`; where `adds`, `to += a · b`. The rows of `to` are `stride` apart. Sums
/// that are stored are never -0, so it is the same whether products with 0 are among them or not. Gives the least magnitude of
/// A's elements, if these are bf16s and words follow each other in memory.
///
/// # Safety
/// `a` must have its words, and nobody writes them meanwhile. The CPU must multiply words of this type.
///
/// # Panics
/// If the runs end after B's words, or `b` or `to` are too short.
pub(in crate::gemm::cpu) unsafe fn block<W: Words>(
    columns: usize,
    a: &[WordRows<'_>],
    b: Panels<'_>,
    (to, stride, adds): (&mut [W::Sum], usize, bool),
) -> Magnitude {
    if columns == 0 {
        return Magnitude::NONE;
    }
    assert!(b.words.len() >= super::panel_words(columns, b.deep), "all words of B");
    for a in a {
        let is_inside = |run: &WordRun| run.first.checked_add(run.length).is_some_and(|end| end <= b.deep);
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
        #[cfg(target_arch = "x86_64")]
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
    a: &'a [WordRows<'a>],
    b: Panels<'a>,
    to: *mut W::Sum,
    stride: usize,
    adds: bool,
    of: PhantomData<W>,
}

impl<W: Words> WordsWork for Block<'_, W> {
    type Output = ();

    #[inline(always)]
    unsafe fn run(self) {
        for column in (0..self.columns).step_by(W::VECTORS * LANES) {
            for a in self.a {
                let vectors = (self.columns - column).div_ceil(LANES).min(W::VECTORS);
                // SAFETY: the caller's promise.
                unsafe {
                    if vectors == VECTORS && is_tall(a) {
                        self.all::<TALL, 2, VECTORS>(a, column, 0);
                        self.all::<TALL, 2, VECTORS>(a, column, 2);
                        continue;
                    }
                    match vectors {
                        1 => self.all::<ROWS, 1, 1>(a, column, 0),
                        2 => self.all::<ROWS, 2, 2>(a, column, 0),
                        3 => self.all::<ROWS, 3, 3>(a, column, 0),
                        _ => self.all::<ROWS, VECTORS, VECTORS>(a, column, 0),
                    }
                }
            }
        }
    }
}

/// Whether [`TALL`] rows hold all rows, nearly full. B is then read once, by half a panel at a time. (More rows are not
/// faster this way.)
fn is_tall(a: &WordRows<'_>) -> bool {
    (TALL - 2..=TALL).contains(&a.starts.len()) && a.runs.iter().all(|run| run.of == Of::All)
}

/// The sums of at most `HIGH` rows and `WIDE` vectors of the `OF` of a panel, and where the rows begin.
struct Sums<W: Words, const HIGH: usize, const WIDE: usize, const OF: usize> {
    of: [[W::Sums; WIDE]; HIGH],
    starts: [*const u8; HIGH],
}

impl<W: Words> Block<'_, W> {
    /// All rows by `WIDE` vectors of a panel, from vector `first` on.
    #[inline(always)]
    unsafe fn all<const HIGH: usize, const WIDE: usize, const OF: usize>(
        &self,
        a: &WordRows<'_>,
        column: usize,
        first: usize,
    ) {
        // Nearly as many at each time: a single row at the end would wait for B's words.
        let (count, times) = (a.starts.len(), a.starts.len().div_ceil(HIGH));
        for i in 0..times {
            let rows = i * count / times..(i + 1) * count / times;
            // SAFETY: the caller's promise.
            unsafe { self.sums::<HIGH, WIDE, OF>(a, rows, column, first) };
        }
    }

    #[inline(always)]
    unsafe fn sums<const HIGH: usize, const WIDE: usize, const OF: usize>(
        &self,
        a: &WordRows<'_>,
        rows: Range<usize>,
        column: usize,
        first: usize,
    ) {
        let (row, high) = (rows.start, rows.len());
        // SAFETY: the caller's promise: `a` has the rows and words, `b` whole panels, `to` the rows and columns.
        unsafe {
            let panel = self.b.words.as_ptr().add(column * self.b.deep + first * LANES);
            let starts = a.starts.as_ptr().add(row);
            let mut sums = Sums::<W, HIGH, WIDE, OF> {
                of: [[W::zero(); WIDE]; HIGH],
                starts: std::array::from_fn(|i| *starts.add(i.min(high - 1))),
            };
            // Words that one panel has been multiplied by are in a cache for the next panel.
            let has_next = a.are_far && column == 0 && first == 0 && row + 2 * high <= a.starts.len();
            let next = if has_next { std::slice::from_raw_parts(starts.add(high), high) } else { &[] };
            let fetched = Fetched { next, is_b: row == 0 };
            for run in a.runs {
                let b = panel.add(run.first * OF * LANES);
                if HIGH > ROWS {
                    sums.add::<0, HIGH>(run, a.word, b, fetched);
                    continue;
                }
                let (from, to) = match run.of {
                    Of::All => (0, high),
                    Of::First(count) => (0, count),
                    Of::From(first) => (first, ROWS),
                };
                match (from, to) {
                    (0, 1) => sums.add::<0, 1>(run, a.word, b, fetched),
                    (0, 2) => sums.add::<0, 2>(run, a.word, b, fetched),
                    (0, 3) => sums.add::<0, 3>(run, a.word, b, fetched),
                    (0, 4) => sums.add::<0, 4>(run, a.word, b, fetched),
                    (0, 5) => sums.add::<0, 5>(run, a.word, b, fetched),
                    (1, _) => sums.add::<1, ROWS>(run, a.word, b, fetched),
                    (2, _) => sums.add::<2, ROWS>(run, a.word, b, fetched),
                    (3, _) => sums.add::<3, ROWS>(run, a.word, b, fetched),
                    (4, _) => sums.add::<4, ROWS>(run, a.word, b, fetched),
                    (5, _) => sums.add::<5, ROWS>(run, a.word, b, fetched),
                    _ => sums.add::<0, ROWS>(run, a.word, b, fetched),
                }
            }
            for (i, sums) in sums.of.into_iter().enumerate().take(high) {
                let place = a.places.map_or(row + i, |places| *places.get_unchecked(row + i));
                for (j, sum) in sums.into_iter().enumerate() {
                    let first = column + (first + j) * LANES;
                    let to = self.to.add(place * self.stride + first);
                    if self.adds {
                        add::<W>(to, sum, self.columns - first);
                    } else {
                        W::store_sums(to, W::add(sum, W::zero()), self.columns - first);
                    }
                }
            }
        }
    }
}

/// Words that are fetched while other words are multiplied.
#[derive(Clone, Copy)]
struct Fetched<'a> {
    /// The next rows, to be fetched at these words.
    next: &'a [*const u8],
    /// B's words further on, which no rows before have brought to a cache.
    is_b: bool,
}

impl<W: Words, const HIGH: usize, const WIDE: usize, const OF: usize> Sums<W, HIGH, WIDE, OF> {
    /// Adds a run's products of some of the rows.
    #[inline(always)]
    unsafe fn add<const FROM: usize, const TO: usize>(
        &mut self,
        run: &WordRun,
        word: isize,
        mut b: *const i32,
        fetched: Fetched<'_>,
    ) {
        // SAFETY: the caller's promise: the rows have the run's words, and B as many.
        unsafe {
            // (They stay in registers so.)
            let mut sums = self.of;
            let mut at = run.offset;
            let mut run = *run;
            if (FROM, TO) == (0, HIGH) && word == 4 {
                let done = W::add_run::<HIGH, WIDE, OF>(&mut sums, &self.starts, at, b, run.length);
                (at, b) = (at.wrapping_add(4 * done.cast_signed()), b.add(done * OF * LANES));
                (run.length, run.offset) = (run.length - done, at);
            }
            let first = b;
            if TO - FROM + 1 >= HIGH && word == 4 && !fetched.is_b && fetched.next.is_empty() {
                self.along::<FROM, TO>(&mut sums, at, b, run.length);
                self.of = sums;
                return;
            }
            let fetch = |number: usize| {
                if number.is_multiple_of(LANES) {
                    let at = run.offset.wrapping_add(number.cast_signed().wrapping_mul(word));
                    for start in fetched.next {
                        stream::fetch_near(start.wrapping_offset(at));
                    }
                }
            };
            let whole = if TO - FROM + 1 >= HIGH { run.length / UNROLLED * UNROLLED } else { 0 };
            for number in (0..whole).step_by(UNROLLED) {
                fetch(number);
                if fetched.is_b {
                    for i in 0..UNROLLED {
                        for j in 0..WIDE {
                            let at = first.wrapping_add(AHEAD + ((number + i) * OF + j) * LANES);
                            stream::fetch::<i32, 1>(at);
                        }
                    }
                }
                for _ in 0..UNROLLED {
                    self.step::<FROM, TO>(&mut sums, at, b);
                    (at, b) = (at.wrapping_add(word), b.add(OF * LANES));
                }
            }
            for number in whole..run.length {
                fetch(number);
                self.step::<FROM, TO>(&mut sums, at, b);
                (at, b) = (at.wrapping_add(word), b.add(OF * LANES));
            }
            self.of = sums;
        }
    }

    /// Adds the products of a run of words. (Nothing else is in this loop, so that all addresses stay in registers.)
    #[inline(always)]
    unsafe fn along<const FROM: usize, const TO: usize>(
        &self,
        sums: &mut [[W::Sums; WIDE]; HIGH],
        mut at: isize,
        mut b: *const i32,
        count: usize,
    ) {
        // SAFETY: the caller's promise: the rows have as many words, and B has their columns.
        unsafe {
            for _ in 0..count / UNROLLED {
                for _ in 0..UNROLLED {
                    self.step::<FROM, TO>(sums, at, b);
                    (at, b) = (at.wrapping_add(4), b.add(OF * LANES));
                }
            }
            for _ in 0..count % UNROLLED {
                self.step::<FROM, TO>(sums, at, b);
                (at, b) = (at.wrapping_add(4), b.add(OF * LANES));
            }
        }
    }

    /// Adds the products of a word. (As a closure it isn't always inlined, and then nothing in it is.)
    #[inline(always)]
    unsafe fn step<const FROM: usize, const TO: usize>(
        &self,
        sums: &mut [[W::Sums; WIDE]; HIGH],
        at: isize,
        b: *const i32,
    ) {
        // SAFETY: the caller's promise: the rows have a word there, and B has its columns.
        unsafe {
            let mut columns = [W::splat(0); WIDE];
            for (j, to) in columns.iter_mut().enumerate() {
                *to = W::load(b.add(j * LANES));
            }
            for (start, sums) in self.starts[FROM..TO].iter().zip(&mut sums[FROM..TO]) {
                let a = W::splat(start.wrapping_offset(at).cast::<i32>().read_unaligned());
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = W::dot(*sum, a, column);
                }
            }
        }
    }
}

/// Adds sums to at most `count` numbers.
#[inline(always)]
pub(super) unsafe fn add<W: Words>(to: *mut W::Sum, sums: W::Sums, count: usize) {
    // SAFETY: the caller's promise: there are as many numbers.
    unsafe { W::store_sums(to, W::add(W::load_sums(to, count), sums), count) };
}
