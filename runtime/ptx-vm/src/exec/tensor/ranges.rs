//! Ranges of bytes, for the detector.

use std::ops::Range;

use crate::numerics::tensor_memory::COLUMNS;
use crate::race::shared_address;

/// The ranges that 16-byte chunks of a block's shared memory fill.
pub(super) fn of_chunks(rank: u32, mut chunks: Vec<u32>) -> Vec<Range<u64>> {
    chunks.sort_unstable();
    chunks.dedup();
    let mut ranges: Vec<Range<u64>> = vec![];
    for chunk in chunks {
        let start = shared_address(rank, chunk);
        match ranges.last_mut() {
            Some(last) if last.end == start => last.end += 16,
            _ => ranges.push(start..start + 16),
        }
    }
    ranges
}

/// Columns of one lane of a block's tensor memory.
pub(super) fn of_cells(rank: u32, lane: u32, column: u32, columns: u32) -> Range<u64> {
    let start = shared_address(rank, 4 * (lane * COLUMNS + column));
    start..start + 4 * u64::from(columns)
}
