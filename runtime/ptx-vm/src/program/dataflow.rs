//! The registers and predicates that instructions read and write, and how instructions pass undefined values on.

use super::Row;

/// The effect of undefined operands on an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// Its results are undefined, too.
    Passes,
    /// `and`, `or` and products of integers: the result is undefined, except where the other operand alone decides it: an
    /// `and` with 0.
    Masks,
    /// `mov` of several registers into one, and `prmt` of bytes of two: the result is undefined if all are.
    Packs,
    /// `selp`: the result is undefined if the chosen value or the predicate is.
    Chooses,
    /// `and`, `or`, `xor`, `not` and `mov` of predicates: the result is undefined if it depends on an operand that is.
    Decides,
    /// `mma`: the results in their rows and columns are undefined.
    Multiplies,
    /// `wgmma`: the results in A's rows are undefined, and so are those to which an undefined value is added.
    Accumulates,
    /// `st`, `stmatrix`: it may not use them as an address. It may store them in shared and local memory only; those bytes
    /// then count as unwritten.
    Stores,
    /// `shfl`: the result is undefined in lanes that take it from a lane whose value is. The handler tells which.
    Exchanges,
    /// It keeps registers alive, and doesn't read them.
    Keeps,
    /// It may not use them.
    Uses,
}

/// The rows that an instruction reads and writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effect<'a> {
    pub(crate) uses: &'a [Row],
    pub(crate) defs: &'a [Row],
    /// The predicates that it reads, beside its guard.
    pub(crate) predicate_uses: &'a [u16],
    pub(crate) predicate_defs: &'a [u16],
    pub(crate) passage: Passage,
}

/// The ends of an instruction's parts in the lists.
#[derive(Clone, Copy, Debug)]
struct Entry {
    uses: u32,
    defs: u32,
    predicate_uses: u32,
    predicate_defs: u32,
    passage: Passage,
}

/// The rows that every instruction reads and writes.
#[derive(Debug, Default)]
pub(crate) struct Dataflow {
    entries: Vec<Entry>,
    rows: Vec<Row>,
    predicates: Vec<u16>,
}

impl Dataflow {
    /// Adds the next instruction.
    pub(crate) fn push(&mut self, effect: Effect<'_>) {
        self.rows.extend_from_slice(effect.uses);
        let uses = self.rows.len() as u32;
        self.rows.extend_from_slice(effect.defs);
        self.predicates.extend_from_slice(effect.predicate_uses);
        let predicate_uses = self.predicates.len() as u32;
        self.predicates.extend_from_slice(effect.predicate_defs);
        self.entries.push(Entry {
            uses,
            defs: self.rows.len() as u32,
            predicate_uses,
            predicate_defs: self.predicates.len() as u32,
            passage: effect.passage,
        });
    }

    /// The rows that an instruction reads and writes.
    pub(crate) fn of(&self, pc: u32) -> Effect<'_> {
        let Some(entry) = self.entries.get(pc as usize) else {
            let passage = Passage::Uses;
            return Effect { uses: &[], defs: &[], predicate_uses: &[], predicate_defs: &[], passage };
        };
        let before = (pc as usize).checked_sub(1).map(|before| self.entries[before]);
        let (rows, predicates) = before.map_or((0, 0), |before| (before.defs as usize, before.predicate_defs as usize));
        Effect {
            uses: &self.rows[rows..entry.uses as usize],
            defs: &self.rows[entry.uses as usize..entry.defs as usize],
            predicate_uses: &self.predicates[predicates..entry.predicate_uses as usize],
            predicate_defs: &self.predicates[entry.predicate_uses as usize..entry.predicate_defs as usize],
            passage: entry.passage,
        }
    }
}
