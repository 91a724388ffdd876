//! A decoded kernel: instructions with their handlers, and rows of the register file as operands.
//!
//! The register file of a warp is a block of rows. A row is 32 words of 32 bits, one for each lane. A register of up to
//! 32 bits is one row; a 64-bit register is two adjacent rows that are read as 32 words of 64 bits. Constants, special
//! registers and parameters that the code names are rows, too, which are filled before the warp starts. So every
//! operand is just the number of a row. Predicates are 32-bit masks in a separate file.

mod after;
pub(crate) mod dataflow;
pub(crate) mod flags;
pub(crate) mod forms;
mod instruction;
mod kernel;
mod place;
mod special;
mod variables;

use crate::arch::Feature;
use crate::numerics::mma::Mma;
use crate::numerics::scaled_mma::ScaledMma;
use crate::numerics::tensor_field::MapField;

pub(crate) use self::after::After;
use self::dataflow::Dataflow;
use self::forms::{BulkForm, LaneFunction, MoveForm, TensorCopyForm, TensorProductForm, WgmmaForm};
pub(crate) use self::instruction::{Flow, Handler, Instruction, Origin, Row, Running};
pub use self::kernel::{Kernel, Parameter};
pub(crate) use self::special::{Fill, Special, SpecialSource};
pub(crate) use self::variables::Variables;

/// A feature that a kernel needs, and the first instruction that needs it.
pub(crate) struct Need {
    pub(crate) feature: Feature,
    pub(crate) line: u32,
    /// The number of its opcode.
    pub(crate) opcode: u32,
}

/// A decoded kernel.
pub(crate) struct Program {
    pub(crate) code: Vec<Instruction>,
    pub(crate) origins: Vec<Origin>,
    pub(crate) opcodes: Vec<String>,
    /// The features that not every architecture has.
    pub(crate) needs: Vec<Need>,
    /// The rows of vector operands: concatenated lists.
    pub(crate) rows: Vec<Row>,
    /// Functions of `General` instructions.
    pub(crate) functions: Vec<LaneFunction>,
    /// The products of `mma.sync` instructions.
    pub(crate) products: Vec<Mma>,
    /// The products of `mma.sync` instructions with block scales.
    pub(crate) scaled_products: Vec<ScaledMma>,
    /// The products of `wgmma` instructions.
    pub(crate) warpgroup_products: Vec<WgmmaForm>,
    /// The products, copies, loads and stores of `tcgen05`.
    pub(crate) tensor_products: Vec<TensorProductForm>,
    pub(crate) tensor_copies: Vec<TensorCopyForm>,
    pub(crate) tensor_moves: Vec<MoveForm>,
    /// The shapes of bulk copies.
    pub(crate) bulk: Vec<BulkForm>,
    pub(crate) dataflow: Dataflow,
    /// The registers and predicates that may be read before they are written.
    pub(crate) rows_at_entry: Vec<Row>,
    pub(crate) predicates_at_entry: Vec<u16>,
    /// The aligned barriers of all threads.
    pub(crate) after_barriers: Vec<After>,
    /// The instructions with a member mask, in order.
    pub(crate) after_collectives: Vec<After>,
    /// The fields that `tensormap.replace` sets.
    pub(crate) map_fields: Vec<MapField>,
    /// The targets of `brx.idx`: concatenated lists.
    pub(crate) targets: Vec<u32>,
    /// Number of rows in a warp's register file.
    pub(crate) row_count: u32,
    /// Number of predicates in a warp's predicate file. Predicate 0 is always true, 1 always false.
    pub(crate) predicate_count: u16,
    pub(crate) fills: Vec<Fill>,
    pub(crate) parameter_bytes: u32,
    /// Bytes of the static shared variables, without the gaps between them.
    pub(crate) static_shared: u32,
    /// The end of the last of them.
    pub(crate) shared_end: u32,
    /// The static shared variables.
    pub(crate) shared: Variables,
    /// Where dynamic shared memory begins.
    pub(crate) dynamic_shared_start: u32,
    /// The alignment of dynamic shared memory.
    pub(crate) dynamic_shared_alignment: u32,
    /// The local variables of a thread.
    pub(crate) local: Variables,
    /// The bytes that they need, without the gaps between them.
    pub(crate) local_declared: u32,
    /// Bytes of local memory of a thread.
    pub(crate) local_bytes: u32,
    pub(crate) max_threads: Option<u32>,
    /// `.maxnreg`.
    pub(crate) max_registers: Option<u32>,
    /// `.minnctapersm`.
    pub(crate) min_blocks: Option<u32>,
    pub(crate) required_block: Option<[u32; 3]>,
    pub(crate) required_cluster: Option<[u32; 3]>,
    /// `.file` names by number.
    pub(crate) files: Vec<(u32, String)>,
}

impl Program {
    /// Whether it uses tensor memory.
    pub(crate) fn uses_tensor_memory(&self) -> bool {
        self.needs.iter().any(|need| need.feature == Feature::TensorMemory)
    }

    /// The code after an instruction with a member mask that can't return to it.
    pub(crate) fn after_collective(&self, pc: u32) -> Option<&After> {
        let found = self.after_collectives.binary_search_by_key(&pc, |after| after.instruction);
        found.ok().map(|place| &self.after_collectives[place])
    }

    /// The most registers that a thread can have when a block of `threads` threads is launched: the kernel's own limit,
    /// or what an SM has for the blocks that it must hold, in units of eight.
    pub(crate) fn registers_at_launch(&self, threads: u32) -> u32 {
        const OF_A_MULTIPROCESSOR: u32 = 65536;
        const OF_A_THREAD: u32 = 255;
        let warps = threads.div_ceil(32) * 32;
        let room = OF_A_MULTIPROCESSOR / warps.max(32).saturating_mul(self.min_blocks.unwrap_or(1).max(1));
        self.max_registers.unwrap_or(OF_A_THREAD).min(room).min(OF_A_THREAD).next_multiple_of(8).min(room / 8 * 8)
    }
}

/// A `.global` or `.const` variable.
pub(crate) struct ModuleVariable {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) element_bytes: usize,
    pub(crate) values: Vec<ProgramValue>,
}

/// One initial value of a variable.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ProgramValue {
    Bits(u64),
    Address { variable: usize, offset: i64 },
}
