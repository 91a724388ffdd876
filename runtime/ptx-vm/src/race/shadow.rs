//! Shadow memory: for each cell, its last write, and the accesses since.
//!
//! At first a cell stands for 16 bytes. In pages with finer accesses it stands for fewer, down to one. So tiles that
//! are moved in 16-byte pieces stay cheap, and neighbouring half-precision elements are still told apart. A page has
//! one cell for each row, if neighbouring lanes made all of its accesses side by side: see [`strip`](super::strip).

use super::Space;
use super::cell::Cell;
use super::lanes::lanes_of;
use super::rules::Judge;
use super::spill::Spill;
use super::spread::{Spread, Spreads, WORD, WORDS};
use super::stamp::Stamp;
use super::strip::{Row, Strip};

/// Number of bytes of memory for one page.
pub(super) const PAGE: u64 = (WORD * WORDS) as u64;
const COARSE: u8 = 4;

/// One page of cells, or of strips.
#[derive(Clone, Debug)]
struct Page<const READS: usize> {
    shift: u8,
    /// Empty as long as strips stand for all of it.
    cells: Box<[Cell<READS>]>,
    strips: Vec<Strip<READS>>,
    /// Reads that whole warps made, if pages have such.
    spreads: Option<Box<Spreads>>,
}

impl<const READS: usize> Page<READS> {
    /// A page of empty cells of `1 << shift` bytes.
    fn new(shift: u8) -> Self {
        Self { shift, cells: vec![Cell::EMPTY; (PAGE >> shift) as usize].into(), strips: Vec::new(), spreads: None }
    }

    /// A page without accesses, for strips.
    fn striped() -> Self {
        Self { shift: COARSE, cells: Box::default(), strips: Vec::new(), spreads: None }
    }

    /// Replaces the strips by cells, one or more for each lane.
    #[cold]
    fn expand(&mut self, spill: &mut Spill) {
        let shift = self.strips.iter().map(Strip::shift).min().unwrap_or(COARSE).min(COARSE);
        *self = Self { strips: std::mem::take(&mut self.strips), ..Self::new(shift) };
        for strip in std::mem::take(&mut self.strips) {
            strip.expand(shift, spill, |place, cell| self.cells[place] = cell);
        }
    }

    /// Judges and records an access of a row as one; false if it must be done lane by lane.
    fn check_row<J: Judge>(&mut self, row: Row, now: &Stamp, judge: &J, spill: &mut Spill) -> bool {
        if !self.cells.is_empty() {
            return false;
        }
        match self.strips.iter_mut().find(|strip| strip.overlaps(row)) {
            Some(strip) => strip.check(row, now, judge, spill),
            None => {
                let mut strip = Strip::new(row);
                let is_new = strip.check(row, now, judge, spill);
                self.strips.push(strip);
                is_new
            }
        }
    }

    #[cold]
    fn refine(&mut self, shift: u8, spill: &mut Spill) {
        let copies = 1 << (self.shift - shift);
        let mut cells = Vec::with_capacity((PAGE >> shift) as usize);
        for cell in &self.cells {
            for copy in 0..copies {
                cells.push(if copy > 0 { cell.duplicate(spill) } else { *cell });
            }
        }
        (self.shift, self.cells) = (shift, cells.into());
    }

    fn check<J: Judge>(&mut self, bytes: Bytes, now: &Stamp, judge: &mut J, spill: &mut Spill) {
        let Bytes { page_address, first, length } = bytes;
        if self.cells.is_empty() {
            self.expand(spill);
        }
        let fine = bytes.shift();
        if fine < self.shift {
            self.refine(fine, spill);
        }
        let shift = self.shift;
        let cells = &mut self.cells[(first >> shift) as usize..((first + length) >> shift) as usize];
        let address = page_address + u64::from(first);
        if let Some(spreads) = &mut self.spreads
            && now.writes()
        {
            spreads.write(page_address, first, length, now, judge);
        }
        for (index, cell) in cells.iter_mut().enumerate() {
            cell.check(now, judge, spill, address + ((index as u64) << shift));
        }
        if u64::from(length) == PAGE && shift != COARSE && now.writes() && !now.is_strong() {
            // Overwritten as a whole: no finer accesses are left.
            *self = Self { spreads: self.spreads.take(), ..Self::new(COARSE) };
            self.cells.iter_mut().for_each(|cell| cell.write = *now);
            if let Some(spreads) = &mut self.spreads {
                spreads.overwritten(now);
            }
        }
    }
}

impl<const READS: usize> Page<READS> {
    /// Records that a strong read has not observed what is written here.
    fn miss<J: Judge>(&mut self, first: u32, length: u32, now: &Stamp, judge: &J, spill: &mut Spill) {
        if !self.cells.is_empty() {
            let end = ((first + length) >> self.shift) as usize;
            self.cells[(first >> self.shift) as usize..end].iter_mut().for_each(|cell| cell.miss(now, judge, spill));
        }
    }

    /// Ends the lists of its cells.
    fn end(&mut self, spill: &mut Spill) {
        self.cells.iter_mut().for_each(|cell| cell.end(spill));
        self.strips.iter_mut().for_each(|strip| strip.end(spill));
    }
}

#[derive(Clone, Copy)]
struct Bytes {
    page_address: u64,
    first: u32,
    length: u32,
}

impl Bytes {
    /// The largest cells that they fill, as a power of two.
    #[inline]
    fn shift(self) -> u8 {
        (self.first | self.length).trailing_zeros().min(u32::from(COARSE)) as u8
    }
}

