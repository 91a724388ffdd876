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
    /// Bytes beyond a local variable.
    Local { offset: u32, bytes: u32 },
    /// A register of a lane that takes no part in the shuffle (PTX ISA §9.7.9.6: unpredictable).
    Lane(u32),
}

/// The registers of a warp that hold undefined values.
#[derive(Debug, Default)]
pub(in crate::exec) struct UndefinedValues {
    /// For each row, the lanes, and the number of the read that gave the value.
    rows: Vec<(u32, u32)>,
    /// The number of rows with such lanes.
    count: usize,
    pub(in crate::exec) reads: Vec<Read>,
}

impl UndefinedValues {
    #[inline(always)]
    pub(in crate::exec) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(in crate::exec) fn clear(&mut self) {
        self.rows.clear();
        self.reads.clear();
        self.count = 0;
    }

    /// The number of a read; each instruction has one.
    pub(in crate::exec) fn number(&mut self, read: Read) -> usize {
        let known = self.reads.iter().position(|r| r.pc == read.pc);
        known.unwrap_or_else(|| {
            self.reads.push(read);
            self.reads.len() - 1
        })
    }

    pub(in crate::exec) fn get(&self, row: Row) -> (u32, u32) {
        self.rows.get(row as usize).copied().unwrap_or((0, 0))
    }

    /// Sets which lanes in `mask` hold the value of read number `read`: exactly those in `lanes`.
    pub(in crate::exec) fn set(&mut self, row: Row, mask: u32, lanes: u32, read: u32) {
        let index = row as usize;
        if self.rows.len() <= index {
            if lanes == 0 {
                return;
            }
            self.rows.resize(index + 1, (0, 0));
        }
        let entry = &mut self.rows[index];
        let before = entry.0;
        entry.0 = before & !mask | lanes;
        if lanes != 0 {
            entry.1 = read;
        }
        self.count = self.count + usize::from(entry.0 != 0) - usize::from(before != 0);
    }
}
