//! Strips: bytes that neighbouring lanes of a warp access side by side, a piece each.
//!
//! Nearly all accesses to global memory are of this kind. The next access to these bytes usually is, too, with the same
//! lane at each place. So one cell can stand for all lanes, which saves most of the shadow's memory and time. The page
//! gets a cell for each lane if an access is of another kind, or if its order depends on the single lanes.

use super::cell::Cell;
use super::rules::{Fate, Judge};
use super::spill::Spill;
use super::stamp::Stamp;

/// The part of an access in one page that neighbouring lanes make side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// The first byte in the page.
    pub(super) first: u32,
    /// Number of bytes.
    pub(super) length: u32,
    /// Bytes of each lane, as a power of two.
    pub(super) shift: u8,
    /// The first lane.
    pub(super) lane: u32,
}

impl Row {
    /// Its lanes.
    #[inline]
    pub(super) fn lanes(self) -> u32 {
        (u32::MAX >> (32 - (self.length >> self.shift))) << self.lane
    }
}

/// A row that was accessed, always by the same lanes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strip<const READS: usize> {
    row: Row,
    /// Its accesses are by all lanes, each at its own place.
    cell: Cell<READS>,
}

impl<const READS: usize> Strip<READS> {
    pub(super) fn new(row: Row) -> Self {
        Self { row, cell: Cell::EMPTY }
    }

    pub(super) fn shift(&self) -> u8 {
        self.row.shift
    }

    #[inline]
    pub(super) fn overlaps(&self, row: Row) -> bool {
        self.row.first < row.first + row.length && row.first < self.row.first + self.row.length
    }

    /// Judges and records an access; false if it must be done lane by lane.
    #[inline]
    pub(super) fn check<J: Judge>(&mut self, row: Row, now: &Stamp, judge: &J, spill: &mut Spill) -> bool {
        if row != self.row {
            return false;
        }
        let mut together = Together { judge, undecided: false };
        self.cell.judge(now, &mut together, spill, 0);
        if together.undecided {
            return false;
        }
        self.cell.record(now, &together, spill);
        true
    }

    /// Calls `put` with the cells of `1 << shift` bytes and their numbers in the page. `shift` is not larger than that of
    /// the row.
    pub(super) fn expand(mut self, shift: u8, spill: &mut Spill, mut put: impl FnMut(usize, Cell<READS>)) {
        let Row { first, length, shift: each, lane } = self.row;
        for piece in 0..length >> shift {
            let lane = lane + ((piece << shift) >> each);
            put((first >> shift) as usize + piece as usize, self.cell.by(1 << lane, spill));
        }
        self.end(spill);
    }

    /// Ends its list.
    pub(super) fn end(&mut self, spill: &mut Spill) {
        self.cell.end(spill);
    }
}

/// Judges a row as one, as far as that is possible.
struct Together<'j, J> {
    judge: &'j J,
    undecided: bool,
}

impl<J: Judge> Judge for Together<'_, J> {
    fn aim(&mut self, _: u32) {}

    #[inline]
    fn sees(&self, earlier: &Stamp, now: &Stamp) -> bool {
        self.judge.sees_by_lane(earlier, now)
    }

    fn sees_by_lane(&self, earlier: &Stamp, now: &Stamp) -> bool {
        self.judge.sees_by_lane(earlier, now)
    }

    #[inline]
    fn sees_at_once(&self, earlier: &Stamp) -> bool {
        self.judge.sees_at_once(earlier)
    }

    fn fate(&self, earlier: &Stamp) -> Fate {
        self.judge.fate(earlier)
    }

    fn are_known_together(&self, earlier: &Stamp, now: &Stamp) -> bool {
        self.judge.are_known_together(earlier, now)
    }

    fn race(&mut self, _: &Stamp, _: &Stamp, _: u64) {
        self.undecided = true;
    }

    fn same_instruction(&self, _: u32, _: &Stamp) -> bool {
        false
    }
}
