//! Panels of words: contiguous in memory in the order in which the multiplication reads them.
//!
//! ```text
//!             panel 0: 64 columns          panel 1: 64 columns, or as many vectors as there are columns left for
//! word 0    | 16 | 16 | 16 | 16 |        | 16 | 16 |          each number: a word of this many columns
//! word 1    | 16 | 16 | 16 | 16 |        | 16 | 16 |
//! …
//! ```
//!
//! (Panels for AMX have two vectors, for AVX2 and NEON one.) Panel 1 follows panel 0 as a whole.
//! Missing numbers, in the last word of K and the last vector of columns, are 0.

use super::{LANES, Words};

/// Vectors of a panel that is not the last, by AVX-512, and of one for tiles.
pub(super) const VECTORS: usize = 4;
pub(super) const VECTORS_OF_TILES: usize = 2;

/// Columns of a whole panel; only the last panel may have fewer.
pub(in crate::gemm::cpu) const PANEL: usize = VECTORS * LANES;

/// Columns (of A: rows) of a panel that is not the last.
pub(in crate::gemm::cpu) fn panel_columns<W: Words>() -> usize {
    LANES * if W::tiles().is_some() { VECTORS_OF_TILES } else { W::VECTORS }
}

/// A matrix of elements that words are made of, at an address; its strides are bytes.
#[derive(Clone, Copy, Debug)]
pub(in crate::gemm::cpu) struct PackedFrom {
    pub(in crate::gemm::cpu) pointer: *const u8,
    /// From one element along K to the next.
    pub(in crate::gemm::cpu) along: isize,
    /// From one column (of A: one row) to the next.
    pub(in crate::gemm::cpu) across: isize,
}

impl PackedFrom {
    pub(in crate::gemm::cpu) fn at(self, k: usize, column: usize) -> *const u8 {
        let offset = (k as isize).wrapping_mul(self.along).wrapping_add((column as isize).wrapping_mul(self.across));
        self.pointer.wrapping_offset(offset)
    }
}

/// The least magnitude of bf16s that are not 0, as their bits without the sign; all bits if there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::gemm::cpu) struct Magnitude(pub(super) u16);

impl Magnitude {
    /// No numbers but 0.
    pub(in crate::gemm::cpu) const NONE: Self = Self(u16::MAX);

    /// As [`pack`] gave it.
    pub(in crate::gemm::cpu) const fn of_bits(bits: u16) -> Self {
        Self(bits)
    }

    pub(in crate::gemm::cpu) const fn bits(self) -> u16 {
        self.0
    }

    /// Whether all products with numbers of the other least magnitude, and all sums of them, are free of subnormal
    /// numbers. (The module says why.)
    pub(in crate::gemm::cpu) fn has_normal_products(self, other: Self) -> bool {
        // With a bias of 127 each; 14 bits follow the first one of a product of two significands.
        const LEAST: u16 = 2 * 127 - 126 + 14;
        let exponent = |x: Self| x.0 >> 7;
        exponent(self) > 0 && exponent(other) > 0 && exponent(self) + exponent(other) >= LEAST
    }
}

/// Facts about the elements of panels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gemm::cpu) struct Contents {
    /// If they are bf16s.
    pub(in crate::gemm::cpu) least: Magnitude,
    /// Whether none of them is infinite or NaN, so that products with 0 are 0.
    pub(in crate::gemm::cpu) are_finite: bool,
}

impl Contents {
    /// The facts that hold for both.
    pub(in crate::gemm::cpu) fn and(self, other: Self) -> Self {
        Self { least: self.least.min(other.least), are_finite: self.are_finite && other.are_finite }
    }
}

/// The words of all panels of this many columns (of A: rows), of this many words each.
pub(in crate::gemm::cpu) fn panel_words(columns: usize, words: usize) -> usize {
    columns.next_multiple_of(LANES) * words
}

/// Writes panels of the `depth`×`columns` elements of a source; gives facts about the elements. With `flipped`, the
/// first bit of every element is changed: signed integers become unsigned ones, greater by 128, and the other way
/// round. (Padding at the end of K is then 128. It counts for nothing, because A has 0 there.)
///
/// # Safety
/// The elements must be readable, and nobody writes them meanwhile; the CPU must multiply words of this type.
pub(in crate::gemm::cpu) unsafe fn pack<W: Words>(
    from: PackedFrom,
    depth: usize,
    columns: usize,
    flipped: bool,
    to: &mut [i32],
) -> Contents {
    let words = depth.div_ceil(W::ELEMENTS);
    let to = &mut to[..panel_words(columns, words)];
    // SAFETY: the caller's promise.
    unsafe { W::pack(from, [depth, columns], flipped, to) }
}
