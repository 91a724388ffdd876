//! Dot products of a few rows of A with columns of B, both contiguous along K.

use std::arch::x86_64::{
    __m512i, _MM_HINT_T1, _mm_prefetch, _mm512_maskz_loadu_epi8, _mm512_set1_epi8, _mm512_setzero_si512,
    _mm512_shuffle_i32x4, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
    _mm512_xor_si512,
};
use std::marker::PhantomData;

use super::block::add;
use super::pack::{Magnitude, PackedFrom};
use super::pack_avx512::Least;
use super::{Avx512, LANES, WordsWork};

/// Rows and columns at a time: their sums, a word of each column and one of a row fill 29 of the 32 registers.
const ROWS: usize = 6;
const COLUMNS: usize = 4;
/// Block shapes for 7 and 8 rows (each column is read once), and for more. More rows come from the second-level cache,
/// so each of them is used by more columns. (Zen 5, one core, 3072 columns of 768 f32s: 8 rows take 180 µs by this
/// shape, and 190 to 230 by others.)
const ALL_ROWS: usize = 8;
const THREE_COLUMNS: usize = 3;
const MANY_ROWS: usize = 4;
const SIX_COLUMNS: usize = 6;
/// One row of f32s is multiplied by one column after another, fetched `AHEAD` bytes ahead. Rows of other elements take
/// more columns at a time. (Zen 4, one core, 3072 columns of 768 f32s: 0.12 ms from a shared cache and 0.33 from
/// memory; by four or eight columns 0.13 and 0.41. For bf16s 0.071 from the cache by eight columns, 0.075 by one.)
const EIGHT_COLUMNS: usize = 8;
const AHEAD: usize = 4096;

/// `to += a · b` for this many rows, columns and elements along K; the rows of `to` are `stride` apart. Gives the least
/// magnitude of B's elements if they are bf16s; `flipped` is what it is for [`pack`](super::pack).
///
/// # Safety
/// `a` and `b` must have these elements, contiguous along K, and nobody writes them meanwhile. The CPU must multiply
/// words of this type.
///
/// # Panics
/// If `to` is too short.
pub(in crate::gemm::cpu) unsafe fn dots<W: Avx512>(
    [rows, columns, depth]: [usize; 3],
    (a, b): (PackedFrom, PackedFrom),
    flipped: bool,
    to: &mut [W::Sum],
    stride: usize,
) -> Magnitude {
    assert!(rows == 0 || columns == 0 || to.len() >= (rows - 1) * stride + columns, "room for the block");
    let of = PhantomData;
    // SAFETY: the caller's promise, and what was tested.
    unsafe { W::compiled_for(Dots::<W> { rows, columns, depth, a, b, flipped, to: to.as_mut_ptr(), stride, of }) }
}

struct Dots<W: Avx512> {
    rows: usize,
    columns: usize,
    depth: usize,
    a: PackedFrom,
    b: PackedFrom,
    flipped: bool,
    to: *mut W::Sum,
    stride: usize,
    of: PhantomData<W>,
}

impl<W: Avx512> WordsWork for Dots<W> {
    type Output = Magnitude;

    #[inline(always)]
    unsafe fn run(self) -> Magnitude {
        // SAFETY: the caller's promise.
        unsafe {
            let mut least = Least::new();
            let mut column = 0;
            if (ROWS + 1..=ALL_ROWS).contains(&self.rows) {
                while self.columns - column >= THREE_COLUMNS {
                    least = match self.rows {
                        ALL_ROWS => self.sums::<ALL_ROWS, THREE_COLUMNS, true>(0, column, least),
                        _ => self.sums::<7, THREE_COLUMNS, true>(0, column, least),
                    };
                    column += THREE_COLUMNS;
                }
            } else if self.rows == 1 && W::ELEMENTS == 1 {
                while self.columns - column >= COLUMNS {
                    self.of_one_row(column);
                    column += COLUMNS;
                }
            } else if self.rows == 1 {
                while self.columns - column >= EIGHT_COLUMNS {
                    least = self.sums::<1, EIGHT_COLUMNS, true>(0, column, least);
                    column += EIGHT_COLUMNS;
                }
            } else if self.rows > ALL_ROWS {
                while self.columns - column >= SIX_COLUMNS {
                    least = self.sums::<MANY_ROWS, SIX_COLUMNS, true>(0, column, least);
                    for row in (MANY_ROWS..self.rows).step_by(MANY_ROWS) {
                        least = match self.rows - row {
                            1 => self.sums::<1, SIX_COLUMNS, false>(row, column, least),
                            2 => self.sums::<2, SIX_COLUMNS, false>(row, column, least),
                            3 => self.sums::<3, SIX_COLUMNS, false>(row, column, least),
                            _ => self.sums::<MANY_ROWS, SIX_COLUMNS, false>(row, column, least),
                        };
                    }
                    column += SIX_COLUMNS;
                }
            }
            for column in (column..self.columns).step_by(COLUMNS) {
                for row in (0..self.rows).step_by(ROWS) {
                    least = match self.columns - column {
                        1 => self.of_rows::<1, true>(row, column, least),
                        2 => self.of_rows::<2, true>(row, column, least),
                        3 => self.of_rows::<3, true>(row, column, least),
                        _ if row == 0 => self.of_rows::<COLUMNS, true>(row, column, least),
                        _ => self.of_rows::<COLUMNS, false>(row, column, least),
                    };
                }
            }
            least.magnitude()
        }
    }
}

