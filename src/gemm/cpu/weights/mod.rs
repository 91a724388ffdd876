//! The product of a tile with quantised weights.
//!
//! Codes lie in panels of 16 columns, in words that a vector holds for all columns
//! ([`weight_values`](crate::gemm::problem::weight_values)). For few rows, codes become numbers in registers, once for
//! eight rows: a group is summed, and its sum is multiplied by the scale ([`floats`]). For many rows, a part of K is
//! unpacked into a matrix of floats once for the tile, and multiplied like any B ([`unpack`]). If A is quantised, too,
//! any number of rows is multiplied as integers, step by step of K ([`integers`]). [`lanes`] are the instructions.
//!
//! A group's sum can't overflow if A's elements are below [`LARGE`], and a finite scale gives the same infinities and NaNs
//! as weights would. Otherwise weights are unpacked, however few the rows are.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod floats;
mod integers;
mod lanes;
mod pack;
mod rows;
#[cfg(test)]
mod tests;
mod unpack;

use std::ops::Range;

use self::lanes::Level;
pub(crate) use self::pack::pack_weights;
use self::rows::{FloatRows, IntegerRows};
use super::product::{PanelPair, Product, WordPanels};
use super::tile::Tile;
use crate::gemm::problem::quantization::{Quantization, ZeroPoints};
use crate::gemm::problem::weight_panels::WeightPanels;
use crate::gemm::problem::weight_values::{PANEL, WORDS, WeightExtents, codes_of_word, words_of};

/// The most rows for which codes become numbers in registers.
const FEW: usize = 16;

/// No element of few rows is as large: a group of as many codes as memory could hold then has a finite sum.
const LARGE: f32 = (1u128 << 80) as f32;

/// How A is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activations {
    /// By its values.
    Exact,
    /// Rounded to 8 bits, with a scale for each block.
    Int8,
}

/// The memory of weights in panels.
///
/// Whoever creates it promises that the tensors live, and are locked for reading.
#[derive(Clone, Copy, Debug)]
pub(in crate::gemm::cpu) struct WeightView {
    quantization: Quantization,
    extents: WeightExtents,
    activations: Activations,
    codes: *const u8,
    scales: *const u8,
    zero_points: Option<*const u8>,
    are_finite: bool,
}

// SAFETY: nothing writes the memory while there is a view of it.
unsafe impl Send for WeightView {}
// SAFETY: as above.
unsafe impl Sync for WeightView {}

/// A panel: where its codes, scales and zero points begin.
#[derive(Clone, Copy, Debug)]
struct Panel {
    codes: *const u8,
    scales: *const u8,
    zero_points: Option<*const u8>,
}

/// What a thread keeps for tiles with quantised weights.
#[derive(Debug, Default)]
pub(in crate::gemm::cpu) struct WeightMemory {
    floats: FloatRows,
    integers: IntegerRows,
    unpacked: unpack::Unpacked,
}

/// A thread's memory for a tile.
pub(in crate::gemm::cpu) struct WeightsTileMemory<'a> {
    pub(in crate::gemm::cpu) of_weights: &'a mut WeightMemory,
    pub(in crate::gemm::cpu) words: &'a mut WordPanels,
    pub(in crate::gemm::cpu) panels: &'a mut PanelPair<f32>,
}

impl WeightView {
    pub(in crate::gemm::cpu) fn of(weights: &WeightPanels, activations: Activations) -> Self {
        let WeightPanels { quantization, extents, ref codes, ref scales, ref zero_points, are_finite } = *weights;
        let pointer = |address: u64| address as *const u8;
        Self {
            quantization,
            extents,
            activations,
            codes: pointer(codes.device_address()),
            scales: pointer(scales.device_address()),
            zero_points: zero_points.as_ref().map(|tensor| pointer(tensor.device_address())),
            are_finite,
        }
    }

