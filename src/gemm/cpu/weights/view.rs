//! Weights in panels as kernels read them, and how tiles are cut by panels.

use std::ops::Range;

use crate::gemm::problem::quantization::{Quantization, ZeroPoints};
use crate::gemm::problem::weight_panels::WeightPanels;
use crate::gemm::problem::weight_values::{PANEL, WORDS, WeightExtents, codes_of_word, words_of};

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
    pub(super) quantization: Quantization,
    pub(super) extents: WeightExtents,
    pub(super) activations: Activations,
    codes: *const u8,
    scales: *const u8,
    zero_points: Option<*const u8>,
    pub(super) are_finite: bool,
}

// SAFETY: nothing writes the memory while there is a view of it.
unsafe impl Send for WeightView {}
// SAFETY: as above.
unsafe impl Sync for WeightView {}

/// A panel: where its codes, scales and zero points begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Panel {
    pub(super) codes: *const u8,
    pub(super) scales: *const u8,
    pub(super) zero_points: Option<*const u8>,
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
    pub(super) fn panel(&self, batch: usize, number: usize) -> Panel {
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
    pub(super) const fn words(&self) -> usize {
        words_of(self.quantization.codes, self.extents.k)
    }

    /// Words of a group.
    pub(super) fn words_of_group(&self) -> usize {
        let codes = codes_of_word(self.quantization.codes);
        self.quantization.group_of(self.extents.k).div_ceil(codes)
    }

    /// The zero point of all codes, if they have one.
    pub(super) const fn zero_point(&self) -> f32 {
        match self.quantization.zero_points {
            ZeroPoints::One(zero) => zero as f32,
            ZeroPoints::None | ZeroPoints::Each => self.quantization.codes.sign() as f32,
        }
    }
}

/// The columns of a tile in each panel that has some: its number, the columns in it, and where they are in the tile.
pub(super) fn pieces(columns: &Range<usize>) -> impl Iterator<Item = (usize, Range<usize>, usize)> + use<> {
    let Range { start, end } = *columns;
    (start / PANEL..end.div_ceil(PANEL)).map(move |panel| {
        let first = panel * PANEL;
        let in_panel = start.max(first) - first..end.min(first + PANEL) - first;
        (panel, in_panel.clone(), first + in_panel.start - start)
    })
}

/// Writes the columns that a tile has of a panel's sums, of some rows from one on.
pub(super) fn write(
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
pub(super) fn runs(rows: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let mut first = 0;
    std::iter::from_fn(move || {
        let left = rows - first;
        let run = [8, 4, 2, 1].into_iter().find(|run| *run <= left.min(most))?;
        first += run;
        Some(first - run..first)
    })
}
