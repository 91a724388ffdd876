//! What a kernel for sm_90a is generated from.

use std::fmt::{self, Write as _};

use crate::evt::Cost;
use crate::gemm::key::SplitKind;
use crate::gemm::problem::Major;
use crate::gemm::sm90::instruction::Wgmma;
use crate::gemm::sm90::shared::{SharedMap, Traffic};
use crate::gemm::sm90::tile::{Schedule, Tile};

/// Blocks that run together and load for each other, in product terms: `m` along M share B's tile, `n` along N share
/// A's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cluster {
    /// Blocks along M.
    pub m: usize,
    /// Blocks along N.
    pub n: usize,
}

impl Cluster {
    /// A block alone.
    pub const NONE: Self = Self { m: 1, n: 1 };

    /// Blocks in all.
    #[must_use]
    pub const fn blocks(self) -> usize {
        self.m * self.n
    }
}

/// The order in which tiles are computed: groups of so many (clusters of) tiles along one axis, walked along the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Raster {
    /// Clusters of tiles in a group.
    pub group: usize,
    /// Whether groups are along N rather than along M.
    pub along_n: bool,
}

/// What the L2 is told of an access (PTX ISA 9.7.9, cache eviction priorities).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Hint {
    /// Nothing.
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
    /// Of A.
    pub a: Hint,
    /// Of B.
    pub b: Hint,
    /// Of the outputs.
    pub outputs: Hint,
}

/// How the epilogue's tensors pass through shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Staging {
    /// MMA columns of one step of a warpgroup.
    pub step: usize,
    /// Steps of outputs that are on their way to memory at once.
    pub output_stages: usize,
    /// Steps of inputs that are on their way from memory at once.
    pub input_stages: usize,
}

/// What a kernel of the family for sm_90a is generated from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sm90Key {
    /// What multiplies.
    pub instruction: Wgmma,
    /// The tile, in MMA terms.
    pub tile: Tile,
    /// Whether the tile's rows are the product's columns.
    pub swapped: bool,
    /// Pipeline stages.
    pub stages: usize,
    /// Blocks that load for each other.
    pub cluster: Cluster,
    /// The tiles' order.
    pub raster: Raster,
    /// Whether and how K is shared among blocks; the number of blocks is a run-time argument.
    pub split_k: SplitKind,
    /// Which index of A is contiguous.
    pub a: Major,
    /// Which index of B is contiguous.
    pub b: Major,
    /// How the epilogue's tensors pass through shared memory.
    pub staging: Staging,
    /// Bit `i` is set where argument `i` of a run is a tensor that tensor copies can't reach (its rows do not begin at
    /// multiples of 16 bytes, say); it is accessed element by element.
    pub direct: u64,
    /// Stages whose products may be unfinished while the next stage's are started: 0 or 1.
    pub pending: usize,
    /// What the L2 is told.
    pub hints: Hints,
    /// Whether sums of FP8 products leave the tensor cores, which keep fewer bits, after every stage.
    pub promoted: bool,
    /// Whether the kernel waits for the one before it by itself (programmatic dependent launch).
    pub dependent_launch: bool,
    /// Whether approximate instructions may be used whatever the outputs' types.
    pub fast_math: bool,
}

/// Instructions of an epilogue that stand one after the other: 160 KB, about what the instruction caches hold. Kernels
/// with more of them, of NVRTC 13.0, also take long to compile and keep values in memory.
const MOST_INSTRUCTIONS: usize = 10_000;
/// As many are left where the code is gone through more than once, which costs moves of the accumulators.
const IN_ROUND: usize = 6_000;

/// Estimated instructions of an element, of whose tensors tensor copies don't reach some.
fn instructions(e: &Cost, traffic: &Traffic) -> usize {
    let reductions = 8 * (e.row_reductions + e.all_reductions) + 12 * e.column_reductions;
    let copied = traffic.inputs.len() + traffic.outputs.len();
    let direct = (e.loads + e.stores).saturating_sub(copied);
    8 + e.simple_operations + 24 * e.costly_operations + 6 * copied + 40 * direct + reductions
}

