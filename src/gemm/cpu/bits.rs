//! Truth values with eight columns in a byte, as the numbers 0 and 1 of a block's rows. A byte that two tiles share is
//! changed atomically.

use std::sync::atomic::{AtomicU8, Ordering};

use super::element::{Arithmetic, View};
use super::strip::{BoundStrips, StripBlock};
use super::tile::Tile;
use crate::evt::BroadcastClass;

/// A byte's columns that a row of a block has: the byte's number in the tensor's row, its bits, and the columns from the
/// block's first.
fn bytes(tile: &Tile, width: usize) -> impl Iterator<Item = (usize, std::ops::Range<usize>, std::ops::Range<usize>)> {
    let (start, end) = (tile.columns.start, tile.columns.start + width);
    (start / 8..end.div_ceil(8)).map(move |byte| {
        let (from, to) = ((8 * byte).max(start), (8 * byte + 8).min(end));
        (byte, from - 8 * byte..to - 8 * byte, from - start..to - start)
    })
}

impl<T: Arithmetic> BoundStrips<'_, T> {
    /// Fills a register with the truth values of a block.
    ///
    /// # Safety
    /// The view must be of bytes that reach every column of the tile, which no thread writes meanwhile.
    pub(super) unsafe fn load_bits(view: &View, tile: &Tile, block: &StripBlock, to: &mut [T]) {
        for (i, row) in to.chunks_exact_mut(block.width).take(block.rows).enumerate() {
            let m = tile.rows.start + block.first + i;
            for (byte, bits, columns) in bytes(tile, block.width) {
                // SAFETY: the caller's promise.
                let x = unsafe { view.at(tile.batch, m, byte).read() } >> bits.start;
                for (bit, to) in row[columns].iter_mut().enumerate() {
                    *to = if x >> bit & 1 == 0 { T::ZERO } else { T::ONE };
                }
            }
        }
    }

    /// Stores the truth values of a block; bits beyond the last column are 0.
    ///
    /// # Safety
    /// As for [`load_bits`](Self::load_bits), and other threads may only store other columns meanwhile.
    pub(super) unsafe fn store_bits(&self, view: &View, tile: &Tile, block: &StripBlock, from: &[T]) {
        if !Self::stores(view, BroadcastClass::Tensor, tile) {
            return;
        }
        for (i, row) in from.chunks_exact(block.width).enumerate() {
            let m = tile.rows.start + block.first + i;
            for (byte, bits, columns) in bytes(tile, block.width) {
                let is_last = tile.columns.start + columns.end == self.extents.n;
                let x = row[columns].iter().rev().fold(0, |x, truth| x << 1 | u8::from(*truth != T::ZERO));
                let own = if is_last { 0xff << bits.start } else { (0xff >> (8 - bits.len())) << bits.start };
                let address = view.at(tile.batch, m, byte);
                if own == 0xff {
                    // SAFETY: the caller's promise; no other tile has columns of this byte.
                    unsafe { address.write(x) };
                } else {
                    // A tile of another thread may have the other columns.
                    // SAFETY: the caller's promise; whoever has columns of this byte gets here.
                    let shared = unsafe { AtomicU8::from_ptr(address) };
                    shared.fetch_and(!own, Ordering::Relaxed);
                    shared.fetch_or(x << bits.start, Ordering::Relaxed);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_tile_that_begins_and_ends_within_them() {
        let tile = Tile { batch: 0, rows: 0..1, columns: 5..19, is_top: true, is_alone: true, has_own_rows: false };
        let all: Vec<_> = bytes(&tile, 14).collect();
        assert_eq!(all, [(0, 5..8, 0..3), (1, 0..8, 3..11), (2, 0..3, 11..14)]);
    }
}
