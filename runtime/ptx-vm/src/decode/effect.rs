//! The effect of an instruction on registers and control flow, for the assignment of rows.

/// Where control goes after an instruction.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Successor {
    Next,
    /// Nowhere: the lanes end.
    None,
    Label(u32),
    Table(usize),
}

/// The registers that an instruction reads and writes.
#[derive(Clone, Debug)]
pub(super) struct Effect {
    pub(super) defs: Vec<u32>,
    pub(super) uses: Vec<u32>,
    /// The predicates that it reads, beside its guard, and those that it writes.
    pub(super) predicate_uses: Vec<u16>,
    pub(super) predicate_defs: Vec<u16>,
    pub(super) successor: Successor,
    /// Whether the instruction has a guard, so that it may not be executed.
    pub(super) conditional: bool,
}
