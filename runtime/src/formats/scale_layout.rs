//! The order of MX and NVFP4 scales that tensor cores read: blocks of 128 rows × 4 scales.
//!
//! cuBLASLt ("1D block scaling factors layout"), CUTLASS, torch (`SWIZZLE_32_4_4`) and torchao (`to_blocked`) share it. A
//! block has 512 bytes: the scale `s` of row `r` is its byte `(r % 32) * 16 + (r / 32) * 4 + s`. Blocks follow each other
//! along a row, then row by row of blocks. Rows are padded to a multiple of 128 and scales of a row to a multiple of 4,
//! with 0.
//!
//! ```
//! use epilogue_runtime::formats::scale_layout;
//!
//! let scales: Vec<u8> = (0..33 * 2).collect(); // 33 rows with 2 scales each
//! let blocked = scale_layout::to_blocked(&scales, 33, 2)?;
//! assert_eq!(blocked.len(), 512);
//! assert_eq!(blocked[16], 2); // row 1, scale 0
//! assert_eq!(blocked[scale_layout::index(32, 1, 2)], 65); // row 32, scale 1
//! assert_eq!(scale_layout::from_blocked(&blocked, 33, 2)?, scales);
//! # Ok::<(), epilogue_runtime::FormatError>(())
//! ```

use crate::error::formats::FormatError;

/// The rows of a block.
pub const ROWS: usize = 128;
/// The scales of a row of a block.
pub const SCALES: usize = 4;

/// The bytes that the scales of `rows` rows with `per_row` scales each take.
///
/// # Errors
/// [`FormatError::ScaleLayout`] if they are more than memory can address.
pub fn len(rows: usize, per_row: usize) -> Result<usize, FormatError> {
    let across = per_row.div_ceil(SCALES).checked_mul(ROWS * SCALES);
    let all = across.and_then(|across| across.checked_mul(rows.div_ceil(ROWS)));
    all.filter(|all| isize::try_from(*all).is_ok()).ok_or_else(|| wrong(rows, per_row, usize::MAX, 0))
}

/// The byte of scale `s` of row `r`, where a row has `per_row` scales.
#[must_use]
pub const fn index(r: usize, s: usize, per_row: usize) -> usize {
    let block = r / ROWS * per_row.div_ceil(SCALES) + s / SCALES;
    let r = r % ROWS;
    block * (ROWS * SCALES) + r % 32 * 16 + r / 32 * 4 + s % SCALES
}

/// Scales `[rows, per_row]`, one row after the other, in the order of blocks.
///
/// # Errors
/// [`FormatError::ScaleLayout`] for another number of scales.
pub fn to_blocked(scales: &[u8], rows: usize, per_row: usize) -> Result<Vec<u8>, FormatError> {
    let needed = rows.saturating_mul(per_row);
    if scales.len() != needed {
        return Err(wrong(rows, per_row, needed, scales.len()));
    }
    let mut blocked = vec![0; len(rows, per_row)?];
    for (at, scale) in scales.iter().enumerate() {
        blocked[index(at / per_row, at % per_row, per_row)] = *scale;
    }
    Ok(blocked)
}

/// Scales `[rows, per_row]`, one row after the other, from the order of blocks.
///
/// # Errors
/// [`FormatError::ScaleLayout`] for another number of bytes.
pub fn from_blocked(blocked: &[u8], rows: usize, per_row: usize) -> Result<Vec<u8>, FormatError> {
    let needed = len(rows, per_row)?;
    if blocked.len() != needed {
        return Err(wrong(rows, per_row, needed, blocked.len()));
    }
    // As many as there are bytes, at most.
    Ok((0..rows * per_row).map(|at| blocked[index(at / per_row, at % per_row, per_row)]).collect())
}

fn wrong(rows: usize, per_row: usize, needed: usize, given: usize) -> FormatError {
    FormatError::ScaleLayout { rows, per_row, needed, given }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scale_has_a_place_of_its_own_and_comes_back() {
        for (rows, per_row) in [(1, 1), (33, 2), (128, 4), (129, 5), (300, 9)] {
            let scales: Vec<u8> = (0..rows * per_row).map(|i| (i % 251 + 1) as u8).collect();
            let blocked = to_blocked(&scales, rows, per_row).unwrap();
            assert_eq!(blocked.len(), rows.div_ceil(128) * per_row.div_ceil(4) * 512);
            // All places are different, because only padding is 0.
            assert_eq!(blocked.iter().filter(|byte| **byte != 0).count(), scales.len());
            assert_eq!(from_blocked(&blocked, rows, per_row).unwrap(), scales);
        }
    }

    #[test]
    fn other_lengths_are_refused() {
        assert!(matches!(to_blocked(&[0; 5], 2, 3), Err(FormatError::ScaleLayout { needed: 6, given: 5, .. })));
        assert!(matches!(from_blocked(&[0; 6], 2, 3), Err(FormatError::ScaleLayout { needed: 512, given: 6, .. })));
        assert!(len(usize::MAX, 4).is_err() && len(1 << 40, 1 << 40).is_err());
        assert!(to_blocked(&[], usize::MAX, 2).is_err());
        // No scales in a row: nothing to write, however many rows there are.
        assert!(to_blocked(&[], usize::MAX, 0).unwrap().is_empty());
        assert!(from_blocked(&[], usize::MAX, 0).unwrap().is_empty());
    }
}
