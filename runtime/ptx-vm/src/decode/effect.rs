//! What an instruction does to registers and to control, for the assignment of rows.

/// Where control goes after an instruction.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Successor {
    Next,
    /// Nowhere: the lanes end.
    None,
    Label(u32),
    Table(usize),
}

/// What an instruction does to registers.
#[derive(Clone, Debug)]
pub(super) struct Effect {
    pub(super) defs: Vec<u32>,
    pub(super) uses: Vec<u32>,
    pub(super) successor: Successor,
    /// Whether the instruction has a guard: then it may not happen.
    pub(super) conditional: bool,
}
