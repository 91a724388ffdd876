//! The tensor cores that multiply for a kernel: Hopper's, or Blackwell's with their memory.

use epilogue_runtime::Arch;

use super::instruction::Wgmma;
use super::tile::{Schedule, Tile};

/// The tensor cores of an architecture. Everything else in a kernel is the same for all: loads by TMA, roles of warps, epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TensorCores {
    /// `wgmma` of sm_90a: a consumer warpgroup multiplies, and has the sums in registers.
    Wgmma,
    /// `tcgen05.mma` of sm_100a and sm_103a: one thread multiplies, the sums are in tensor memory, and consumers load them.
    Tcgen05,
}

/// Columns of tensor memory (PTX ISA 9.7.16.1).
const TENSOR_COLUMNS: usize = 512;

/// The most accumulators of a thread that come from tensor memory. More leave the thread that multiplies too few registers.
const MOST_LOADED: usize = 128;

impl TensorCores {
    /// The tensor cores of an architecture; `None` if kernels of this room don't run on it.
    #[must_use]
    pub fn of(arch: Arch) -> Option<Self> {
        [Self::Wgmma, Self::Tcgen05].into_iter().find(|cores| cores.run_on(arch))
    }

    /// Whether kernels for them are compiled for this architecture, and run on it. Code for the features of one compute
    /// capability runs on no other.
    #[must_use]
    pub fn run_on(self, arch: Arch) -> bool {
        match self {
            Self::Wgmma => arch == Arch::SM_90A,
            Self::Tcgen05 => arch.is_specific() && matches!(arch.capability(), (10, 0 | 3)),
        }
    }

    /// The oldest architecture that has them.
    #[must_use]
    pub const fn arch(self) -> Arch {
        match self {
            Self::Wgmma => Arch::SM_90A,
            Self::Tcgen05 => Arch::SM_100A,
        }
    }

    /// Why there is no kernel for them: another GPU, or other operands.
    pub(crate) const fn unavailable(self) -> &'static str {
        match self {
            Self::Wgmma => "kernels for sm_90a need such a GPU, and 16-bit, 8-bit or TF32 operands",
            Self::Tcgen05 => "kernels for sm_100a need such a GPU, and operands of one size: 16 bits, 8 bits or TF32",
        }
    }

    /// The least shared memory of a block. Blocks wait for tensor memory that another one of the multiprocessor has, and some
    /// wait for each other's sums. So there is one a multiprocessor: two would need more than the 228 KiB that it has.
    pub(crate) const fn least_shared_bytes(self) -> usize {
        match self {
            Self::Wgmma => 0,
            Self::Tcgen05 => 116 * 1024,
        }
    }

    /// Name of the instruction.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Wgmma => "wgmma",
            Self::Tcgen05 => "tcgen05",
        }
    }

    /// Whether they multiply these operands: tensor memory takes no operand that is converted in registers.
    pub(crate) const fn multiplies(self, instruction: Wgmma) -> bool {
        match self {
            Self::Wgmma => true,
            Self::Tcgen05 => !instruction.converts_b(),
        }
    }

    /// Whether this architecture has the instruction: sm_103a lost that of integers (`kind::i8`).
    pub(crate) fn has(self, arch: Arch, instruction: Wgmma) -> bool {
        let integers = matches!(instruction, Wgmma::Int8(_));
        self.run_on(arch) && self.multiplies(instruction) && !(integers && arch.capability() == (10, 3))
    }

    /// Whether exact sums of FP8 products need additions in f32 beside them. Hopper's tensor cores keep 13 bits of a sum,
    /// Blackwell's 25, as those of f16.
    pub(crate) const fn promotes(self, instruction: Wgmma) -> bool {
        match self {
            Self::Wgmma => matches!(instruction, Wgmma::Fp8(_)),
            Self::Tcgen05 => false,
        }
    }

    /// Rows of one instruction in this tile.
    pub(crate) const fn rows(self, tile: &Tile) -> usize {
        match self {
            Self::Tcgen05 if tile.rows >= 128 => 128,
            Self::Wgmma | Self::Tcgen05 => 64,
        }
    }

    /// Rows of an instruction that uses all of the tensor cores.
    pub(crate) const fn most_rows(self) -> usize {
        match self {
            Self::Wgmma => 64,
            Self::Tcgen05 => 128,
        }
    }

    /// Whether rows of the epilogue's blocks follow one another in runs of 16 only.
    pub(crate) const fn rows_are_apart(self, tile: &Tile) -> bool {
        self.rows(tile) > 64
    }

    /// Whether a tile's sums leave their place before its epilogue, so the next tile is multiplied meanwhile.
    pub(crate) const fn overlap_epilogues(self) -> bool {
        matches!(self, Self::Tcgen05)
    }

    /// The tiles of kernels for epilogues with this number of accumulators an element.
    pub(crate) fn tiles(self, accumulators: usize) -> impl Iterator<Item = Tile> {
        Tile::of(accumulators).filter(move |tile| self.hold(tile))
    }

    /// Whether they have a kernel of this tile (PTX ISA 9.7.16.2.1: of 128 rows, columns are multiples of 16).
    #[must_use]
    pub const fn hold(self, tile: &Tile) -> bool {
        match self {
            Self::Wgmma => true,
            Self::Tcgen05 => {
                let instructions = tile.rows / self.rows(tile);
                let whole = tile.rows.is_multiple_of(self.rows(tile));
                let columns = if self.rows(tile) == 128 { 16 } else { 8 };
                let teams = match tile.schedule {
                    Schedule::Cooperative => 1,
                    Schedule::PingPong => tile.consumers,
                };
                whole
                    && tile.columns.is_multiple_of(columns)
                    && tile.accumulator_registers() <= MOST_LOADED
                    && teams * instructions * tile.columns <= TENSOR_COLUMNS
            }
        }
    }

    /// Whether several accumulators of an element may share an instruction's rows.
    pub(crate) const fn share_rows(self) -> bool {
        matches!(self, Self::Wgmma)
    }

    /// Whether threads may write operands to shared memory themselves.
    pub(crate) const fn take_picked_rows(self) -> bool {
        matches!(self, Self::Wgmma)
    }

    /// Whether sums of stages may be scaled, one by one.
    pub(crate) const fn take_block_scales(self) -> bool {
        matches!(self, Self::Wgmma)
    }

    /// The share of the tensor cores that this tile's instructions use.
    pub(crate) const fn share(self, tile: &Tile) -> f64 {
        self.rows(tile) as f64 / self.most_rows() as f64
    }
}
