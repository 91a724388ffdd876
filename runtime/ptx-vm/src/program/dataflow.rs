//! The rows that instructions read and write, and how instructions pass undefined values on.

use super::Row;

/// What an instruction does with undefined values in its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// Its results are undefined, too.
    Passes,
    /// `selp`: the result is undefined if the chosen value is.
    Chooses,
    /// Its results are not undefined: for comparisons.
    Drops,
    /// `mma`: the results in their rows and columns are undefined.
    Multiplies,
    /// `st`: it may not use them as an address. It may store them in shared memory only; those bytes then count as
    /// unwritten.
    Stores,
    /// `shfl`: the result is undefined in lanes that take it from a lane whose value is. The handler tells which.
    Exchanges,
    /// It may not use them.
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
    /// For each instruction, the start of its rows, the start of those that it writes, and what it does with undefined
    /// values.
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
