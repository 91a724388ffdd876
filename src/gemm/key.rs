//! All that distinguishes the kernels of one tree: what they are generated from.

use std::fmt;

use epilogue_runtime::Arch;

use crate::evt::reference::Multiplication;
use crate::gemm::cost::SplitK;
use crate::gemm::instruction::Instruction;
use crate::gemm::problem::OperandLayout;
use crate::gemm::sm90::{Sm90Key, Wgmma};
use crate::gemm::tile::Tile;

/// All that distinguishes the kernels of one tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelKey {
    /// A kernel of the family for sm_80 and up.
    Sm80(Sm80Key),
    /// A kernel of the family for sm_90a.
    Sm90(Sm90Key),
}

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
    /// Whether approximate instructions may be used whatever the outputs' types.
    pub fast_math: bool,
}

impl KernelKey {
    /// Rows and columns of the product that a tile has.
    #[must_use]
    pub const fn tile(&self) -> (usize, usize) {
        match self {
            Self::Sm80(key) => (key.tile.m, key.tile.n),
            Self::Sm90(key) => key.product_tile(),
        }
    }

    /// The oldest architecture that its family is for: `sm_80`, `sm_90a`.
    #[must_use]
    pub const fn family(&self) -> Arch {
        match self {
            Self::Sm80(_) => Arch::SM_80,
            Self::Sm90(_) => Arch::SM_90A,
        }
    }

    /// How it multiplies, as the reference must know.
    #[must_use]
    pub const fn multiplication(&self) -> Multiplication {
        match self {
            Self::Sm80(Sm80Key { instruction: Instruction::MmaTf32, .. })
            | Self::Sm90(Sm90Key { instruction: Wgmma::Tf32, .. }) => Multiplication::Tf32,
            Self::Sm90(Sm90Key { instruction: Wgmma::Fp8(_), promoted: false, .. }) => Multiplication::FastFp8,
            Self::Sm80(_) | Self::Sm90(_) => Multiplication::Exact,
        }
    }

    /// How A and B lie in memory.
    #[must_use]
    pub const fn layouts(&self) -> (OperandLayout, OperandLayout) {
        match self {
            Self::Sm80(key) => (key.a, key.b),
            Self::Sm90(key) => (OperandLayout::packed(key.a), OperandLayout::packed(key.b)),
        }
    }

    /// The same kernel with what a plan wants of every kernel. Those of the family for sm_80 always begin when the kernel
    /// before has ended.
    pub(super) const fn with(self, switches: Switches) -> Self {
        let Switches { fast_math, dependent_launch } = switches;
        match self {
            Self::Sm80(key) => Self::Sm80(Sm80Key { fast_math, ..key }),
            Self::Sm90(key) => Self::Sm90(Sm90Key { fast_math, dependent_launch, ..key }),
        }
    }

    /// Whether approximate instructions may be used whatever the outputs' types.
    #[must_use]
    pub const fn fast_math(&self) -> bool {
        match self {
            Self::Sm80(key) => key.fast_math,
            Self::Sm90(key) => key.fast_math,
        }
    }
}

/// What a plan wants of every kernel, and the model has no say in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Switches {
    /// Whether approximate instructions may be used whatever the outputs' types.
    pub(super) fast_math: bool,
    /// Whether a kernel may begin before the one before it has ended.
    pub(super) dependent_launch: bool,
}

/// [`SplitK`] without its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SplitKind {
    /// One block has all of K.
    None,
    /// Blocks take turns.
    Serial,
    /// The last block adds all sums.
    Parallel,
    /// The tiles of the last waves are cut evenly among all blocks.
    Stream,
}

impl From<SplitK> for SplitKind {
    fn from(split_k: SplitK) -> Self {
        match split_k {
            SplitK::None => Self::None,
            SplitK::Serial(_) => Self::Serial,
            SplitK::Parallel(_) => Self::Parallel,
            SplitK::Stream => Self::Stream,
        }
    }
}

impl fmt::Display for KernelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sm80(key) => write!(f, "{}: {}", key.instruction, key.tile),
            Self::Sm90(key) => key.fmt(f),
        }
    }
}
