//! Why a tile can't be used.

use crate::gemm::problem::Quantization;

/// Why a tile can't be used.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// It has too few columns for the accumulators.
    #[error("a warp of tile {tile} has too few columns for {accumulators} accumulators of these operands")]
    Accumulators {
        /// The tile.
        tile: String,
        /// The number of accumulators.
        accumulators: usize,
    },
    /// Rows have more columns than it.
    #[error("rows of {columns} columns are wider than a tile of {most}")]
    Rows {
        /// N.
        columns: usize,
        /// The tile's columns.
        most: usize,
    },
    /// Columns have more rows than it.
    #[error("columns of {rows} rows are longer than a tile of {most}")]
    Columns {
        /// M.
        rows: usize,
        /// The tile's rows.
        most: usize,
    },
    /// Its accumulators are not in shared memory all at once.
    #[error("tile {tile} is larger than its pipeline's shared memory, where later phases look for all of it")]
    Passes {
        /// The tile.
        tile: String,
    },
    /// It is not for operands with scales of blocks.
    #[error(
        "tile {tile} takes no block scales of {accumulators} accumulators: those with k-tiles of 128, at most 64 accumulators a \
         thread and all columns in one block do"
    )]
    Scales {
        /// The tile.
        tile: String,
        /// The number of accumulators.
        accumulators: usize,
    },
    /// It is not for quantised weights.
    #[error("tile {tile} doesn't multiply weights of {format}: dequantise them")]
    Weights {
        /// The tile.
        tile: String,
        /// The format.
        format: Quantization,
    },
    /// It needs too much shared memory.
    #[error("tile {tile} needs {needed} bytes of shared memory with this epilogue, and a block has {limit}")]
    SharedMemory {
        /// The tile.
        tile: String,
        /// Bytes that it needs.
        needed: usize,
        /// Bytes that a block can have.
        limit: usize,
    },
}

epilogue_runtime::message::debug!(Misfit);

impl Misfit {
    /// Whether it says of a tile what another says of a larger one.
    pub(crate) const fn is_narrower(&self, other: Option<&Self>) -> bool {
        match (self, other) {
            (Self::Rows { most, .. }, Some(Self::Rows { most: other, .. }))
            | (Self::Columns { most, .. }, Some(Self::Columns { most: other, .. })) => *most < *other,
            _ => false,
        }
    }
}
