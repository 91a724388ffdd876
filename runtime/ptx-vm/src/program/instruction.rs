//! An instruction of a decoded kernel, and where it came from.

use crate::exec::Handler;
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

impl Instruction {
    /// Whether all of these modifiers are set.
    #[inline(always)]
    pub(crate) fn has<F: bitflags::Flags<Bits = u32> + Copy>(&self, modifiers: F) -> bool {
        self.flags & modifiers.bits() == modifiers.bits()
    }

    /// The modifiers of one group.
    #[inline(always)]
    pub(crate) fn modifiers<F: bitflags::Flags<Bits = u32>>(&self) -> F {
        F::from_bits_truncate(self.flags)
    }
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
