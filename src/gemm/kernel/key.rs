//! All that distinguishes the kernels of one tree: what they are generated from.

use std::fmt;

use epilogue_runtime::Arch;

use super::settings::Switches;
use super::sm80::instruction::Instruction;
use super::sm80::key::Sm80Key;
use super::sm90::instruction::Wgmma;
use super::sm90::key::Sm90Key;
use crate::evt::reference::Multiplication;
use crate::gemm::problem::OperandLayout;

/// All that distinguishes the kernels of one tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelKey {
    /// A kernel of the family for sm_80 and up.
    Sm80(Sm80Key),
    /// A kernel of the family for sm_90a.
    Sm90(Sm90Key),
}

impl KernelKey {
    /// Rows and columns of the product that a tile has.
    #[must_use]
    pub const fn tile(&self) -> (usize, usize) {
        match self {
            Self::Sm80(key) => key.product_tile(),
            Self::Sm90(key) => key.product_tile(),
        }
    }

    /// How much of K is a block of it: of a pipeline stage.
    #[must_use]
    pub const fn tile_k(&self) -> usize {
        match self {
            Self::Sm80(key) => key.tile.k,
            Self::Sm90(key) => key.instruction.tile_k(),
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
            Self::Sm80(Sm80Key { instruction: Instruction::MmaFastBf16, .. }) => Multiplication::FastBf16,
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
    pub(crate) const fn with(self, switches: Switches) -> Self {
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

impl fmt::Display for KernelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sm80(key) => write!(f, "{}: {}", key.instruction, key.tile),
            Self::Sm90(key) => key.fmt(f),
        }
    }
}
