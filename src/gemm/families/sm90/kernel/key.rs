//! The key of a kernel for sm_90a.

use std::fmt;

use super::cores::TensorCores;
use super::instruction::Wgmma;
use super::tile::Tile;
use crate::gemm::kernel::finish::Within;
use crate::gemm::kernel::shape::ReadingShape;
use crate::gemm::kernel::split_k::SplitKind;
use crate::gemm::problem::scaled::SCALE_BLOCK;
use crate::gemm::problem::{Formats, Major};

/// Blocks that run together and load operands for each other, in product terms: the `m` blocks along M share the tile
/// of B, the `n` blocks along N share the tile of A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cluster {
    /// Blocks along M.
    pub m: usize,
    /// Blocks along N.
    pub n: usize,
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.m, self.n)
    }
}

impl Cluster {
    /// A single block.
    pub const NONE: Self = Self { m: 1, n: 1 };

    /// The most blocks that every GPU of this architecture can run together (CUDA C++ Programming Guide, "Thread Block
    /// Clusters": 8 is portable).
    pub(crate) const MOST_PORTABLE: usize = 8;
    /// The most blocks in whose tiles whole lines lie. Kernels must ask for more than the portable number (CUDA Driver API,
    /// `CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`), and not every GPU has room for them.
    pub(crate) const MOST_OF_LINES: usize = 16;

    /// The number of blocks.
    #[must_use]
    pub const fn blocks(self) -> usize {
        self.m * self.n
    }

    /// Whether every GPU of this architecture can run it.
    pub(crate) const fn is_portable(self) -> bool {
        self.blocks() <= Self::MOST_PORTABLE
    }
}

/// The order in which tiles are computed: groups of (clusters of) tiles along one axis, walked along the other axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Raster {
    /// Clusters of tiles in a group.
    pub group: usize,
    /// Whether groups are along N rather than along M.
    pub along_n: bool,
}

/// The eviction priority of an access in the L2 (PTX ISA 9.7.9, cache eviction priorities).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Hint {
    /// No hint.
    #[default]
    Normal,
    /// Not needed again: evict it first.
    First,
    /// Needed again: evict it last.
    Last,
}

/// Hints for what a kernel reads and writes, in product terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Hints {
    /// The hint for A.
    pub a: Hint,
    /// The hint for B.
    pub b: Hint,
    /// The hint for the outputs.
    pub outputs: Hint,
}

/// How the epilogue's tensors pass through shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Staging {
    /// MMA columns that a warpgroup handles in one step.
    pub step: usize,
    /// Steps of outputs that can be on their way to memory at once.
    pub output_stages: usize,
    /// Steps of inputs that can be on their way from memory at once.
    pub input_stages: usize,
}

/// Description from which a kernel of the family for sm_90a is generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sm90Key {
    /// The tensor cores that multiply.
    pub cores: TensorCores,
    /// The instruction that multiplies.
    pub instruction: Wgmma,
    /// The tile, in MMA terms.
    pub tile: Tile,
    /// Whether the tile's rows are the product's columns.
    pub swap_ab: bool,
    /// The number of products, each of A and one B, which share the tile: side by side along its columns; in a swapped
    /// kernel, alternating blocks of 64 rows.
    pub accumulators: usize,
    /// Pipeline stages.
    pub stages: usize,
    /// Blocks that load operands for each other.
    pub cluster: Cluster,
    /// The order of the tiles.
    pub raster: Raster,
    /// Whether and how K is shared among blocks; the number of blocks is a run-time argument.
    pub split_k: SplitKind,
    /// Which index of A is contiguous.
    pub a: Major,
    /// Which index of B is contiguous.
    pub b: Major,
    /// How the epilogue's tensors pass through shared memory.
    pub staging: Staging,
    /// Bit `i` is set if argument `i` of a run is a tensor that tensor copies can't reach. Its rows may not begin at
    /// multiples of 16 bytes, for example. It is then accessed element by element.
    pub direct: u64,
    /// The number of stages whose products may still be running when the next one's are started: 0 or 1. Where B is
    /// converted, steps of 16 of K are counted instead of stages.
    pub pending: usize,
    /// Hints for the L2.
    pub hints: Hints,
    /// Whether sums of FP8 products leave the tensor cores, which keep fewer bits, after every stage.
    pub promoted: bool,
    /// Whether the kernel itself waits for the kernel before it (programmatic dependent launch).
    pub dependent_launch: bool,
    /// How A is read.
    pub reading: ReadingShape,
    /// The formats of A and B.
    pub formats: Formats,
    /// Whether all phases of the epilogue are computed in the tile, where its lines lie whole; or, in clusters of several
    /// blocks along the lines, in the tiles of a cluster.
    pub in_tile: bool,
    /// Whether approximate instructions are allowed for outputs of any type.
    pub fast_math: bool,
}

