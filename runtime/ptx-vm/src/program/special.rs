//! The values that fill rows before a warp starts: constants, addresses, parameters, special registers.

use super::Row;

/// The value that fills a row before a warp starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SpecialSource {
    /// One constant of 32 or 64 bits in every lane.
    Constant(u64),
    /// The address of a module variable plus an offset.
    Variable { index: usize, offset: i64 },
    /// Bytes of the parameter block, zero-extended.
    Parameter { offset: u32, bytes: u32 },
    /// The address of a byte of the parameter block.
    ParameterAddress { offset: u32 },
    /// The address of a byte of dynamic shared memory.
    DynamicShared { offset: i64 },
    /// A special register.
    Special(Special),
    /// Zero, for registers that may be read before they are written.
    Zero,
}

/// Special registers whose value is constant while a block runs (PTX ISA §10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Thread(u8),
    ThreadCount(u8),
    Block(u8),
    BlockCount(u8),
    Lane,
    Warp,
    WarpCount,
    Multiprocessor,
    MultiprocessorCount,
    Grid,
    /// `%envreg2` and `%envreg1`: the address of the workspace of a cooperative launch, or 0.
    GridWorkspaceLow,
    GridWorkspaceHigh,
    LaneMaskEq,
    LaneMaskLt,
    LaneMaskLe,
    LaneMaskGt,
    LaneMaskGe,
    Cluster(u8),
    ClusterCount(u8),
    BlockInCluster(u8),
    BlocksInCluster(u8),
    RankInCluster,
    ClusterSize,
    DynamicShared,
    TotalShared,
}

impl Special {
    /// Whether the value is the same for all blocks that run in the same slot of a worker.
    pub(crate) fn is_fixed(self) -> bool {
        !matches!(self, Special::Block(_) | Special::Cluster(_) | Special::BlockInCluster(_) | Special::RankInCluster)
    }
}

/// A row to fill.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fill {
    pub(crate) row: Row,
    pub(crate) wide: bool,
    pub(crate) source: SpecialSource,
}
