//! A decoded kernel: instructions bound to handlers and to places in the register file.
//!
//! The register file of a warp is a block of rows; a row is 32 words of 32 bits, one for each lane. A register of up to
//! 32 bits is one row, a 64-bit register is two adjacent rows read as 32 words of 64 bits. Constants, special registers
//! and parameters that the code names are rows too, filled before the warp starts, so every operand is just a row number.
//! Predicates are 32-bit masks in a file of their own.

use crate::exec::bulk::BulkForm;
use crate::exec::wgmma::WgmmaForm;
use crate::exec::{Handler, LaneFunction};
use crate::numerics::mma::Mma;
use crate::numerics::tensor_field::MapField;
use crate::syntax::ast::Location;

/// Row number in a warp's register file.
pub(crate) type Row = u32;

/// An instruction, ready to execute. What the fields mean beyond their names is the handler's business.
#[derive(Clone)]
pub(crate) struct Instruction {
    pub(crate) run: Handler,
    /// Destination row.
    pub(crate) d: Row,
    /// First source row.
    pub(crate) a: Row,
    /// Second source row.
    pub(crate) b: Row,
    /// Third source row.
    pub(crate) c: Row,
    /// Offset, immediate or branch target.
    pub(crate) imm: i64,
    /// Start of further rows in [`Program::rows`].
    pub(crate) list: u32,
    /// Modifiers that the handler looks at when it runs.
    pub(crate) flags: u32,
    /// Predicate operands.
    pub(crate) p: u16,
    pub(crate) q: u16,
    /// The guard; predicate 0 is always true.
    pub(crate) guard: u16,
    /// Whether the guard is negated.
    pub(crate) negated: bool,
}

/// Where an instruction came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// Line in the PTX text.
    pub(crate) line: u32,
    /// Index into [`Program::opcodes`].
    pub(crate) opcode: u32,
    pub(crate) location: Option<Location>,
}

/// What becomes of undefined values that an instruction takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// Its results are undefined too.
    Passes,
    /// `selp`: its result is, if it chooses one.
    Chooses,
    /// Its results are not: comparisons.
    Drops,
    /// `mma`: the results of their rows and columns are.
    Multiplies,
    /// `st`: not as an address; as a value, in shared memory only, whose bytes are then as if unwritten.
    Stores,
    /// It may not take them.
    Uses,
}

/// The rows that an instruction reads and writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowEffect<'a> {
    pub(crate) uses: &'a [Row],
    pub(crate) defs: &'a [Row],
    pub(crate) passage: Passage,
}

/// The rows that every instruction reads and writes.
#[derive(Debug, Default)]
pub(crate) struct Dataflow {
    /// By instruction: where its rows start, where those it writes start, what becomes of undefined values.
    entries: Vec<(u32, u32, Passage)>,
    rows: Vec<Row>,
}

impl Dataflow {
    /// Adds the next instruction.
    pub(crate) fn push(&mut self, effect: RowEffect<'_>) {
        let start = self.rows.len();
        self.entries.push((start as u32, (start + effect.uses.len()) as u32, effect.passage));
        self.rows.extend_from_slice(effect.uses);
        self.rows.extend_from_slice(effect.defs);
    }

    /// The rows of an instruction.
    pub(crate) fn of(&self, pc: u32) -> RowEffect<'_> {
        let Some(&(start, middle, passage)) = self.entries.get(pc as usize) else {
            return RowEffect { uses: &[], defs: &[], passage: Passage::Uses };
        };
        let end = self.entries.get(pc as usize + 1).map_or(self.rows.len(), |next| next.0 as usize);
        let (start, middle) = (start as usize, middle as usize);
        RowEffect { uses: &self.rows[start..middle], defs: &self.rows[middle..end], passage }
    }
}

/// What fills a row before a warp starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// The same 32 or 64 bits in every lane.
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
    /// Zero; for registers that may be read before they are written.
    Zero,
}

/// Special registers that keep their value while a block runs (PTX ISA §10).
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
    /// Whether the value is the same for every block in the same place of a worker.
    pub(crate) fn is_fixed(self) -> bool {
        !matches!(self, Special::Block(_) | Special::Cluster(_) | Special::BlockInCluster(_) | Special::RankInCluster)
    }
}

/// A row to fill.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fill {
    pub(crate) row: Row,
    pub(crate) wide: bool,
    pub(crate) source: Source,
}

/// A decoded kernel.
pub(crate) struct Program {
    pub(crate) code: Vec<Instruction>,
    pub(crate) origins: Vec<Origin>,
    pub(crate) opcodes: Vec<String>,
    /// Rows of vector operands, one list after the other.
    pub(crate) rows: Vec<Row>,
    /// Functions of [`crate::exec::General`] instructions.
    pub(crate) functions: Vec<LaneFunction>,
    /// The products of `mma.sync` instructions.
    pub(crate) products: Vec<Mma>,
    /// The products of `wgmma` instructions.
    pub(crate) warpgroup_products: Vec<WgmmaForm>,
    /// The shapes of bulk copies.
    pub(crate) bulk: Vec<BulkForm>,
    pub(crate) dataflow: Dataflow,
    /// The fields that `tensormap.replace` sets.
    pub(crate) map_fields: Vec<MapField>,
    /// `brx.idx` targets, one list after the other.
    pub(crate) targets: Vec<u32>,
    /// Rows in a warp's register file.
    pub(crate) row_count: u32,
    /// Predicates in a warp's predicate file; 0 is always true, 1 always false.
    pub(crate) predicate_count: u16,
    pub(crate) fills: Vec<Fill>,
    pub(crate) parameter_bytes: u32,
    pub(crate) static_shared: u32,
    /// Name, offset and size of the static shared variables.
    pub(crate) shared_names: Vec<(String, u32, u32)>,
    /// Alignment that dynamic shared memory starts at.
    pub(crate) dynamic_shared_alignment: u32,
    /// Bytes of local memory of a thread.
    pub(crate) local_bytes: u32,
    pub(crate) max_threads: Option<u32>,
    pub(crate) required_block: Option<[u32; 3]>,
    pub(crate) required_cluster: Option<[u32; 3]>,
    /// `.file` names by number.
    pub(crate) files: Vec<(u32, String)>,
}

/// A `.global` or `.const` variable.
pub(crate) struct ModuleVariable {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) element_bytes: usize,
    pub(crate) values: Vec<Value>,
}

/// One initial value of a variable.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    Bits(u64),
    Address { variable: usize, offset: i64 },
}
