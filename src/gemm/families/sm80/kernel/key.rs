//! The key of a kernel for sm_80 and later.

use std::fmt;

use super::instruction::Instruction;
use super::tile::Tile;
use super::{DIVISORS_BYTES, PATCHES_BYTES, common_bytes};
use crate::gemm::kernel::parameters::{GROUPS_BYTES, ROW_INDEX_BYTES, scales_bytes};
use crate::gemm::kernel::split_k::SplitKind;
use crate::gemm::problem::{Divided, Major, OperandLayout};

/// What a kernel of the family for sm_80 and later is generated from.
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
    /// What is divided into groups.
    pub divided: Divided,
    /// Whether A is patches of images; if its layout is contiguous along M, a patch is a column.
    pub patches: bool,
    /// Whether zeros lie between the images' elements.
    pub input_dilated: bool,
    /// Whether an index picks the rows of A.
    pub picked: bool,
    /// Whether all phases of the epilogue are computed in the tile, where its lines lie whole.
    pub in_tile: bool,
    /// Whether the operands have scales of blocks.
    pub scaled: bool,
    /// Whether approximate instructions are allowed for outputs of any type.
    pub fast_math: bool,
}

impl Sm80Key {
    /// Size of what is the same for every epilogue in the kernel's parameter.
    pub(crate) const fn common_bytes(&self) -> usize {
        let groups = if self.in_groups() { GROUPS_BYTES } else { 0 };
        let index = if self.picked { ROW_INDEX_BYTES } else { 0 };
        let patches = if self.patches { PATCHES_BYTES } else { 0 };
        let divisors = if self.divides_positions() { DIVISORS_BYTES } else { 0 };
        let scales = if self.scaled { scales_bytes(self.accumulators) } else { 0 };
        common_bytes(self.accumulators) + groups + index + patches + divisors + scales
    }

    /// Whether patches are columns.
    pub(crate) const fn has_transposed_patches(&self) -> bool {
        self.patches && matches!(self.a.major, Major::Mn)
    }

    /// Whether loading patches divides positions by more than what an ordinary convolution does.
    pub(crate) const fn divides_positions(&self) -> bool {
        self.has_transposed_patches() || self.input_dilated
    }

    /// Bytes of the table of a tile's rows, of an A whose rows are patches.
    pub(crate) const fn patch_row_bytes(rows: usize) -> usize {
        16 * rows
    }

    /// The number under which the kernel notes a row's number that is not one of A's.
    pub(crate) const fn index_site(&self) -> usize {
        if self.in_groups() { 1 } else { 0 }
    }

    pub(crate) const fn in_groups(&self) -> bool {
        !matches!(self.divided, Divided::Nothing)
    }

    /// Rows and columns of the product in a tile.
    #[must_use]
    pub const fn product_tile(&self) -> (usize, usize) {
        (self.tile.m, self.tile.product_columns(self.accumulators))
    }
}

impl fmt::Display for Sm80Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.instruction, self.tile)?;
        if self.in_groups() {
            write!(f, ", {}", self.divided)?;
        }
        f.write_str(match self {
            _ if self.has_transposed_patches() => ", transposed patches",
            _ if self.input_dilated => ", patches of a gradient",
            _ if self.patches => ", patches",
            _ if self.picked => ", picked rows",
            _ if self.scaled => ", block scales",
            _ => "",
        })?;
        f.write_str(if self.in_tile { ", all phases in the tile" } else { "" })
    }
}
