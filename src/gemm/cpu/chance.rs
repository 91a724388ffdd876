//! Random numbers of a block's elements, one row of the generator (`simd/philox.rs`) at a time.

use super::element::{Arithmetic, View};
use super::strip::{BoundStrips, StripBlock};
use super::tile::Tile;
use crate::evt::ParameterId;
use crate::simd::philox;

/// A seed and an offset that the host gives, as memory, which lives until the run ends.
pub(super) type Given = [i64; 2];

impl<T: Arithmetic> BoundStrips<'_, T> {
    /// Fills a register with the numbers of a block.
    ///
    /// # Safety
    /// The parameter's view must be of a seed, which no thread writes meanwhile.
    pub(super) unsafe fn random(
        &self,
        (parameter, stream): (ParameterId, u32),
        tile: &Tile,
        block: &StripBlock,
        to: &mut [T],
    ) {
        let view: &View = &self.parameters[parameter.index()];
        // SAFETY: the caller's promise.
        let [seed, offset] = [0, 1].map(|i| unsafe { view.at(0, i, 0).cast::<i64>().read() }.cast_unsigned());
        let offset = offset.wrapping_add(stream.into());
        let halves = |x: u64| [x as u32, (x >> 32) as u32];
        let [low, high] = halves(offset);
        for (i, row) in to.chunks_exact_mut(block.width).take(block.rows).enumerate() {
            // A row of another batch is another row; check.rs has refused more than 2^32 of them.
            let row_of_all = (tile.rows.start + block.first + i).wrapping_add(self.extents.m * tile.batch) as u32;
            philox::numbers(halves(seed), tile.columns.start, [row_of_all, low, high], row);
        }
    }
}
