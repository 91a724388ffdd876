//! An instruction of a decoded kernel, the function of the executor that runs it, and where it came from.

use std::ptr::NonNull;

use crate::syntax::ast::Location;

/// Row number in a warp's register file.
pub(crate) type Row = u32;

/// What the warp does after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Flow {
    /// Goes on with the next instruction.
    Next,
    /// The lanes that executed it jump to the instruction's target.
    Branch,
    /// The lanes that executed it jump to targets of their own, which the context holds.
    BranchEach,
    /// The lanes that executed it end.
    Exit,
    /// The instruction is done and something must be rescheduled: the warp waits, or another should run first.
    Pause,
    /// The instruction must be tried again when the warp is woken.
    RetryLater,
    /// The lanes wait for others of their warp, then try again.
    RetryTogether,
    /// The launch failed; the context says why.
    Fault,
}

/// The running warp, of which a program knows only that handlers take it: the executor's `Context`.
pub(crate) enum Running {}

/// Executes one instruction for the lanes of the mask, which is not empty.
///
/// # Safety
/// The pointer is to the executor's context of a running warp, which nobody else uses meanwhile
/// (`Context::running`). The instruction belongs to the program of the context, and the host has the features of the level
/// that the handler was selected for.
pub(crate) type Handler = unsafe fn(NonNull<Running>, &Instruction, u32) -> Flow;

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