impl Sm90Key {
    /// Channels in a box of patches.
    pub(crate) const fn box_channels(&self) -> usize {
        128 / self.instruction.sizes().0
    }

    /// Registers per thread of the producer and of a consumer, as [`Tile::registers`] has them; threads that pick rows need more
    /// of them than one that has the copy engine load.
    #[must_use]
    pub(crate) const fn registers(&self) -> Option<(usize, usize)> {
        match (self.reading.is_picked(), self.tile.consumers) {
            (false, _) | (true, 1) => self.tile.registers(),
            (true, 2) => Some((56, 224)),
            (true, _) => Some((56, 152)),
        }
    }

    /// Whether each warpgroup's columns of the product are in one block of columns. A block of K then has one scale of
    /// each B.
    #[must_use]
    pub(crate) const fn columns_are_in_a_block(&self) -> bool {
        let columns = if self.swap_ab { self.tile.warpgroup_rows() / self.accumulators } else { self.result_tile().1 };
        SCALE_BLOCK.is_multiple_of(columns)
    }

    /// Rows and columns of the product in a tile.
    #[must_use]
    pub const fn product_tile(&self) -> (usize, usize) {
        let (rows, columns) = self.result_tile();
        if self.swap_ab { (columns, rows) } else { (rows, columns) }
    }

    /// Rows and columns of one accumulator in a tile, in MMA terms: what the epilogue handles.
    #[must_use]
    pub const fn result_tile(&self) -> (usize, usize) {
        let Tile { rows, columns, .. } = self.tile;
        if self.swap_ab { (rows / self.accumulators, columns) } else { (rows, columns / self.accumulators) }
    }

    /// Whether the tile can be shared among the accumulators; see `Tile::holds`.
    #[must_use]
    pub const fn holds_accumulators(&self) -> bool {
        self.tile.holds(self.accumulators, self.swap_ab, self.b)
            && self.cores.hold(&self.tile)
            && (self.accumulators == 1 || !self.swap_ab || self.cores.share_rows())
    }

    /// The number of consecutive rows in a stage of B that belong to one accumulator.
    const fn run_of_b(&self) -> usize {
        match (self.accumulators, self.swap_ab) {
            (1, true) => self.tile.rows,
            (_, true) => 64,
            (count, false) => self.tile.columns / count,
        }
    }

    /// For the instruction's first or second operand: the rows of a stage, the number of consecutive rows from one
    /// tensor, and how many blocks share the loading.
    const fn stage_of(&self, first: bool) -> (usize, usize, usize) {
        let (along_rows, along_columns) = self.mma_cluster();
        let (extent, blocks) = if first { (self.tile.rows, along_columns) } else { (self.tile.columns, along_rows) };
        let is_b = first == self.swap_ab;
        (extent, if is_b { self.run_of_b() } else { extent }, blocks)
    }

    /// Rows that one tensor copy loads from an operand that is contiguous along K.
    #[must_use]
    pub(crate) const fn box_rows(&self, first: bool) -> usize {
        let (extent, run, blocks) = self.stage_of(first);
        common_divisor(run, extent / blocks)
    }

    /// Blocks of a cluster along MMA rows and along MMA columns.
    #[must_use]
    pub const fn mma_cluster(&self) -> (usize, usize) {
        if self.swap_ab { (self.cluster.n, self.cluster.m) } else { (self.cluster.m, self.cluster.n) }
    }

    /// Where whole lines lie, if all phases are computed from them: these lines are along MMA columns.
    #[must_use]
    pub const fn within(&self) -> Option<Within> {
        match (self.in_tile, self.mma_cluster()) {
            (false, _) => None,
            (true, (_, 1)) => Some(Within::Tile),
            (true, _) => Some(Within::Cluster),
        }
    }