impl<W: Avx512> Dots<W> {
    /// The bytes of a vector that are elements, from element `k` on.
    #[inline(always)]
    const fn mask(&self, k: usize) -> u64 {
        let (left, step) = (self.depth - k, LANES * W::ELEMENTS);
        u64::MAX >> (64 - 4 / W::ELEMENTS * if left < step { left } else { step })
    }

    /// B's integers with the other signedness.
    #[inline(always)]
    unsafe fn flip(&self, x: __m512i) -> __m512i {
        // Only words of four elements are integers.
        if W::ELEMENTS < 4 {
            return x;
        }
        // SAFETY: the caller's promise: the CPU has the instructions.
        unsafe { _mm512_xor_si512(x, _mm512_set1_epi8(if self.flipped { i8::MIN } else { 0 })) }
    }

    #[inline(always)]
    unsafe fn of_rows<const WIDE: usize, const FIRST: bool>(&self, row: usize, column: usize, least: Least) -> Least {
        // SAFETY: the caller's promise.
        unsafe {
            match self.rows - row {
                1 => self.sums::<1, WIDE, FIRST>(row, column, least),
                2 => self.sums::<2, WIDE, FIRST>(row, column, least),
                3 => self.sums::<3, WIDE, FIRST>(row, column, least),
                4 => self.sums::<4, WIDE, FIRST>(row, column, least),
                5 => self.sums::<5, WIDE, FIRST>(row, column, least),
                _ => self.sums::<ROWS, WIDE, FIRST>(row, column, least),
            }
        }
    }

    /// Multiplies one row of f32s by [`COLUMNS`] columns, one after another.
    #[inline(always)]
    unsafe fn of_one_row(&self, column: usize) {
        let step = LANES * W::ELEMENTS;
        // SAFETY: the caller's promise; only elements that there are are read, and what is fetched may be at any address.
        unsafe {
            let mut four = [W::zero(); COLUMNS];
            for (j, total) in four.iter_mut().enumerate() {
                let mut sums = [W::zero(); 4];
                let whole = self.depth / (4 * step) * (4 * step);
                for first in (0..whole).step_by(4 * step) {
                    for (i, sum) in sums.iter_mut().enumerate() {
                        let (k, all) = (first + i * step, u64::MAX);
                        let at = self.b.at(k, column + j);
                        _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(AHEAD).cast());
                        *sum = W::dot(*sum, load(all, self.a.at(k, 0)), load(all, at));
                    }
                }
                for k in (whole..self.depth).step_by(step) {
                    let mask = self.mask(k);
                    sums[0] = W::dot(sums[0], load(mask, self.a.at(k, 0)), load(mask, self.b.at(k, column + j)));
                }
                *total = W::add(W::add(sums[0], sums[1]), W::add(sums[2], sums[3]));
            }
            add::<W>(self.to.add(column), totals::<W>(four), COLUMNS);
        }
    }

    /// `FIRST` says that the columns have not been read yet: then the next ones are fetched, too, and magnitudes are looked at.
    #[inline(always)]
    unsafe fn sums<const HIGH: usize, const WIDE: usize, const FIRST: bool>(
        &self,
        row: usize,
        column: usize,
        least: Least,
    ) -> Least {
        let step = LANES * W::ELEMENTS;
        // SAFETY: the caller's promise; only elements that there are are read, and what is fetched may be at any address.
        unsafe {
            let mut least = least;
            let mut sums = [[W::zero(); WIDE]; HIGH];
            for k in (0..self.depth).step_by(step) {
                let mask = self.mask(k);
                let mut columns: [__m512i; WIDE] = [_mm512_setzero_si512(); WIDE];
                for (j, to) in columns.iter_mut().enumerate() {
                    let x = load(mask, self.b.at(k, column + j));
                    if FIRST {
                        _mm_prefetch::<_MM_HINT_T1>(self.b.at(k, column + WIDE + j).cast());
                        if W::DROPS_SUBNORMALS {
                            least = least.with(x);
                        }
                    }
                    *to = self.flip(x);
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let a = load(mask, self.a.at(k, row + i));
                    for (sum, column) in sums.iter_mut().zip(columns) {
                        *sum = W::dot(*sum, a, column);
                    }
                }
            }
            for (i, sums) in sums.iter().enumerate() {
                for (j, sums) in sums.chunks(4).enumerate() {
                    let to = self.to.add((row + i) * self.stride + column + 4 * j);
                    let four = std::array::from_fn(|i| if i < sums.len() { sums[i] } else { W::zero() });
                    add::<W>(to, totals::<W>(four), sums.len());
                }
            }
            least
        }
    }
}

/// The bytes that a mask has, of those at an address.
#[inline(always)]
unsafe fn load(mask: u64, from: *const u8) -> __m512i {
    // SAFETY: the caller's promise: there are these, and the CPU has the instruction.
    unsafe { _mm512_maskz_loadu_epi8(mask, from.cast()) }
}

/// The sums of all lanes of four vectors, in the first four lanes.
#[inline(always)]
unsafe fn totals<W: Avx512>(x: [W::Sums; 4]) -> W::Sums {
    // SAFETY: the caller's promise: the CPU has the instructions.
    unsafe {
        let [a, b, c, d] = x.map(W::bits);
        let sum = |x, y| W::bits(W::add(W::of_bits(x), W::of_bits(y)));
        // In each quarter of the lanes: pairs of two vectors in turns, then one sum of each vector.
        let ab = sum(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let cd = sum(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        let quarters = sum(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
        let halves = sum(quarters, _mm512_shuffle_i32x4::<0x4e>(quarters, quarters));
        W::of_bits(sum(halves, _mm512_shuffle_i32x4::<0xb1>(halves, halves)))
    }
}
