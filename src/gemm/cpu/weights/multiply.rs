//! The product of a tile with quantised weights: by the number of rows, and by how A is multiplied.

use std::ops::Range;

use super::level::Level;
use super::memory::WeightMemory;
use super::rows::FloatRows;
use super::view::{Activations, WeightView};
use crate::gemm::cpu::product::{PanelPair, Product, WordPanels};
use crate::gemm::cpu::tile::Tile;

/// The most rows for which codes become numbers in registers.
const FEW: usize = 48;

/// No element of few rows is as large: a group of as many codes as memory could hold then has a finite sum.
const LARGE: f32 = (1u128 << 80) as f32;

impl Product<'_> {
    /// Multiplies over all of K.
    ///
    /// # Safety
    /// The conditions of [`Product::tile`]; the weights' tensors must live, and no thread may write them meanwhile.
    pub(in crate::gemm::cpu) unsafe fn by_weights(
        &self,
        weights: &WeightView,
        tile: &Tile,
        (memory, words, panels): (&mut WeightMemory, &mut WordPanels, &mut PanelPair<f32>),
        to: &mut [f32],
    ) {
        if to.is_empty() {
            return;
        }
        let WeightMemory { floats, integers, unpacked } = memory;
        let (level, rows) = (Level::of_this_thread(), tile.rows.len());
        // SAFETY: the caller's promise.
        unsafe {
            match weights.activations {
                Activations::Exact => {
                    if rows <= FEW && weights.are_finite {
                        self.load_rows(tile, 0..self.extents.k, floats);
                        if floats.are_all_below(LARGE) {
                            return weights.multiply(level, tile, floats, to);
                        }
                    }
                    self.by_unpacked(weights, level, tile, (unpacked, floats, words, panels), to);
                }
                Activations::Int8 => {
                    self.load_rows(tile, 0..self.extents.k, floats);
                    integers.quantise(floats, rows, weights.step());
                    weights.multiply(level, tile, integers, to);
                }
            }
        }
    }

    /// The tile's rows of A as f32s, for a range of K; elements after it that fill up a block are 0.
    pub(super) unsafe fn load_rows(&self, tile: &Tile, depth: Range<usize>, to: &mut FloatRows) {
        let [_, down, along] = self.a.strides;
        let size = self.a.element.size() as isize;
        let first = self.a_from(tile, depth.start);
        // SAFETY: the caller's promise.
        unsafe { to.load((first, self.a.element), [down * size, along], [tile.rows.len(), depth.len()]) }
    }
}
