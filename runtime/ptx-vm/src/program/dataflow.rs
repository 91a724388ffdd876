//! The rows that instructions read and write, and what becomes of undefined values in them.

use super::Row;

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
    /// `shfl`: its result is in the lanes that take the value of a lane where it is; the handler says which.
    Exchanges,
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