impl Sm90Key {
    /// Rows and columns of the product that a tile has.
    #[must_use]
    pub const fn product_tile(&self) -> (usize, usize) {
        if self.swapped { (self.tile.columns, self.tile.rows) } else { (self.tile.rows, self.tile.columns) }
    }

    /// Blocks of a cluster along MMA rows and along MMA columns.
    #[must_use]
    pub const fn mma_cluster(&self) -> (usize, usize) {
        if self.swapped { (self.cluster.n, self.cluster.m) } else { (self.cluster.m, self.cluster.n) }
    }

    /// Which index of the instruction's first and of its second operand is contiguous.
    #[must_use]
    pub const fn mma_majors(&self) -> (Major, Major) {
        if self.swapped { (self.b, self.a) } else { (self.a, self.b) }
    }

    /// Rows or columns that an operand's stage holds: of operands along M or N, whole boxes of 64.
    const fn staged(extent: usize, major: Major) -> usize {
        match major {
            Major::K => extent,
            Major::Mn => extent.next_multiple_of(64),
        }
    }

    /// Bytes of the two operands' parts of one stage.
    #[must_use]
    pub const fn stage_bytes(&self) -> (usize, usize) {
        let (first, second) = self.mma_majors();
        (128 * Self::staged(self.tile.rows, first), 128 * Self::staged(self.tile.columns, second))
    }

    /// Whether every block of a cluster can load an equal share of what it shares: whole atoms of 8 rows, or whole
    /// boxes of 64.
    #[must_use]
    pub const fn divides_among_cluster(&self) -> bool {
        let (along_rows, along_columns) = self.mma_cluster();
        let (first, second) = self.mma_majors();
        Self::shares(self.tile.rows, first, along_columns) && Self::shares(self.tile.columns, second, along_rows)
    }

    const fn shares(extent: usize, major: Major, blocks: usize) -> bool {
        match major {
            Major::K => extent.is_multiple_of(8 * blocks) && extent / blocks <= 256,
            Major::Mn => extent.div_ceil(64).is_multiple_of(blocks),
        }
    }

    /// Threads of a block.
    #[must_use]
    pub const fn threads(&self) -> usize {
        self.tile.threads()
    }

    /// How often the code of the epilogue is gone through for a tile's columns: once, or if that is more code than
    /// `MOST_INSTRUCTIONS`, as often as leaves `IN_ROUND` of them, where the steps can be so divided.
    #[must_use]
    pub fn epilogue_rounds(&self, epilogue: &Cost, traffic: &Traffic) -> usize {
        let instructions = self.tile.accumulator_registers() * instructions(epilogue, traffic);
        if instructions <= MOST_INSTRUCTIONS {
            return 1;
        }
        let steps = self.tile.columns / self.staging.step.max(1);
        let rounds = (1..=steps).filter(|rounds| steps.is_multiple_of(*rounds));
        rounds.into_iter().find(|rounds| instructions / rounds <= IN_ROUND).unwrap_or(steps.max(1))
    }

