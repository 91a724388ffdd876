//! Shadow memory: who wrote each cell last, and who has read it since.
//!
//! A cell stands for 16 bytes at first and for fewer, down to one, in pages that have seen finer accesses: tiles that
//! are moved in 16-byte pieces stay cheap, and neighbouring half-precision elements are still told apart.

use super::Scope;
use super::finding::AccessKind;

/// Bytes of memory behind one page.
pub(super) const PAGE: u64 = 256;
const COARSE: u8 = 4;

/// One access: which actor, at which of its clocks, which lanes, which instruction. Clock 0 is "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub(super) struct Stamp {
    pub(super) clock: u32,
    pub(super) actor: u32,
    pub(super) lanes: u32,
    /// Instruction index and, in the low bits, strength and scope.
    site: u32,
}

const STRONG: u32 = 1;
const SITE_SHIFT: u32 = 3;

impl Stamp {
    pub(super) fn new(actor: u32, clock: u32, lanes: u32, pc: u32, strong: Option<Scope>) -> Self {
        let strength = match strong {
            None => 0,
            Some(Scope::Block) => STRONG,
            Some(Scope::Cluster) => STRONG | 1 << 1,
            Some(Scope::Gpu) => STRONG | 2 << 1,
            Some(Scope::System) => STRONG | 3 << 1,
        };
        Self { clock, actor, lanes, site: pc << SITE_SHIFT | strength }
    }

    /// The same access by other lanes.
    #[inline]
    pub(super) fn by(self, lanes: u32) -> Self {
        Self { lanes, ..self }
    }

    pub(super) fn pc(&self) -> u32 {
        self.site >> SITE_SHIFT
    }

    #[inline]
    pub(super) fn is_strong(&self) -> bool {
        self.site & STRONG != 0
    }

    pub(super) fn scope(&self) -> Option<Scope> {
        self.is_strong().then_some(match self.site >> 1 & 3 {
            0 => Scope::Block,
            1 => Scope::Cluster,
            2 => Scope::Gpu,
            _ => Scope::System,
        })
    }

    pub(super) fn access(&self, writes: bool) -> AccessKind {
        match (writes, self.scope()) {
            (false, None) => AccessKind::Read,
            (true, None) => AccessKind::Write,
            (false, Some(scope)) => AccessKind::StrongRead(scope),
            (true, Some(scope)) => AccessKind::StrongWrite(scope),
        }
    }
}

/// Judges, for the access that is being made, every earlier access it meets.
pub(super) trait Judge {
    /// Whether the earlier access (`written`: it wrote) is ordered before this one, or cannot race with it.
    fn sees(&self, earlier: &Stamp, written: bool, now: &Stamp) -> bool;
    /// Notes a race at `address`. `writes`: this access writes.
    fn race(&mut self, earlier: &Stamp, written: bool, now: &Stamp, writes: bool, address: u64);
    /// Two lanes of one instruction write one place. True if they may.
    fn same_instruction(&self, earlier_lanes: u32, now: &Stamp) -> bool;
}

/// One cell: the last write, and the reads since then that are not ordered before one another.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Cell<const READS: usize> {
    write: Stamp,
    reads: [Stamp; READS],
}

impl<const READS: usize> Cell<READS> {
    const EMPTY: Self = Self {
        write: Stamp { clock: 0, actor: 0, lanes: 0, site: 0 },
        reads: [Stamp { clock: 0, actor: 0, lanes: 0, site: 0 }; READS],
    };
}

/// The last slot holds a number of an overflow list when its actor is this.
const OVERFLOW: u32 = u32::MAX;

/// One page of cells.
#[derive(Clone, Debug)]
struct Page<const READS: usize> {
    shift: u8,
    cells: Box<[Cell<READS>]>,
}

impl<const READS: usize> Page<READS> {
    fn new() -> Self {
        Self { shift: COARSE, cells: vec![Cell::EMPTY; (PAGE >> COARSE) as usize].into_boxed_slice() }
    }

