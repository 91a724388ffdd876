//! Products of a tile's rows with panels of codes: rows in runs of 8, 4, 2 and 1, whose sums registers hold.

use super::lanes::{Lanes, OnLanes};
use super::level::{Level, at};
use super::view::{Panel, WeightView, pieces, runs, write};
use crate::gemm::cpu::tile::Tile;
use crate::gemm::problem::weight_values::PANEL;

/// Sums of the most rows of a run.
pub(super) type Sums = [[f32; PANEL]; 8];

/// Rows of A in a form that is multiplied by codes.
pub(super) trait PanelRows {
    /// The rows from one on.
    type From: Copy;

    fn from(&self, row: usize) -> Self::From;

    /// The products of a panel and `ROWS` rows, with codes of `BITS` bits.
    ///
    /// # Safety
    /// The CPU must have the instructions; there must be as many rows, each with a number for every code. The weights'
    /// memory must live, and no thread may write it. It must be `#[inline(always)]`.
    unsafe fn sum<L: Lanes, const BITS: usize, const ROWS: usize>(
        weights: &WeightView,
        panel: &Panel,
        from: Self::From,
        to: &mut Sums,
    );
}

impl WeightView {
    /// A tile of rows.
    ///
    /// # Safety
    /// The CPU must have the level; the weights' memory must live, and no thread may write it.
    pub(super) unsafe fn multiply<R: PanelRows>(&self, level: Level, tile: &Tile, rows: &R, to: &mut [f32]) {
        // SAFETY: the caller's promise.
        unsafe { at(level, RowProducts { weights: self, tile, rows, to }) }
    }
}

struct RowProducts<'a, R> {
    weights: &'a WeightView,
    tile: &'a Tile,
    rows: &'a R,
    to: &'a mut [f32],
}

impl<R: PanelRows> OnLanes for RowProducts<'_, R> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.weights.quantization.codes.bits() {
                4 => self.all::<L, 4>(),
                _ => self.all::<L, 8>(),
            }
        }
    }
}

impl<R: PanelRows> RowProducts<'_, R> {
    #[inline(always)]
    unsafe fn all<L: Lanes, const BITS: usize>(self) {
        let Self { weights, tile, rows, to } = self;
        let mut sums = [[0.0; PANEL]; 8];
        // The rows of a run stay in the nearest cache, and the tile's codes in the next.
        for run in runs(tile.rows.len(), L::ROWS) {
            let (first, count) = (run.start, run.len());
            let from = rows.from(first);
            for (number, in_panel, column) in pieces(&tile.columns) {
                let panel = weights.panel(tile.batch, number);
                // SAFETY: the caller's promise; there are as many rows.
                unsafe {
                    match count {
                        8 => R::sum::<L, BITS, 8>(weights, &panel, from, &mut sums),
                        4 => R::sum::<L, BITS, 4>(weights, &panel, from, &mut sums),
                        2 => R::sum::<L, BITS, 2>(weights, &panel, from, &mut sums),
                        _ => R::sum::<L, BITS, 1>(weights, &panel, from, &mut sums),
                    }
                }
                write(&sums[..count], first, (&in_panel, column), tile.columns.len(), to);
            }
        }
    }
}
