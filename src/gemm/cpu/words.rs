//! The product of a tile by [words](super::kernel::words): of f32s, bf16s or 8-bit integers, on CPUs with instructions for
//! them.

use std::ops::Range;

use smallvec::SmallVec;

use super::kernel::words::{
    Bf16, F16, F32, FEW, Magnitude, Panels, Rows, SignedByUnsigned, Source, UnsignedBySigned, Words, block, dots, few,
    magnitude, multiplies_bf16, multiplies_f32, multiplies_integers, pack, panel_words,
};
use super::patches::{by_patches, sum_of_patch};
use super::product::{Packed, Product, WordPanels};
use super::tile::Tile;
use crate::ElementType;

/// Elements along K of a panel: those of a tile's rows and columns stay in a core's second-level cache.
pub(super) const DEEP: usize = 512;
/// Words of B's that a thread keeps for its next tile.
const KEPT: usize = 1 << 20;
/// Rows of a panel of A's.
const HIGH: usize = 64;
/// From this many rows on, panels of f32s are faster than the `gemm` crate, by measurement (Zen 5): a product of 640×384×1536
/// with a B that is contiguous along K takes one thread 3.1 ms in place of 4.5, one of 512×512×512 1.11 in place of 1.23,
/// and one of 32×3072×768 would take 0.93 in place of 0.81.
const MANY: usize = 96;
/// The most elements of a B that is not contiguous along K, where rows are fewer than these: with larger ones, the `gemm` crate
/// is as fast.
const NEAR: usize = 1 << 20;
const HIGHER: usize = 256;
/// The most rows, or columns, for which dot products are faster than panels.
const FEW_DOTS: usize = 12;
/// The same of a whole product of bf16s, or of a batch's or group's rows of f32s: it packs no columns for so few rows.
const FEW_WHOLE: usize = 48;
/// Elements along K of f32s that are multiplied with more than [`FEW_DOTS`] rows at a time: six columns of them stay in the
/// first-level cache.
const DEEP_DOTS: usize = 1024;
/// Elements along K whose products 32 bits hold: 2^31 / (255 · 128), of which this is a half.
const EXACT: usize = 1 << 15;

