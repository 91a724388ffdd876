//! Few rows of bf16s of A, whose words are contiguous along K. B is contiguous along N and read in place: registers
//! pair two of its rows to one word of each column.

use std::arch::x86_64::{
    __m512i, __mmask32, _MM_HINT_T1, _mm_prefetch, _mm512_maskz_loadu_epi16, _mm512_set1_epi32, _mm512_setzero_si512,
    _mm512_shuffle_i32x4, _mm512_unpackhi_epi16, _mm512_unpacklo_epi16,
};
use std::ops::Range;

use super::block::add;
use super::pack::{Magnitude, PackedFrom};
use super::pack_avx512::Least;
use super::steps::{ahead, shares};
use super::{Avx512 as _, Bf16, LANES, Words as _, WordsWork};

/// The most rows at a time.
const HIGH: usize = 6;
/// The most rows: with more, packing B is faster, and so it is for tiles.
pub(in crate::gemm::cpu) fn few_rows() -> usize {
    if Bf16::tiles().is_some() { HIGH } else { 2 * HIGH }
}

/// Columns in a vector of B's elements.
const WIDE: usize = 2 * LANES;

/// `to += a · b` for at most [`few_rows`], this many columns and elements along K; the rows of `to` are `stride` apart.
/// Gives the least magnitude of B's elements.
///
/// # Safety
/// `a` and `b` must have these elements, contiguous along K and along N, which nobody writes meanwhile; the CPU must
/// multiply words of bf16s.
///
/// # Panics
/// If `to` is too short.
pub(in crate::gemm::cpu) unsafe fn few(
    [rows, columns, depth]: [usize; 3],
    (a, b): (PackedFrom, PackedFrom),
    to: &mut [f32],
    stride: usize,
) -> Magnitude {
    assert!(rows == 0 || columns == 0 || to.len() >= (rows - 1) * stride + columns, "room for the block");
    let some = |share: Range<usize>| {
        let (a, to) = (PackedFrom { pointer: a.at(0, share.start), ..a }, to[share.start * stride..].as_mut_ptr());
        // SAFETY: the caller's promise, and what was tested.
        unsafe { Bf16::compiled_for(Few { rows: share.len(), columns, depth, a, b, to, stride }) }
    };
    shares(rows, HIGH).map(some).min().unwrap_or(Magnitude::NONE)
}

struct Few {
    rows: usize,
    columns: usize,
    depth: usize,
    a: PackedFrom,
    b: PackedFrom,
    to: *mut f32,
    stride: usize,
}

impl WordsWork for Few {
    type Output = Magnitude;

    #[inline(always)]
    unsafe fn run(self) -> Magnitude {
        // SAFETY: the caller's promise.
        unsafe {
            match self.rows {
                // One row reads B's rows in longer pieces.
                1 => self.all::<1, 8>(),
                2 => self.all::<2, 4>(),
                3 => self.all::<3, 2>(),
                4 => self.all::<4, 2>(),
                5 => self.all::<5, 2>(),
                _ => self.all::<HIGH, 2>(),
            }
        }
    }
}

impl Few {
    /// All columns, this many vectors at a time.
    #[inline(always)]
    unsafe fn all<const HIGH: usize, const VECTORS: usize>(&self) -> Magnitude {
        // SAFETY: the caller's promise.
        unsafe {
            let mut least = Least::new();
            for column in (0..self.columns).step_by(VECTORS * WIDE) {
                least = self.sums::<HIGH, VECTORS>(column, least);
            }
            least.magnitude()
        }
    }

    #[inline(always)]
    unsafe fn sums<const HIGH: usize, const VECTORS: usize>(&self, column: usize, least: Least) -> Least {
        // SAFETY: the caller's promise; only elements that there are are read, and what is fetched may be at any address.
        unsafe {
            let mut masks: [__mmask32; VECTORS] = [0; VECTORS];
            for (j, mask) in masks.iter_mut().enumerate() {
                let count = self.columns.saturating_sub(column + j * WIDE).min(WIDE);
                *mask = if count == 0 { 0 } else { u32::MAX >> (WIDE - count) };
            }
            let mut least = least;
            // The columns in the lower and the upper half of each quarter of a vector.
            let mut sums = [[[Bf16::zero(); 2]; VECTORS]; HIGH];
            for k in (0..self.depth).step_by(2) {
                let is_pair = k + 1 < self.depth;
                let (row, first) = ahead(k, self.depth, &(column..column + VECTORS * WIDE));
                let mut words = [[_mm512_setzero_si512(); 2]; VECTORS];
                for (j, (words, mask)) in words.iter_mut().zip(masks).enumerate() {
                    let at = |k| self.b.at(k, column + j * WIDE).cast();
                    for i in [0, 1] {
                        _mm_prefetch::<_MM_HINT_T1>(self.b.at(row + i, first + j * WIDE).cast());
                    }
                    let first = _mm512_maskz_loadu_epi16(mask, at(k));
                    let second = _mm512_maskz_loadu_epi16(if is_pair { mask } else { 0 }, at(k + 1));
                    least = least.with(first).with(second);
                    *words = [_mm512_unpacklo_epi16(first, second), _mm512_unpackhi_epi16(first, second)];
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let at = self.a.at(k, i);
                    let word = if is_pair {
                        at.cast::<i32>().read_unaligned()
                    } else {
                        i32::from(at.cast::<u16>().read_unaligned())
                    };
                    let a = _mm512_set1_epi32(word);
                    for (sums, words) in sums.iter_mut().zip(words) {
                        for (sum, b) in sums.iter_mut().zip(words) {
                            *sum = Bf16::dot(*sum, a, b);
                        }
                    }
                }
            }
            for (i, sums) in sums.into_iter().enumerate() {
                for (j, [lower, upper]) in sums.into_iter().enumerate() {
                    for (half, sum) in in_order(Bf16::bits(lower), Bf16::bits(upper)).into_iter().enumerate() {
                        let first = column + j * WIDE + half * LANES;
                        if first < self.columns {
                            let to = self.to.add(i * self.stride + first);
                            add::<Bf16>(to, Bf16::of_bits(sum), self.columns - first);
                        }
                    }
                }
            }
            least
        }
    }
}

/// Quarters of two vectors in turns: the columns as they are in memory.
#[inline(always)]
unsafe fn in_order(lower: __m512i, upper: __m512i) -> [__m512i; 2] {
    // SAFETY: the caller's promise: the CPU has the instruction.
    unsafe {
        let first = _mm512_shuffle_i32x4::<0x44>(lower, upper);
        let second = _mm512_shuffle_i32x4::<0xee>(lower, upper);
        [_mm512_shuffle_i32x4::<0xd8>(first, first), _mm512_shuffle_i32x4::<0xd8>(second, second)]
    }
}
