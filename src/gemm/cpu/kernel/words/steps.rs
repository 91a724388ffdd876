//! The rows that are multiplied together, and the memory that is prefetched meanwhile.

use std::ops::Range;

/// Rows of B, contiguous along N, that are fetched ahead. (Zen 4, one core, 3072 columns of 768 from memory: bf16s by 4 rows 0.46 ms
/// without, 0.36 with 16 rows, 0.21 with 64; f32s by 12 rows 0.61, by the `gemm` crate, which fetches nothing, 1.2.)
const AHEAD: usize = 64;

/// Rows in nearly equal shares of at most so many.
pub(super) fn shares(rows: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let times = rows.div_ceil(most);
    (0..times).map(move |time| time * rows / times..(time + 1) * rows / times)
}

/// The row of B to fetch while row `k` is multiplied, and the column to fetch from. It is a row of these columns, or
/// one of the first rows of the next columns.
#[inline(always)]
pub(super) const fn ahead(k: usize, depth: usize, columns: &Range<usize>) -> (usize, usize) {
    let row = k + AHEAD;
    if row < depth { (row, columns.start) } else { (row - depth, columns.end) }
}