/// Pages by number, made when they are first accessed. A cell holds `READS` reads.
#[derive(Debug)]
pub(super) struct Shadow<const READS: usize> {
    space: Space,
    pages: Vec<Option<Page<READS>>>,
    spill: Spill,
}

/// The number of accesses that the lists of one chunk of global memory hold, 64 for each 16 bytes. Only many blocks that
/// read much the same and then release something need more.
const HELD: usize = 1 << 18;

impl<const READS: usize> Shadow<READS> {
    /// A shadow of memory in this space. Pages of shared memory remember reads by whole warps as one, those of global
    /// memory rows.
    pub(super) fn new(space: Space) -> Self {
        let held = if space == Space::Global { HELD } else { usize::MAX };
        Self { space, pages: Vec::new(), spill: Spill::new(held) }
    }

    /// Checks an access to `[first, first + length)`, as offsets in this shadow. `origin` is the address of offset 0,
    /// for reports.
    #[inline]
    pub(super) fn check<J: Judge>(&mut self, origin: u64, first: u32, length: u32, now: &Stamp, judge: &mut J) {
        const PAGE32: u32 = PAGE as u32;
        let end = first + length;
        let mut at = first;
        while at < end {
            let number = (at / PAGE32) as usize;
            let within = at % PAGE32;
            let length = (PAGE32 - within).min(end - at);
            if self.pages.len() <= number {
                self.pages.resize_with(number + 1, || None);
            }
            let page_address = origin + u64::from(at - within);
            let bytes = Bytes { page_address, first: within, length };
            let page = self.pages[number].get_or_insert_with(|| {
                let spreads = (self.space == Space::Shared).then(Box::default);
                Page { spreads, ..Page::new(bytes.shift()) }
            });
            page.check(bytes, now, judge, &mut self.spill);
            at += length;
        }
    }

    /// Checks a plain read by warp `warp` of the block whose memory this is. `spread.first` is an offset in this shadow.
    pub(super) fn check_spread<J: Judge>(
        &mut self,
        origin: u64,
        spread: Spread,
        warp: u32,
        now: &Stamp,
        judge: &mut J,
    ) {
        const PAGE32: u32 = PAGE as u32;
        let mut left = spread;
        while left.count > 0 {
            let (number, within) = ((left.first / PAGE32) as usize, left.first % PAGE32);
            let count = (PAGE32 - within).div_ceil(left.stride).min(left.count);
            let part = Spread { first: within, count, ..left };
            let spreads = self.pages.get_mut(number).and_then(|page| page.as_mut()?.spreads.as_mut());
            if !spreads.is_some_and(|spreads| spreads.read(part, warp, now, judge)) {
                for (start, lanes) in part.groups() {
                    judge.aim(lanes);
                    self.check(origin, left.first - within + start, left.each, &now.by(lanes), judge);
                }
            }
            left.first += count * left.stride;
            left.count -= count;
            left.lanes = left.lanes.checked_shl(count * left.step).unwrap_or(0);
        }
    }

    /// Checks an access of neighbouring lanes, side by side from `first` on. Each lane accesses `each` bytes (a power
    /// of two up to 16), and `first` is a multiple of `each`.
    pub(super) fn check_row<J: Judge>(&mut self, origin: u64, first: u32, each: u32, now: &Stamp, judge: &mut J) {
        const PAGE32: u32 = PAGE as u32;
        let (mut at, mut lane) = (first, now.lanes.trailing_zeros());
        let end = first + now.lanes.count_ones() * each;
        while at < end {
            let (number, within) = ((at / PAGE32) as usize, at % PAGE32);
            let length = (PAGE32 - within).min(end - at);
            let row = Row { first: within, length, shift: each.ilog2() as u8, lane };
            if self.pages.len() <= number {
                self.pages.resize_with(number + 1, || None);
            }
            let page = self.pages[number].get_or_insert_with(Page::striped);
            judge.aim(row.lanes());
            if self.space == Space::Shared || !page.check_row(row, &now.by(row.lanes()), judge, &mut self.spill) {
                let page_address = origin + u64::from(at - within);
                for lane in lanes_of(row.lanes()) {
                    judge.aim(1 << lane);
                    let bytes = Bytes { page_address, first: within + (lane - row.lane) * each, length: each };
                    page.check(bytes, &now.by(1 << lane), judge, &mut self.spill);
                }
            }
            (at, lane) = (at + length, lane + length / each);
        }
    }

    /// Records that a strong read of `[first, first + length)` has not observed what is written there.
    pub(super) fn miss<J: Judge>(&mut self, first: u32, length: u32, now: &Stamp, judge: &J) {
        const PAGE32: u32 = PAGE as u32;
        let (mut at, end) = (first, first + length);
        while at < end {
            let within = at % PAGE32;
            let length = (PAGE32 - within).min(end - at);
            if let Some(Some(page)) = self.pages.get_mut((at / PAGE32) as usize) {
                page.miss(within, length, now, judge, &mut self.spill);
            }
            at += length;
        }
    }

    /// Forgets accesses to `[first, end)`, whole pages at a time where possible.
    pub(super) fn forget(&mut self, first: u32, end: u32) {
        for number in u64::from(first) / PAGE..u64::from(end).div_ceil(PAGE) {
            if let Some(mut page) = self.pages.get_mut(number as usize).and_then(Option::take) {
                page.end(&mut self.spill);
            }
        }
    }
}
