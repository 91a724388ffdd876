//! The key of a kernel for sm_80 and later.

use std::fmt;

use super::instruction::Instruction;
use super::tile::Tile;
use crate::gemm::kernel::split_k::SplitKind;
use crate::gemm::kernel::{PatchKind, ReadingShape};
use crate::gemm::problem::{Formats, OperandLayout};

/// Description from which a kernel of the family for sm_80 and later is generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sm80Key {
    /// The instruction that multiplies.
    pub instruction: Instruction,
    /// The tile.
    pub tile: Tile,
    /// Whether and how K is shared among blocks; the number of blocks is a run-time argument.
    pub split_k: SplitKind,
    /// The layout of A.
    pub a: OperandLayout,
    /// The layout of B.
    pub b: OperandLayout,
    /// Columns that a lane's epilogue handles at once.
    pub vector: usize,
    /// The number of parts in which the accumulators pass through shared memory to the epilogue.
    pub epilogue_passes: usize,
    /// The number of products, each of A and one B, whose columns share the tile's.
    pub accumulators: usize,
    /// How A is read; patches are of the most axes that a window has.
    pub reading: ReadingShape,
    /// The formats of A and B.
    pub formats: Formats,
    /// Whether all phases of the epilogue are computed in the tile, where its lines lie whole.
    pub in_tile: bool,
    /// Whether approximate instructions are allowed for outputs of any type.
    pub fast_math: bool,
}

impl Sm80Key {
    /// Bytes of the table of a tile's rows, of an A whose rows are patches.
    pub(crate) const fn patch_row_bytes(rows: usize) -> usize {
        16 * rows
    }

    /// Rows and columns of the product in a tile.
    #[must_use]
    pub const fn product_tile(&self) -> (usize, usize) {
        (self.tile.m, self.tile.product_columns(self.accumulators))
    }
}

impl fmt::Display for Sm80Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}{}", self.instruction, self.tile, self.reading)?;
        f.write_str(match self.reading.patches().map(|patches| patches.kind) {
            Some(PatchKind::Transposed) => ", transposed patches",
            Some(PatchKind::Dilated) => ", patches of a gradient",
            Some(PatchKind::Row) => ", patches",
            None if self.formats.are_scaled() => ", block scales",
            None => "",
        })?;
        f.write_str(if self.in_tile { ", all phases in the tile" } else { "" })
    }
}
