//! The product of one tile of FP8 operands with block scales. Block by block of K, the block's sum is multiplied by its
//! scales and added to the sum so far.

use std::ops::Range;

use super::element::{Arithmetic, View};
use super::product::{BlockScales, PANEL, Panels, Product};
use super::tile::Tile;
use crate::exhaustion::resize;
use crate::gemm::problem::scaled::SCALE_BLOCK;
use crate::simd::{Vectorised, dispatch};

impl Product<'_> {
    /// Multiplies over all of K.
    ///
    /// # Safety
    /// The conditions of [`Product::tile`], and the views of scales must reach those of the tile's rows and columns.
    pub(super) unsafe fn by_blocks<T: Arithmetic>(
        &self,
        scales: &BlockScales,
        tile: &Tile,
        panels: &mut Panels,
        to: &mut [T],
    ) {
        let Panels { narrow, narrow_tile: sums, block, .. } = panels;
        sums.clear();
        resize(sums, to.len(), 0.0);
        resize(block, to.len(), 0.0);
        let depth = self.depth(tile);
        for (number, first) in depth.clone().step_by(SCALE_BLOCK).enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                self.multiply(tile, first..depth.end.min(first + SCALE_BLOCK), narrow, block, PANEL);
                add(scales, tile, number, block, sums);
            }
        }
        to.iter_mut().zip(sums).for_each(|(to, sum)| *to = T::from_f64(f64::from(*sum)));
    }
}

/// Adds the sums of a block of K, times their scales.
///
/// # Safety
/// The views must reach the scales of this block of the tile's rows and columns: f32s that no thread writes meanwhile.
unsafe fn add(scales: &BlockScales, tile: &Tile, number: usize, block: &[f32], sums: &mut [f32]) {
    let width = tile.columns.len();
    // SAFETY: the caller's promise.
    let scale = |view: &View, row, column| unsafe { view.at(tile.batch, row, column).cast::<f32>().read_unaligned() };
    for (i, row) in tile.rows.clone().enumerate() {
        let of_row = scale(&scales.a, row, number);
        for columns in pieces(&tile.columns) {
            let of_both = of_row * scale(&scales.b, number, columns.start / SCALE_BLOCK);
            let at = i * width + columns.start - tile.columns.start;
            let place = at..at + columns.len();
            dispatch(AddScaled { scale: of_both, block: &block[place.clone()], sums: &mut sums[place] });
        }
    }
}

/// Columns cut where blocks end.
fn pieces(columns: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let Range { start, end } = *columns;
    let blocks = start / SCALE_BLOCK..end.div_ceil(SCALE_BLOCK);
    blocks.map(move |block| start.max(block * SCALE_BLOCK)..end.min((block + 1) * SCALE_BLOCK))
}

/// `sums += scale · block`, with one rounding if the CPU can.
struct AddScaled<'a> {
    scale: f32,
    block: &'a [f32],
    sums: &'a mut [f32],
}

impl Vectorised for AddScaled<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { scale, block, sums } = self;
        for (sum, &x) in sums.iter_mut().zip(block) {
            *sum = if FMA { scale.mul_add(x, *sum) } else { scale * x + *sum };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_cut_where_blocks_end() {
        let of = |columns| pieces(&columns).collect::<Vec<_>>();
        assert_eq!(of(0..256), [0..128, 128..256]);
        assert_eq!(of(64..130), [64..128, 128..130]);
        assert_eq!((of(130..140).len(), of(130..140)[0].clone()), (1, 130..140));
        assert!(of(0..0).is_empty());
    }
}
