//! The key of a kernel: everything that distinguishes the kernels of one tree, and that one is generated from.

use std::fmt;

use epilogue_runtime::Arch;

use super::finish::Within;
use super::settings::Switches;
use crate::evt::reference::Multiplication;
use crate::gemm::families::sm80::kernel::instruction::Instruction;
use crate::gemm::families::sm80::kernel::key::Sm80Key;
use crate::gemm::families::sm90::kernel::instruction::Wgmma;
use crate::gemm::families::sm90::kernel::key::Sm90Key;
use crate::gemm::problem::OperandLayout;

/// Everything that distinguishes the kernels of one tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelKey {
    /// A kernel of the family for sm_80 and later.
    Sm80(Sm80Key),
    /// A kernel of the family for sm_90a.
    Sm90(Sm90Key),
}

impl KernelKey {
    /// Rows and columns of the product in a tile.
    #[must_use]
    pub const fn tile(&self) -> (usize, usize) {
        match self {
            Self::Sm80(key) => key.product_tile(),
            Self::Sm90(key) => key.product_tile(),
        }
    }

    /// The depth of a k-tile, which is what one pipeline stage holds.
    #[must_use]
    pub const fn tile_k(&self) -> usize {
        match self {
            Self::Sm80(key) => key.tile.k,
            Self::Sm90(key) => key.instruction.tile_k(),
        }
    }

    /// The oldest architecture that the kernel's family runs on: `sm_80`, `sm_90a`.
    #[must_use]
    pub const fn family(&self) -> Arch {
        match self {
            Self::Sm80(_) => Arch::SM_80,
            Self::Sm90(_) => Arch::SM_90A,
        }
    }

    /// How the kernel multiplies, which the reference has to know.
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

    /// The layouts of A and B in memory.
    #[must_use]
    pub const fn layouts(&self) -> (OperandLayout, OperandLayout) {
        match self {
            Self::Sm80(key) => (key.a, key.b),
            Self::Sm90(key) => (OperandLayout::packed(key.a), OperandLayout::packed(key.b)),
        }
    }

    /// The same kernel with these switches. The family for sm_80 ignores `dependent_launch`: its kernels always begin
    /// when the kernel before has ended.
    pub(crate) const fn with(self, switches: Switches) -> Self {
        let Switches { fast_math, dependent_launch } = switches;
        match self {
            Self::Sm80(key) => Self::Sm80(Sm80Key { fast_math, ..key }),
            Self::Sm90(key) => Self::Sm90(Sm90Key { fast_math, dependent_launch, ..key }),
        }
    }

    /// Whether all phases of the epilogue are computed in the tile, or in the tiles of a cluster, so that there is one
    /// launch.
    #[must_use]
    pub const fn in_tile(&self) -> bool {
        match self {
            Self::Sm80(key) => key.in_tile,
            Self::Sm90(key) => key.in_tile,
        }
    }

    /// Where whole lines lie, if all phases are computed from them.
    #[must_use]
    pub const fn within(&self) -> Option<Within> {
        match self {
            Self::Sm80(key) if key.in_tile => Some(Within::Tile),
            Self::Sm80(_) => None,
            Self::Sm90(key) => key.within(),
        }
    }

    /// Rows and columns of the product in which whole lines lie.
    pub(crate) const fn line_tile(&self) -> (usize, usize) {
        match self {
            Self::Sm80(_) => self.tile(),
            Self::Sm90(key) => key.line_tile(),
        }
    }

    /// Whether approximate instructions are allowed for outputs of any type.
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
            Self::Sm80(key) => {
                write!(f, "{}: {}", key.instruction, key.tile)?;
                if key.in_groups() {
                    write!(f, ", {}", key.divided)?;
                }
                f.write_str(match key {
                    _ if key.has_transposed_patches() => ", transposed patches",
                    _ if key.input_dilated => ", patches of a gradient",
                    _ if key.patches => ", patches",
                    _ if key.picked => ", picked rows",
                    _ if key.scaled => ", block scales",
                    _ => "",
                })?;
                f.write_str(if key.in_tile { ", all phases in the tile" } else { "" })
            }
            Self::Sm90(key) => key.fmt(f),
        }
    }
}
