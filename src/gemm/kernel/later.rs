//! The kernels of an epilogue's later phases: key and tile.

use super::structs::LATER;
use crate::expr::Real;

/// The key of a second-pass kernel (a later phase), beside its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaterKey {
    pub(crate) real: Real,
    /// Whether approximate instructions may be used whatever the outputs' types.
    pub(crate) fast_math: bool,
}

/// Bytes in front of the epilogue's arguments.
pub(crate) const LATER_COMMON_BYTES: usize = LATER.bytes(1);

impl LaterKey {
    /// Rows and columns of a tile.
    pub(crate) const TILE: (usize, usize) = (128, 128);
    pub(crate) const THREADS: usize = 256;

    /// Columns that a lane handles at once: 16 bytes of what the phases before left.
    pub(crate) const fn vector(self) -> usize {
        match self.real {
            Real::F32 => 4,
            Real::F64 => 2,
        }
    }

    /// Rows and columns of a warp's part of the tile: a row's columns are one for each lane.
    pub(crate) const fn warp(self) -> (usize, usize) {
        let columns = 32 * self.vector();
        (Self::TILE.0 * Self::TILE.1 / (Self::THREADS / 32) / columns, columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warps_cover_the_tile() {
        for (real, warp) in [(Real::F32, (16, 128)), (Real::F64, (32, 64))] {
            assert_eq!(LaterKey { real, fast_math: false }.warp(), warp);
        }
    }
}