    #[cold]
    fn refine(&mut self, shift: u8, spill: &mut Spill) {
        let copies = 1 << (self.shift - shift);
        let mut cells = Vec::with_capacity((PAGE >> shift) as usize);
        for cell in &self.cells {
            for copy in 0..copies {
                let mut cell = *cell;
                if copy > 0 {
                    spill.duplicate(&mut cell.reads);
                }
                cells.push(cell);
            }
        }
        *self = Self { shift, cells: cells.into_boxed_slice() };
    }

    fn check<J: Judge>(&mut self, bytes: Bytes, now: &Stamp, judge: &mut J, spill: &mut Spill) {
        let Bytes { page_address, first, length, writes } = bytes;
        let fine = (first | length).trailing_zeros().min(u32::from(COARSE)) as u8;
        if fine < self.shift {
            self.refine(fine, spill);
        }
        let shift = self.shift;
        let cells = &mut self.cells[(first >> shift) as usize..((first + length) >> shift) as usize];
        let address = page_address + u64::from(first);
        if writes {
            for (index, cell) in cells.iter_mut().enumerate() {
                write(cell, now, judge, spill, address + ((index as u64) << shift));
            }
            if u64::from(length) == PAGE && shift != COARSE {
                // Overwritten as a whole: nothing fine-grained is left.
                *self = Self::new();
                self.cells.iter_mut().for_each(|cell| cell.write = *now);
            }
        } else {
            for (index, cell) in cells.iter_mut().enumerate() {
                read(cell, now, judge, spill, address + ((index as u64) << shift));
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Bytes {
    page_address: u64,
    first: u32,
    length: u32,
    writes: bool,
}

/// Lists of reads that have outgrown their cell.
#[derive(Debug, Default)]
struct Spill {
    /// Whether lists are kept. Without, a cell remembers the latest reads, by different blocks where it can choose.
    bounded: bool,
    lists: Vec<Vec<Stamp>>,
    free: Vec<u32>,
}

impl Spill {
    fn duplicate<const READS: usize>(&mut self, reads: &mut [Stamp; READS]) {
        if let Some(last) = reads.last_mut()
            && last.actor == OVERFLOW
            && last.clock != 0
        {
            let list = self.lists[last.site as usize].clone();
            last.site = self.add(list);
        }
    }

    fn add(&mut self, list: Vec<Stamp>) -> u32 {
        if let Some(free) = self.free.pop() {
            self.lists[free as usize] = list;
            return free;
        }
        self.lists.push(list);
        self.lists.len() as u32 - 1
    }
}

#[inline]
fn read<const READS: usize, J: Judge>(
    cell: &mut Cell<READS>,
    now: &Stamp,
    judge: &mut J,
    spill: &mut Spill,
    address: u64,
) {
    let written = cell.write;
    if written.clock != 0 && !judge.sees(&written, true, now) {
        judge.race(&written, true, now, false, address);
    }
    let first = &mut cell.reads[0];
    if first.clock == 0 {
        *first = *now;
    } else if first.actor == now.actor && first.clock == now.clock {
        merge(first, now);
    } else {
        add_read(cell, now, judge, spill);
    }
}

/// Two reads at one clock of one actor are one, as weak as the weaker.
fn merge(slot: &mut Stamp, now: &Stamp) {
    slot.lanes |= now.lanes;
    if !now.is_strong() {
        slot.site = now.site;
    }
}

fn add_read<const READS: usize, J: Judge>(cell: &mut Cell<READS>, now: &Stamp, judge: &J, spill: &mut Spill) {
    let overflows = cell.reads[READS - 1].clock != 0 && cell.reads[READS - 1].actor == OVERFLOW;
    let inline = if overflows { READS - 1 } else { READS };
    if place(&mut cell.reads[..inline], now, judge) {
        return;
    }
    if overflows {
        let list = &mut spill.lists[cell.reads[READS - 1].site as usize];
        if !place(list, now, judge) {
            list.push(*now);
        }
    } else if spill.bounded {
        // Room is for readers that are far apart (of different blocks): the nearest goes.
        if let Some(nearest) = cell.reads.iter_mut().min_by_key(|slot| slot.actor.abs_diff(now.actor)) {
            *nearest = *now;
        }
    } else {
        let list = spill.add(vec![cell.reads[READS - 1], *now]);
        cell.reads[READS - 1] = Stamp { clock: 1, actor: OVERFLOW, lanes: 0, site: list };
    }
}

/// Puts a read into a slot that is free, its own, or of a read ordered before it.
fn place<J: Judge>(slots: &mut [Stamp], now: &Stamp, judge: &J) -> bool {
    let mut free = None;
    for (index, slot) in slots.iter_mut().enumerate() {
        if slot.clock == 0 {
            free = free.or(Some(index));
            continue;
        }
        if slot.actor == now.actor {
            if slot.clock == now.clock {
                merge(slot, now);
                return true;
            }
            // The same lanes' later read stands for their earlier one.
            if !now.is_strong() || slot.is_strong() {
                slot.lanes &= !now.lanes;
                if slot.lanes == 0 {
                    slot.clock = 0;
                    free = free.or(Some(index));
                    continue;
                }
            }
        }
        if (!now.is_strong() || slot.is_strong()) && judge.sees(slot, false, now) {
            slot.clock = 0;
            free = free.or(Some(index));
        }
    }
    if let Some(index) = free {
        slots[index] = *now;
    }
    free.is_some()
}

#[inline]
fn write<const READS: usize, J: Judge>(
    cell: &mut Cell<READS>,
    now: &Stamp,
    judge: &mut J,
    spill: &mut Spill,
    address: u64,
) {
    let written = cell.write;
    let mut stamp = *now;
    if written.clock != 0 {
        if written.actor == now.actor && written.clock == now.clock && written.site == now.site {
            if !judge.same_instruction(written.lanes, now) {
                judge.race(&written, true, now, true, address);
            }
            stamp.lanes |= written.lanes;
        } else if !judge.sees(&written, true, now) {
            judge.race(&written, true, now, true, address);
        }
    }
    cell.write = stamp;
    for slot in 0..READS {
        let seen = cell.reads[slot];
        if seen.clock == 0 {
            continue;
        }
        if seen.actor == OVERFLOW {
            let list = std::mem::take(&mut spill.lists[seen.site as usize]);
            spill.free.push(seen.site);
            for seen in list.iter().filter(|s| s.clock != 0) {
                if !judge.sees(seen, false, now) {
                    judge.race(seen, false, now, true, address);
                }
            }
        } else if !judge.sees(&seen, false, now) {
            judge.race(&seen, false, now, true, address);
        }
        cell.reads[slot].clock = 0;
    }
}

/// Pages by number, made when they are first touched. `READS` reads fit in a cell.
#[derive(Debug)]
pub(super) struct Shadow<const READS: usize> {
    pages: Vec<Option<Page<READS>>>,
    spill: Spill,
}

impl<const READS: usize> Shadow<READS> {
    /// `bounded`: cells forget reads rather than grow.
    pub(super) fn new(bounded: bool) -> Self {
        Self { pages: Vec::new(), spill: Spill { bounded, ..Spill::default() } }
    }

    /// Checks an access to `[first, first + length)`, offsets in this shadow; `origin` is the address of offset 0, for
    /// reports.
    #[inline]
    pub(super) fn check<J: Judge>(
        &mut self,
        origin: u64,
        first: u32,
        length: u32,
        writes: bool,
        now: &Stamp,
        judge: &mut J,
    ) {
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
            let page = self.pages[number].get_or_insert_with(Page::new);
            let page_address = origin + u64::from(at - within);
            let bytes = Bytes { page_address, first: within, length, writes };
            page.check(bytes, now, judge, &mut self.spill);
            at += length;
        }
    }

    /// Forgets accesses to `[first, end)`, whole pages at a time where it is one.
    pub(super) fn forget(&mut self, first: u32, end: u32) {
        for number in u64::from(first) / PAGE..u64::from(end).div_ceil(PAGE) {
            if let Some(page) = self.pages.get_mut(number as usize) {
                *page = None;
            }
        }
    }
}