    /// A panel of a batch's matrix.
    fn panel(&self, batch: usize, number: usize) -> Panel {
        let matrix = if self.extents.batch.is_some_and(|count| count > 1) { batch } else { 0 };
        let (panel, groups) = (matrix * self.extents.panels() + number, self.quantization.groups_of(self.extents.k));
        let of_groups = panel * groups * PANEL;
        Panel {
            codes: self.codes.wrapping_add(panel * self.words() * WORDS),
            scales: self.scales.wrapping_add(of_groups * self.quantization.scales.size()),
            zero_points: self.zero_points.map(|pointer| pointer.wrapping_add(of_groups)),
        }
    }

    /// Words along K.
    const fn words(&self) -> usize {
        words_of(self.quantization.codes, self.extents.k)
    }

    /// Words of a group.
    fn words_of_group(&self) -> usize {
        let codes = codes_of_word(self.quantization.codes);
        self.quantization.group_of(self.extents.k).div_ceil(codes)
    }

    /// The zero point of all codes, if they have one.
    const fn zero_point(&self) -> f32 {
        match self.quantization.zero_points {
            ZeroPoints::One(zero) => zero as f32,
            ZeroPoints::None | ZeroPoints::Each => self.quantization.codes.sign() as f32,
        }
    }
}

impl Product<'_> {
    /// Multiplies over all of K.
    ///
    /// # Safety
    /// The conditions of [`Product::tile`]; the weights' tensors must live, and no thread may write them meanwhile.
    pub(in crate::gemm::cpu) unsafe fn by_weights(
        &self,
        weights: &WeightView,
        tile: &Tile,
        memory: WeightsTileMemory<'_>,
        to: &mut [f32],
    ) {
        if to.is_empty() {
            return;
        }
        let WeightsTileMemory { of_weights: WeightMemory { floats, integers, unpacked }, words, panels } = memory;
        let (level, rows) = (Level::of_this_cpu(), tile.rows.len());
        // SAFETY: the caller's promise.
        unsafe {
            match weights.activations {
                Activations::Exact => {
                    if rows <= FEW && weights.are_finite {
                        self.load_rows(tile, 0..self.extents.k, floats);
                        if floats.are_all_below(LARGE) {
                            return weights.floats(level, tile, floats, to);
                        }
                    }
                    self.by_unpacked(weights, level, tile, (unpacked, floats, words, panels), to);
                }
                Activations::Int8 => {
                    self.load_rows(tile, 0..self.extents.k, floats);
                    integers.quantise(floats, rows, weights.step());
                    weights.integers(level, tile, integers, to);
                }
            }
        }
    }

    /// The tile's rows of A as f32s, for a range of K; elements after it that fill up a block are 0.
    unsafe fn load_rows(&self, tile: &Tile, depth: Range<usize>, to: &mut FloatRows) {
        let [_, down, along] = self.a.strides;
        let size = self.a.element.size() as isize;
        let first = self.a_from(tile, depth.start);
        // SAFETY: the caller's promise.
        unsafe { to.load((first, self.a.element), [down * size, along], [tile.rows.len(), depth.len()]) }
    }
}

/// The columns of a tile in each panel that has some: its number, the columns in it, and where they are in the tile.
fn pieces(columns: &Range<usize>) -> impl Iterator<Item = (usize, Range<usize>, usize)> + use<> {
    let Range { start, end } = *columns;
    (start / PANEL..end.div_ceil(PANEL)).map(move |panel| {
        let first = panel * PANEL;
        let in_panel = start.max(first) - first..end.min(first + PANEL) - first;
        (panel, in_panel.clone(), first + in_panel.start - start)
    })
}

/// Writes the columns that a tile has of a panel's sums, of some rows from one on.
fn write(
    sums: &[[f32; PANEL]],
    first: usize,
    (in_panel, at): (&Range<usize>, usize),
    width: usize,
    to: &mut [f32],
) {
    for (i, sums) in sums.iter().enumerate() {
        let start = (first + i) * width + at;
        to[start..start + in_panel.len()].copy_from_slice(&sums[in_panel.clone()]);
    }
}

/// Cuts rows into runs of 8, 4, 2 and 1.
fn runs(rows: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let mut first = 0;
    std::iter::from_fn(move || {
        let left = rows - first;
        let run = [8, 4, 2, 1].into_iter().find(|run| *run <= left.min(most))?;
        first += run;
        Some(first - run..first)
    })
}
