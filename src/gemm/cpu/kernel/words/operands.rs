//! The operands of a block: rows of A, panels of B.

use std::ops::Range;

use super::Words;
use super::pack::Magnitude;

/// Rows at a time: their sums, a word of a panel's columns and one of a row fill 29 of the 32 registers (of AVX2: 15 of 16).
pub(in crate::gemm::cpu) const ROWS: usize = 6;

/// Words of A, one after another, of each of some rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gemm::cpu) struct WordRun {
    /// Bytes from where the row begins.
    pub(in crate::gemm::cpu) offset: isize,
    /// The word of B's that its first one is multiplied by.
    pub(in crate::gemm::cpu) first: usize,
    /// How many they are.
    pub(in crate::gemm::cpu) length: usize,
    pub(in crate::gemm::cpu) of: Of,
}

/// Which rows have a run; only those of at most [`ROWS`] rows may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gemm::cpu) enum Of {
    All,
    /// As many rows, the first ones.
    First(usize),
    /// The rows from this one on.
    From(usize),
}

impl Of {
    /// Whether it is of a row with this number.
    pub(in crate::gemm::cpu) const fn has(self, row: usize) -> bool {
        match self {
            Self::All => true,
            Self::First(count) => row < count,
            Self::From(first) => row >= first,
        }
    }
}

impl WordRun {
    /// This many words, from the first on.
    pub(in crate::gemm::cpu) const fn of(length: usize) -> Self {
        Self { offset: 0, first: 0, length, of: Of::All }
    }

    /// Whether the other one is its continuation, if words follow each other in memory.
    pub(in crate::gemm::cpu) fn is_before(&self, other: &Self) -> bool {
        let after = self.offset + 4 * self.length.cast_signed();
        (after, self.first + self.length, self.of) == (other.offset, other.first, other.of)
    }
}

/// Rows of A, with the same runs of words; each row may begin anywhere. Gaps between the runs count as 0, and so do
/// runs that only other rows of the block have. B must be finite there.
#[derive(Clone, Copy, Debug)]
pub(in crate::gemm::cpu) struct WordRows<'a> {
    /// Where each of them begins.
    pub(in crate::gemm::cpu) starts: &'a [*const u8],
    /// In the order of K.
    pub(in crate::gemm::cpu) runs: &'a [WordRun],
    /// Bytes from one word to the next.
    pub(in crate::gemm::cpu) word: isize,
    /// Which rows of the result they are; without it, all of them.
    pub(in crate::gemm::cpu) places: Option<&'a [usize]>,
    /// Whether they are in memory rather than in a cache, so that the next ones are fetched meanwhile.
    pub(in crate::gemm::cpu) are_far: bool,
}

impl<'a> WordRows<'a> {
    /// All rows of the result, from a cache.
    pub(in crate::gemm::cpu) const fn all(starts: &'a [*const u8], runs: &'a [WordRun], word: isize) -> Self {
        Self { starts, runs, word, places: None, are_far: false }
    }

    /// The offset in bytes of the first of these words of B from each row's start, if one run of all rows has them.
    pub(super) fn offset(&self, words: &Range<usize>) -> Option<isize> {
        let [run] = self.runs else { return None };
        let has_all = run.of == Of::All && run.first <= words.start && words.end <= run.first + run.length;
        has_all.then(|| run.offset + (words.start - run.first).cast_signed() * self.word)
    }

    /// The least magnitude of their elements, if these are bf16s and words follow each other in memory.
    pub(super) unsafe fn magnitude<W: Words>(&self) -> Magnitude {
        if !W::DROPS_SUBNORMALS || self.word != 4 {
            return Magnitude::NONE;
        }
        let of_run = |run: &WordRun| {
            let starts = match run.of {
                Of::All => self.starts,
                Of::First(count) => &self.starts[..count],
                Of::From(first) => &self.starts[first..],
            };
            // SAFETY: the caller's promise.
            unsafe { W::magnitude(starts, run.offset, run.length * W::ELEMENTS) }
        };
        self.runs.iter().map(of_run).min().unwrap_or(Magnitude::NONE)
    }
}

/// Panels of B, of this many words each.
#[derive(Clone, Copy, Debug)]
pub(in crate::gemm::cpu) struct Panels<'a> {
    pub(in crate::gemm::cpu) words: &'a [i32],
    pub(in crate::gemm::cpu) deep: usize,
}
