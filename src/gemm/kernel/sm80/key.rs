//! What a kernel for sm_80 and up is generated from.

use super::super::split_k::SplitKind;
use super::instruction::Instruction;
use super::tile::Tile;
use crate::gemm::problem::OperandLayout;

/// What a kernel of the family for sm_80 and up is generated from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sm80Key {
    /// What multiplies.
    pub instruction: Instruction,
    /// The tile.
    pub tile: Tile,
    /// Whether and how K is shared among blocks; the number of blocks is a run-time argument.
    pub split_k: SplitKind,
    /// How A is copied.
    pub a: OperandLayout,
    /// How B is copied.
    pub b: OperandLayout,
    /// Columns that a lane's epilogue handles at once.
    pub vector: usize,
    /// Parts in which the accumulators pass to the epilogue.
    pub epilogue_passes: usize,
    /// Products of A and a B each, whose columns share the tile's.
    pub accumulators: usize,
    /// Whether approximate instructions may be used whatever the outputs' types.
    pub fast_math: bool,
}

impl Sm80Key {
    /// Rows and columns of the product that a tile has.
    #[must_use]
    pub const fn product_tile(&self) -> (usize, usize) {
        (self.tile.m, self.tile.product_columns(self.accumulators))
    }
}
