//! The registers of a warp that hold undefined values.

use crate::program::Row;

/// A read that gave an undefined value.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) struct Read {
    pub(in crate::exec) pc: u32,
    pub(in crate::exec) lane: usize,
    pub(in crate::exec) from: ReadFrom,
}

/// The source of the read.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) enum ReadFrom {
    /// Bytes of shared memory that were unwritten.
    Shared { offset: u32, bytes: u32 },
    /// Bytes of local memory that were unwritten, or beyond a variable.
    Local { offset: u32, bytes: u32 },
    /// A cell of tensor memory that was unwritten.
    Tensor { lane: u32, column: u32 },
    /// A register of a lane that takes no part in the shuffle (PTX ISA §9.7.9.6: unpredictable).
    Lane(u32),
    /// A register or predicate that was never written.
    Register,
}

/// The lanes in which a register holds an undefined value, and the number of the read that gave it.
pub(in crate::exec) type Undefined = (u32, u32);

/// The registers and predicates of a warp that hold undefined values.
#[derive(Debug, Default)]
pub(in crate::exec) struct UndefinedValues {
    rows: Vec<Undefined>,
    predicates: Vec<Undefined>,
    /// The number of rows and of predicates with undefined lanes.
    count: usize,
    predicate_count: usize,
    pub(in crate::exec) reads: Vec<Read>,
}

impl UndefinedValues {
    /// No undefined values, but with the numbers of reads kept.
    pub(in crate::exec) fn with_same_reads(&self) -> Self {
        Self { reads: self.reads.clone(), ..Self::default() }
    }

    #[inline(always)]
    pub(in crate::exec) fn is_empty(&self) -> bool {
        self.count + self.predicate_count == 0
    }

    /// Whether every predicate is defined.
    #[inline(always)]
    pub(in crate::exec) fn has_predicates(&self) -> bool {
        self.predicate_count != 0
    }

    pub(in crate::exec) fn clear(&mut self) {
        self.rows.clear();
        self.predicates.clear();
        self.reads.clear();
        (self.count, self.predicate_count) = (0, 0);
    }

    /// The number of a read; each instruction has one.
    pub(in crate::exec) fn number(&mut self, read: Read) -> u32 {
        let known = self.reads.iter().position(|r| r.pc == read.pc);
        known.unwrap_or_else(|| {
            self.reads.push(read);
            self.reads.len() - 1
        }) as u32
    }

    pub(in crate::exec) fn get(&self, row: Row) -> Undefined {
        self.rows.get(row as usize).copied().unwrap_or((0, 0))
    }

    pub(in crate::exec) fn predicate(&self, index: u16) -> Undefined {
        self.predicates.get(index as usize).copied().unwrap_or((0, 0))
    }

    /// Sets which lanes in `mask` hold the value of read number `read`: exactly those in `lanes`.
    pub(in crate::exec) fn set(&mut self, row: Row, mask: u32, lanes: u32, read: u32) {
        set(&mut self.rows, &mut self.count, row as usize, mask, (lanes, read));
    }

    /// Sets the undefined lanes of a predicate.
    pub(in crate::exec) fn set_predicate(&mut self, index: u16, mask: u32, lanes: u32, read: u32) {
        set(&mut self.predicates, &mut self.predicate_count, index.into(), mask, (lanes, read));
    }
}

fn set(all: &mut Vec<Undefined>, count: &mut usize, index: usize, mask: u32, (lanes, read): Undefined) {
    if all.len() <= index {
        if lanes == 0 {
            return;
        }
        all.resize(index + 1, (0, 0));
    }
    let entry = &mut all[index];
    let before = entry.0;
    entry.0 = before & !mask | lanes;
    if lanes != 0 {
        entry.1 = read;
    }
    *count = *count + usize::from(entry.0 != 0) - usize::from(before != 0);
}