    /// Rows and columns of the product in which whole lines lie: of a tile, or of a cluster's tiles along the lines.
    #[must_use]
    pub(crate) const fn line_tile(&self) -> (usize, usize) {
        let (tile_m, tile_n) = self.product_tile();
        match (self.within(), self.swap_ab) {
            (Some(Within::Cluster), true) => (tile_m * self.cluster.m, tile_n),
            (Some(Within::Cluster), false) => (tile_m, tile_n * self.cluster.n),
            (Some(Within::Tile) | None, _) => (tile_m, tile_n),
        }
    }

    /// Which index of the instruction's first and of its second operand is contiguous.
    #[must_use]
    pub const fn mma_majors(&self) -> (Major, Major) {
        if self.swap_ab { (self.b, self.a) } else { (self.a, self.b) }
    }

    /// Rows or columns in an operand's stage; for operands that are contiguous along M or N, whole boxes of 64.
    const fn staged(extent: usize, major: Major) -> usize {
        match major {
            Major::K => extent,
            Major::Mn => extent.next_multiple_of(64),
        }
    }

    /// Bytes of an element of the instruction's first and of its second operand.
    #[must_use]
    pub const fn mma_sizes(&self) -> (usize, usize) {
        let (a, b) = self.instruction.sizes();
        if self.swap_ab { (b, a) } else { (a, b) }
    }

    /// Bytes of a k-tile of a row or column of each of the two operands.
    #[must_use]
    pub const fn line_bytes(&self) -> (usize, usize) {
        let ((first, second), tile_k) = (self.mma_sizes(), self.instruction.tile_k());
        (first * tile_k, second * tile_k)
    }

    /// Bytes of each of the two operands in one stage.
    #[must_use]
    pub const fn stage_bytes(&self) -> (usize, usize) {
        let ((first, second), lines) = (self.mma_majors(), self.line_bytes());
        (lines.0 * Self::staged(self.tile.rows, first), lines.1 * Self::staged(self.tile.columns, second))
    }

    /// Whether every block of a cluster can load an equal part of what the cluster shares: whole atoms of 8 rows, or
    /// whole boxes of 64.
    #[must_use]
    pub const fn divides_among_cluster(&self) -> bool {
        let (first, second) = self.mma_majors();
        self.shares(true, first) && self.shares(false, second)
    }

    const fn shares(&self, first: bool, major: Major) -> bool {
        let (extent, _, blocks) = self.stage_of(first);
        match major {
            Major::K => extent.is_multiple_of(8 * blocks) && self.box_rows(first) <= 256,
            Major::Mn => extent.div_ceil(64).is_multiple_of(blocks),
        }
    }

    /// Threads of a block.
    #[must_use]
    pub const fn threads(&self) -> usize {
        self.tile.threads()
    }
}

const fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

impl fmt::Display for Sm90Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.cores.name(), self.instruction, self.tile)?;
        if self.swap_ab {
            f.write_str(" (rows are N)")?;
        }
        write!(f, ", {} stages", self.stages)?;
        if self.cluster != Cluster::NONE {
            write!(f, ", clusters of {}", self.cluster)?;
        }
        write!(f, ", {}", self.raster)?;
        if self.pending == 0 && !self.promoted {
            f.write_str(", every stage waited for")?;
        }
        if self.hints != Hints::default() {
            write!(f, ", {}", self.hints)?;
        }
        if self.dependent_launch {
            f.write_str(", dependent launch")?;
        }
        write!(f, "{}", self.reading)?;
        if self.formats.are_scaled() {
            f.write_str(", block scales")?;
        }
        f.write_str(match self.within() {
            Some(Within::Tile) => ", all phases in the tile",
            Some(Within::Cluster) => ", all phases in a cluster's tiles",
            None => "",
        })?;
        let transposed = if self.reading.is_transposed() { "transposed " } else { "" };
        match self.reading.patches().map(|patches| patches.axes) {
            None => Ok(()),
            Some(1) => write!(f, ", {transposed}patches of one axis"),
            Some(axes) => write!(f, ", {transposed}patches of {axes} axes"),
        }
    }
}