    /// The `Config` that the headers of `src/device/sm90/` take everything from.
    #[must_use]
    pub fn configuration(&self, map: &SharedMap, epilogue_rounds: usize) -> String {
        let (tile_m, tile_n) = self.product_tile();
        let (cluster_rows, cluster_columns) = self.mma_cluster();
        let (first, second) = self.mma_majors();
        let (first_hint, second_hint) =
            if self.swapped { (self.hints.b, self.hints.a) } else { (self.hints.a, self.hints.b) };
        let (producer_registers, consumer_registers) = self.tile.registers().unwrap_or((0, 0));
        let (a_stage, b_stage) = self.stage_bytes();
        let numbers: [(&str, usize); 39] = [
            ("TILE_M", tile_m),
            ("TILE_N", tile_n),
            ("MMA_ROWS", self.tile.rows),
            ("MMA_COLUMNS", self.tile.columns),
            ("TILE_K", self.instruction.tile_k()),
            ("ELEMENT_BYTES", self.instruction.element_size()),
            ("CONSUMERS", self.tile.consumers),
            ("WG_ROWS", self.tile.warpgroup_rows()),
            ("WG_COLUMNS", self.tile.columns),
            ("STAGES", self.stages),
            ("PENDING", self.pending),
            ("CLUSTER_M", self.cluster.m),
            ("CLUSTER_N", self.cluster.n),
            ("CLUSTER_ROWS", cluster_rows),
            ("CLUSTER_COLUMNS", cluster_columns),
            ("PRODUCER_REGISTERS", producer_registers),
            ("CONSUMER_REGISTERS", consumer_registers),
            ("GROUP", self.raster.group),
            ("STEP", self.staging.step),
            ("EPILOGUE_ROUNDS", epilogue_rounds),
            ("OUTPUT_STAGES", map.output_stages),
            ("AUX_STAGES", map.input_stages),
            ("A_STAGE_BYTES", a_stage),
            ("B_STAGE_BYTES", b_stage),
            ("STAGE_TX_BYTES", a_stage + b_stage),
            ("OUTPUT_STAGE_BYTES", map.output_stage_bytes),
            ("AUX_STAGE_BYTES", map.input_stage_bytes),
            ("AUX_TX_BYTES", map.input_transfer_bytes),
            ("A_OFFSET", map.a.start),
            ("B_OFFSET", map.b.start),
            ("OUTPUT_OFFSET", map.outputs.start),
            ("AUX_OFFSET", map.inputs.start),
            ("VECTOR_OFFSET", map.vectors.start),
            ("REDUCTION_OFFSET", map.reductions.start),
            ("REDUCTION_BYTES", map.reductions.len()),
            ("CONTROL_OFFSET", map.control.start),
            ("CONTROL_BYTES", map.control.len()),
            ("SHARED_BYTES", map.bytes()),
            ("THREADS", self.threads()),
        ];
        let mut text =
            format!("struct Config {{\n    using Accumulator = {};\n", self.instruction.accumulator().name());
        let enumerators = [
            ("Schedule", "SCHEDULE", schedule_name(self.tile.schedule)),
            ("Major", "A_MAJOR", major_name(first)),
            ("Major", "B_MAJOR", major_name(second)),
            ("SplitK", "SPLIT_K", split_name(self.split_k)),
            ("Hint", "A_HINT", hint_name(first_hint)),
            ("Hint", "B_HINT", hint_name(second_hint)),
            ("Hint", "OUTPUT_HINT", hint_name(self.hints.outputs)),
        ];
        for (kind, name, value) in enumerators {
            let _ = writeln!(text, "    static constexpr sm90::{kind} {name} = sm90::{kind}::{value};");
        }
        let flags = [
            ("SPLIT_COLUMNS", false),
            ("SWAPPED", self.swapped),
            ("RASTER_N", self.raster.along_n),
            ("PROMOTE", self.promoted),
            ("DEPENDENT_LAUNCH", self.dependent_launch),
        ];
        for (name, value) in flags {
            let _ = writeln!(text, "    static constexpr bool {name} = {value};");
        }
        for (name, value) in numbers {
            let _ = writeln!(text, "    static constexpr int {name} = {value};");
        }
        text.push_str("};\n");
        text
    }
}

const fn schedule_name(schedule: Schedule) -> &'static str {
    match schedule {
        Schedule::Cooperative => "Cooperative",
        Schedule::PingPong => "PingPong",
    }
}

const fn major_name(major: Major) -> &'static str {
    match major {
        Major::K => "K",
        Major::Mn => "MN",
    }
}

const fn split_name(split_k: SplitKind) -> &'static str {
    match split_k {
        SplitKind::None => "None",
        SplitKind::Serial => "Serial",
        SplitKind::Parallel => "Parallel",
        SplitKind::Stream => "Stream",
    }
}

const fn hint_name(hint: Hint) -> &'static str {
    match hint {
        Hint::Normal => "Normal",
        Hint::First => "First",
        Hint::Last => "Last",
    }
}

impl fmt::Display for Sm90Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.instruction, self.tile)?;
        if self.swapped {
            f.write_str(" (rows are N)")?;
        }
        write!(f, ", {} stages", self.stages)?;
        if self.cluster != Cluster::NONE {
            write!(f, ", clusters of {}x{}", self.cluster.m, self.cluster.n)?;
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
        Ok(())
    }
}