impl Product<'_> {
    /// Multiplies f32s over a range of K, in panels. `false` if this CPU has no instructions for it, or if another way is
    /// faster; then `to` is unspecified.
    ///
    /// # Safety
    /// The conditions of [`Product::tile`].
    pub(super) unsafe fn f32_by_words(
        &self,
        tile: &Tile,
        depth: Range<usize>,
        memory: &mut WordPanels,
        to: &mut [f32],
    ) -> bool {
        if (self.a.element, self.b.element) != (ElementType::F32, ElementType::F32) || !multiplies_f32() {
            return false;
        }
        let (a, b) = self.sources(tile, depth.start);
        let (m, n) = (tile.rows.len(), tile.columns.len());
        // (One row only waits for memory, in either way.)
        let are_few = m > 1 && (m <= FEW_DOTS || (tile.is_top && m <= FEW_WHOLE));
        if a.along == 4 && b.along == 4 && are_few {
            to.fill(0.0);
            let deep = if m <= FEW_DOTS { depth.len().max(1) } else { DEEP_DOTS };
            for first in depth.clone().step_by(deep) {
                let (a, b) = self.sources(tile, first);
                // SAFETY: the CPU multiplies words of f32s; the caller's promise.
                unsafe { dots::<F32>([m, n, deep.min(depth.end - first)], (a, b), false, to, n) };
            }
            return true;
        }
        // Else packing B takes more time than multiplying it with few rows saves.
        let is_alone = tile.is_top && tile.rows.len() < HIGH;
        let is_short = tile.rows.len() <= FEW_DOTS && self.patches.is_none();
        if is_alone || self.extents.m < MANY || is_short {
            return false;
        }
        let along_k = self.b.strides[1] == 1;
        if !along_k && self.extents.m < HIGHER && self.extents.n.saturating_mul(self.extents.k) > NEAR {
            return false;
        }
        // SAFETY: the CPU multiplies words of f32s; the caller's promise.
        unsafe { self.all_panels::<F32>(tile, depth, false, memory, to) }
    }

    /// Multiplies bf16s over a range of K. `false` if this CPU has no instructions for it, or if a subnormal number may
    /// be in it or come of it; then `to` is unspecified.
    ///
    /// # Safety
    /// The conditions of [`Product::tile`].
    pub(super) unsafe fn bf16_by_words(
        &self,
        tile: &Tile,
        depth: Range<usize>,
        memory: &mut WordPanels,
        to: &mut [f32],
    ) -> bool {
        if (self.a.element, self.b.element) != (ElementType::BF16, ElementType::BF16) || !multiplies_bf16() {
            return false;
        }
        let (m, n) = (tile.rows.len(), tile.columns.len());
        let (a, b) = self.sources(tile, depth.start);
        // SAFETY: the CPU multiplies words of bf16s; the caller's promise.
        unsafe {
            let are_few = m.min(n) <= FEW_DOTS || self.extents.m <= FEW_WHOLE;
            if a.along == 2 && (are_few && b.along == 2 || m <= FEW && b.across == 2) {
                to.fill(0.0);
                let of_a = magnitude(&rows(a, m), &[depth.len()]);
                let extents = [m, n, depth.len()];
                let of_b = if b.along == 2 {
                    dots::<Bf16>(extents, (a, b), false, to, n)
                } else {
                    few(extents, (a, b), to, n)
                };
                return of_a.has_normal_products(of_b);
            }
            self.all_panels::<Bf16>(tile, depth, false, memory, to)
        }
    }

    /// Multiplies few rows, or few columns, of f16s over a range of K where these are contiguous along it. `false` otherwise, and
    /// if this CPU has no instructions for it; then `to` is unspecified.
    ///
    /// # Safety
    /// The conditions of [`Product::tile`].
    pub(super) unsafe fn f16_by_words(&self, tile: &Tile, depth: Range<usize>, to: &mut [f32]) -> bool {
        let (m, n) = (tile.rows.len(), tile.columns.len());
        let (a, b) = self.sources(tile, depth.start);
        let are_f16s = (self.a.element, self.b.element) == (ElementType::F16, ElementType::F16);
        if !are_f16s || a.along != 2 || b.along != 2 || m.min(n) > FEW_DOTS || !multiplies_f32() {
            return false;
        }
        to.fill(0.0);
        // SAFETY: the CPU multiplies words of f32s, which it makes of these; the caller's promise.
        unsafe { dots::<F16>([m, n, depth.len()], (a, b), false, to, n) };
        true
    }

    /// Adds products of 8-bit integers, over a range of K, to the exact sums `to`. `false` if this CPU has no
    /// instructions for it; then nothing has been added.
    ///
    /// # Safety
    /// The conditions of [`Product::tile`].
    pub(super) unsafe fn integers_by_words(
        &self,
        tile: &Tile,
        depth: Range<usize>,
        memory: &mut WordPanels,
        to: &mut [f64],
    ) -> bool {
        use ElementType::{I8, U8};
        if !multiplies_integers() {
            return false;
        }
        for first in depth.clone().step_by(EXACT) {
            let depth = first..depth.end.min(first + EXACT);
            // The instruction multiplies a signed by an unsigned integer; B's are made what A's are not.
            // SAFETY: the CPU multiplies such words; the caller's promise.
            unsafe {
                match (self.a.element, self.b.element) {
                    (I8, b) => self.exact_by_words::<SignedByUnsigned>(tile, depth, b == I8, -128, memory, to),
                    (_, b) => self.exact_by_words::<UnsignedBySigned>(tile, depth, b == U8, 128, memory, to),
                }
            }
        }
        true
    }

    /// Adds products of integers that 32 bits hold. Where B's are `flipped`, each of them is off by 128: A's sums times
    /// `correction` are added.
    unsafe fn exact_by_words<W: Words<Sum = i32>>(
        &self,
        tile: &Tile,
        depth: Range<usize>,
        flipped: bool,
        correction: i64,
        memory: &mut WordPanels,
        to: &mut [f64],
    ) {
        let (m, n) = (tile.rows.len(), tile.columns.len());
        let (a, b) = self.sources(tile, depth.start);
        let mut sums = std::mem::take(&mut memory.sums);
        sums.resize(to.len(), 0);
        // SAFETY: the caller's promise.
        unsafe {
            if a.along == 1 && b.along == 1 && m.min(n) <= FEW_DOTS {
                sums.fill(0);
                dots::<W>([m, n, depth.len()], (a, b), flipped, &mut sums, n);
            } else {
                self.all_panels::<W>(tile, depth.clone(), flipped, memory, &mut sums);
            }
            for (i, (to, sums)) in to.chunks_exact_mut(n.max(1)).zip(sums.chunks_exact(n.max(1))).enumerate() {
                let off = if flipped { correction * self.sum_of_row(tile, i, depth.clone()) } else { 0 };
                to.iter_mut().zip(sums).for_each(|(to, &sum)| *to += (i64::from(sum) + off) as f64);
            }
        }
        memory.sums = sums;
    }

    /// The sum of integers of a row of A's.
    unsafe fn sum_of_row(&self, tile: &Tile, row: usize, depth: Range<usize>) -> i64 {
        if let Some(patches) = self.patches {
            // SAFETY: the caller's promise.
            return unsafe { sum_of_patch(patches, &self.images(tile), tile.rows.start + row, depth) };
        }
        let [_, down, along] = self.a.strides;
        let from = self.a_from(tile, depth.start).wrapping_offset(row as isize * down);
        let signed = self.a.element == ElementType::I8;
        let byte = |k: usize| {
            // SAFETY: the caller's promise.
            let byte = unsafe { from.wrapping_offset(k as isize * along).read() };
            if signed { i32::from(byte as i8) } else { i32::from(byte) }
        };
        // At most 2^15 of them.
        i64::from((0..depth.len()).map(byte).sum::<i32>())
    }

    /// Multiplies over a range of K, one part after another. `false` if a subnormal number may be in it or come of it; then `to`
    /// is unspecified.
    unsafe fn all_panels<W: Words>(
        &self,
        tile: &Tile,
        depth: Range<usize>,
        flipped: bool,
        memory: &mut WordPanels,
        to: &mut [W::Sum],
    ) -> bool {
        if depth.is_empty() {
            to.fill(bytemuck::Zeroable::zeroed());
        }
        depth.clone().step_by(DEEP).all(|first| {
            let part = first..depth.end.min(first + DEEP);
            // SAFETY: the caller's promise.
            unsafe { self.panels_of_words::<W>(tile, part, flipped, memory, (to, first > depth.start)) }
        })
    }

    /// The products of at most [`DEEP`] elements along K; where `adds`, added. `false` if a subnormal number may be in them or
    /// come of them; then `to` is unspecified.
    unsafe fn panels_of_words<W: Words>(
        &self,
        tile: &Tile,
        depth: Range<usize>,
        flipped: bool,
        memory: &mut WordPanels,
        (to, adds): (&mut [W::Sum], bool),
    ) -> bool {
        let (m, n, k) = (tile.rows.len(), tile.columns.len(), depth.len());
        let (a, _) = self.sources(tile, depth.start);
        let (whole, words) = (k / W::ELEMENTS, k.div_ceil(W::ELEMENTS));
        let bytes = 4 / W::ELEMENTS;
        let is_in_place = a.along == bytes as isize;
        let (all, all_rows) = (depth.clone(), tile.rows.clone());
        let kept = self.whole_panels.and_then(|panels| panels.of::<W>(tile, &depth, flipped));
        let (of_b, least) = match kept {
            Some(kept) => kept,
            None => {
                // SAFETY: the caller's promise.
                let (at, least) = unsafe { self.packed::<W>(tile, depth, flipped, memory) };
                (&memory.b[at..], least)
            }
        };
        let (of_a, last) = (&mut memory.a, &mut memory.last);
        if let Some(patches) = self.patches {
            let images = self.images(tile);
            // SAFETY: the caller's promise.
            return unsafe { by_patches::<W>(patches, &images, (all_rows, all), (of_b, least), of_a, (to, n, adds)) };
        }
        // SAFETY: the caller's promise.
        unsafe {
            let in_place = rows(a, m);
            let least_of_a = if !is_in_place {
                of_a.resize(of_a.len().max(panel_words(m, words)), 0);
                pack::<W>(a, k, m, false, of_a)
            } else if W::DROPS_SUBNORMALS {
                magnitude(&in_place, &[k])
            } else {
                least
            };
            if W::DROPS_SUBNORMALS && !least_of_a.has_normal_products(least) {
                return false;
            }
            let b = Panels { words: of_b, deep: words };
            if is_in_place {
                if whole > 0 {
                    let rows = Rows { starts: &in_place, lengths: &[whole], word: 4 };
                    block::<W>([m, n], 0, rows, b, (to, n, adds));
                }
                if whole < words {
                    last.clear();
                    last.extend((0..m).map(|i| last_word(a, i, whole * W::ELEMENTS..k, bytes)));
                    let starts = rows(Source { pointer: last.as_ptr().cast(), along: 0, across: 4 }, m);
                    let rows = Rows { starts: &starts, lengths: &[1], word: 0 };
                    block::<W>([m, n], whole, rows, b, (to, n, adds || whole > 0));
                }
                return true;
            }
            for first in (0..m).step_by(HIGH) {
                let high = HIGH.min(m - first);
                let panel = &of_a[panel_words(first, words)..][..panel_words(high, words)];
                let starts = rows(Source { pointer: panel.as_ptr().cast(), along: 0, across: 4 }, high);
                let rows = Rows { starts: &starts, lengths: &[words], word: (panel_words(high, 1) * 4) as isize };
                block::<W>([high, n], 0, rows, b, (&mut to[first * n..], n, adds));
            }
        }
        true
    }

    /// Panels of the tile's columns of B, and the least magnitude in them: where they begin in the memory for them. Those
    /// that are there from the tile before are not packed again.
    ///
    /// # Safety
    /// The conditions of [`Product::tile`].
    unsafe fn packed<W: Words>(
        &self,
        tile: &Tile,
        depth: Range<usize>,
        flipped: bool,
        memory: &mut WordPanels,
    ) -> (usize, Magnitude) {
        let (n, k) = (tile.columns.len(), depth.len());
        let (_, b) = self.sources(tile, depth.start);
        // Those of all parts of K lie one after another, if there is room.
        let size = panel_words(n, DEEP.div_ceil(W::ELEMENTS));
        let part = (depth.start - self.depth(tile).start) / DEEP;
        let place = part % (KEPT / size.max(1)).max(1);
        let of = Packed { address: b.pointer.addr(), strides: [b.along, b.across], extents: [k, n], flipped };
        if memory.columns != n {
            memory.packed.clear();
            memory.columns = n;
        }
        memory.packed.resize(memory.packed.len().max(place + 1), None);
        let least = match memory.packed[place] {
            Some((known, least)) if known == of => least,
            _ => {
                memory.b.resize(memory.b.len().max((place + 1) * size), 0);
                // SAFETY: the caller's promise.
                let least = unsafe { pack::<W>(b, k, n, flipped, &mut memory.b[place * size..]) };
                memory.packed[place] = Some((of, least));
                least
            }
        };
        (place * size, least)
    }

    /// The tile's rows of A and columns of B, from index `k` on.
    fn sources(&self, tile: &Tile, k: usize) -> (Source, Source) {
        let source = |pointer: *const u8, along: isize, across: isize, element: ElementType| {
            let size = element.size() as isize;
            Source { pointer, along: along * size, across: across * size }
        };
        let ([_, a_down, a_along], [_, b_along, b_across]) = (self.a.strides, self.b.strides);
        (
            source(self.a_from(tile, k), a_along, a_down, self.a.element),
            source(self.b_from(tile, k, 0), b_along, b_across, self.b.element),
        )
    }
}

/// Where rows begin.
fn rows(of: Source, count: usize) -> SmallVec<[*const u8; HIGH]> {
    (0..count).map(|row| of.at(0, row)).collect()
}

/// A row's last word, with 0 for what there isn't.
unsafe fn last_word(a: Source, row: usize, depth: Range<usize>, bytes: usize) -> i32 {
    let mut word = [0; 4];
    for (k, to) in depth.zip(word.chunks_exact_mut(bytes)) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(a.at(k, row), to.as_mut_ptr(), bytes) };
    }
    i32::from_le_bytes(word)
}
