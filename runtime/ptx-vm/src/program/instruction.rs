//! An instruction of a decoded kernel, its handler (the function of the executor that runs it), and its origin.

use std::ptr::NonNull;

use crate::syntax::ast::Location;

/// Row number in a warp's register file.
pub(crate) type Row = u32;

/// The warp's next step after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Flow {
    /// Goes on with the next instruction.
    Next,
    /// The lanes that executed it jump to the instruction's target.
    Branch,
    /// The lanes that executed it jump to different targets, which the context holds.
    BranchEach,
    /// The lanes that executed it end.
    Exit,
    /// The instruction is done, but the warp must stop: it waits, or another one should run first.
    Pause,
    /// The instruction must be tried again when the warp is woken.
    RetryLater,
    /// The lanes wait for others of their warp, then try again.
    RetryTogether,
    /// The launch failed; the context has the reason.
    Fault,
}

/// The running warp: the executor's `Context`. A program only knows that handlers take it.
pub(crate) enum Running {}

/// Executes one instruction for the lanes of the mask, which must not be empty.
///
/// # Safety
/// The pointer must come from `Context::running` of a running warp, and nobody else may use that context during the
/// call. The instruction must belong to the context's program, and the host must have the features of the level for
/// which the handler was chosen.
pub(crate) type Handler = unsafe fn(NonNull<Running>, &Instruction, u32) -> Flow;

/// An instruction, ready to execute. Each handler defines the exact meaning of the fields.
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
    /// Modifiers that the handler reads at run time.
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

/// The origin of an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// Line in the PTX text.
    pub(crate) line: u32,
    /// Index into [`Program::opcodes`].
    pub(crate) opcode: u32,
    pub(crate) location: Option<Location>,
}
