//! Shadow memory: for each cell, its last write, and the accesses since.
//!
//! At first a cell stands for 16 bytes. In pages with finer accesses it stands for fewer, down to one. So tiles that
//! are moved in 16-byte pieces stay cheap, and neighbouring half-precision elements are still told apart.

use super::Scope;
use super::finding::AccessKind;

/// Number of bytes of memory for one page.
pub(super) const PAGE: u64 = 256;
const COARSE: u8 = 4;

/// One access: the actor, its clock, the lanes and the instruction. Clock 0 means "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub(super) struct Stamp {
    pub(super) clock: u32,
    pub(super) actor: u32,
    pub(super) lanes: u32,
    /// The instruction's index and, in the low bits, strength, scope, whether the lanes made it as one, and the size of
    /// an element.
    site: u32,
}

const STRONG: u32 = 1;
const SCOPE_SHIFT: u32 = 1;
const WRITES: u32 = 1 << 3;
const JOINT: u32 = 1 << 4;
const SIZE_SHIFT: u32 = 5;
/// Enough bits for a power of two up to 8, or none.
const SIZE_MASK: u32 = 7;
const SITE_SHIFT: u32 = 8;

impl Stamp {
    pub(super) fn new(actor: u32, clock: u32, lanes: u32, pc: u32, writes: bool, strong: Option<Scope>) -> Self {
        let strength = match strong {
            None => 0,
            Some(Scope::Block) => STRONG,
            Some(Scope::Cluster) => STRONG | 1 << SCOPE_SHIFT,
            Some(Scope::Gpu) => STRONG | 2 << SCOPE_SHIFT,
            Some(Scope::System) => STRONG | 3 << SCOPE_SHIFT,
        };
        let writes = if writes { WRITES } else { 0 };
        Self { clock, actor, lanes, site: pc << SITE_SHIFT | strength | writes }
    }

    /// The same access by other lanes.
    #[inline]
    pub(super) fn by(self, lanes: u32) -> Self {
        Self { lanes, ..self }
    }

    /// The same access, made by all lanes as one, as `ldmatrix` and `stmatrix` do.
    pub(super) fn joint(self) -> Self {
        Self { site: self.site | JOINT, ..self }
    }

    #[inline]
    pub(super) fn is_joint(&self) -> bool {
        self.site & JOINT != 0
    }

    /// The same access in elements of a number of bytes.
    pub(super) fn in_elements(self, bytes: u32) -> Self {
        let size = if bytes.is_power_of_two() && bytes <= 8 { bytes.ilog2() + 1 } else { 0 };
        Self { site: self.site & !(SIZE_MASK << SIZE_SHIFT) | size << SIZE_SHIFT, ..self }
    }

    /// Whether this access and another one, which overlap, access the same places: whether their elements are equally
    /// large, as far as that is known. Elements are aligned.
    #[inline]
    pub(super) fn is_as_wide(&self, other: &Self) -> bool {
        let (mine, theirs) = (self.site >> SIZE_SHIFT & SIZE_MASK, other.site >> SIZE_SHIFT & SIZE_MASK);
        mine == 0 || theirs == 0 || mine == theirs
    }

    /// The read that belongs to a write, for example of a copy.
    pub(super) fn reading(self) -> Self {
        Self { site: self.site & !(WRITES | STRONG), ..self }
    }

    pub(super) fn pc(&self) -> u32 {
        self.site >> SITE_SHIFT
    }

    #[inline]
    pub(super) fn writes(&self) -> bool {
        self.site & WRITES != 0
    }

    #[inline]
    pub(super) fn is_strong(&self) -> bool {
        self.site & STRONG != 0
    }

    pub(super) fn scope(&self) -> Option<Scope> {
        self.is_strong().then_some(match self.site >> SCOPE_SHIFT & 3 {
            0 => Scope::Block,
            1 => Scope::Cluster,
            2 => Scope::Gpu,
            _ => Scope::System,
        })
    }

    pub(super) fn access(&self) -> AccessKind {
        match (self.writes(), self.scope()) {
            (false, None) => AccessKind::Read,
            (true, None) => AccessKind::Write,
            (false, Some(scope)) => AccessKind::StrongRead(scope),
            (true, Some(scope)) => AccessKind::StrongWrite(scope),
        }
    }
}

/// Judges, for the current access, every earlier access that it meets.
pub(super) trait Judge {
    /// Whether the earlier access is ordered before this one, or cannot race with it.
    fn sees(&self, earlier: &Stamp, now: &Stamp) -> bool;
    /// Like [`sees`](Self::sees), but false if the answer would take long. It is used to forget ordered accesses.
    fn sees_at_once(&self, earlier: &Stamp) -> bool;
    /// Records a race at `address`.
    fn race(&mut self, earlier: &Stamp, now: &Stamp, address: u64);
    /// Two lanes of one instruction write the same place. True if they may.
    fn same_instruction(&self, earlier_lanes: u32, now: &Stamp) -> bool;
}

/// One cell: the last weak write, and later accesses that are not ordered among each other: reads, and strong writes,
/// many of which may meet.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Cell<const READS: usize> {
    write: Stamp,
    since: [Stamp; READS],
}

const NONE: Stamp = Stamp { clock: 0, actor: 0, lanes: 0, site: 0 };

impl<const READS: usize> Cell<READS> {
    const EMPTY: Self = Self { write: NONE, since: [NONE; READS] };
}

/// One page of cells.
#[derive(Clone, Debug)]
struct Page<const READS: usize> {
    shift: u8,
    cells: Box<[Cell<READS>]>,
}

impl<const READS: usize> Page<READS> {
    /// A page of empty cells of `1 << shift` bytes.
    fn new(shift: u8) -> Self {
        Self { shift, cells: vec![Cell::EMPTY; (PAGE >> shift) as usize].into_boxed_slice() }
    }

    #[cold]
    fn refine(&mut self, shift: u8, spill: &mut Spill) {
        let copies = 1 << (self.shift - shift);
        let mut cells = Vec::with_capacity((PAGE >> shift) as usize);
        for cell in &self.cells {
            for copy in 0..copies {
                let mut cell = *cell;
                if copy > 0 {
                    spill.duplicate(&mut cell.since);
                }
                cells.push(cell);
            }
        }
        *self = Self { shift, cells: cells.into_boxed_slice() };
    }

    fn check<J: Judge>(&mut self, bytes: Bytes, now: &Stamp, judge: &mut J, spill: &mut Spill) {
        let Bytes { page_address, first, length } = bytes;
        let fine = bytes.shift();
        if fine < self.shift {
            self.refine(fine, spill);
        }
        let shift = self.shift;
        let cells = &mut self.cells[(first >> shift) as usize..((first + length) >> shift) as usize];
        let address = page_address + u64::from(first);
        if now.writes() {
            for (index, cell) in cells.iter_mut().enumerate() {
                write(cell, now, judge, spill, address + ((index as u64) << shift));
            }
            if u64::from(length) == PAGE && shift != COARSE && !now.is_strong() {
                // Overwritten as a whole: no finer accesses are left.
                *self = Self::new(COARSE);
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
}

impl Bytes {
    /// The largest cells that they fill, as a power of two.
    #[inline]
    fn shift(self) -> u8 {
        (self.first | self.length).trailing_zeros().min(u32::from(COARSE)) as u8
    }
}

/// Lists that don't fit in their cell.
#[derive(Debug, Default)]
struct Spill {
    /// Whether lists are not kept: a cell then remembers the latest accesses, of different blocks if possible.
    bounded: bool,
    lists: Vec<Vec<Stamp>>,
    free: Vec<u32>,
}

/// If the last slot of a cell has this actor, it stands for a list: `lanes` is the list's number, and the site tells
/// whether it holds writes.
const OVERFLOW: u32 = u32::MAX;

impl Spill {
    fn duplicate<const READS: usize>(&mut self, since: &mut [Stamp; READS]) {
        if let Some(last) = since.last_mut()
            && last.actor == OVERFLOW
        {
            let list = self.lists[last.lanes as usize].clone();
            last.lanes = self.add(list);
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

    fn take(&mut self, number: u32) -> Vec<Stamp> {
        self.free.push(number);
        std::mem::take(&mut self.lists[number as usize])
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
    check_write(&cell.write, now, judge, address);
    let sites = cell.since.iter().fold(0, |sites, slot| sites | slot.site);
    if sites & WRITES != 0 {
        check_since(cell, now, judge, spill, address);
    }
    let first = &mut cell.since[0];
    if first.clock == 0 {
        *first = *now;
    } else if first.actor == now.actor && first.clock == now.clock && !first.writes() {
        merge(first, now);
    } else {
        add(cell, now, judge, spill);
    }
}

#[inline]
fn check_write<J: Judge>(written: &Stamp, now: &Stamp, judge: &mut J, address: u64) {
    if written.clock != 0 && !judge.sees(written, now) {
        judge.race(written, now, address);
    }
}

/// Checks against every conflicting access since the last weak write.
fn check_since<const READS: usize, J: Judge>(
    cell: &Cell<READS>,
    now: &Stamp,
    judge: &mut J,
    spill: &Spill,
    address: u64,
) {
    let mut check = |slot: &Stamp| {
        let conflicts = slot.clock != 0 && (slot.writes() || now.writes());
        if conflicts && !judge.sees(slot, now) {
            judge.race(slot, now, address);
        }
    };
    for slot in &cell.since {
        if slot.actor == OVERFLOW {
            spill.lists[slot.lanes as usize].iter().for_each(&mut check);
        } else {
            check(slot);
        }
    }
}

/// Two accesses at one clock of one actor are merged; the result is as weak as the weaker one.
fn merge(slot: &mut Stamp, now: &Stamp) {
    slot.lanes |= now.lanes;
    if !now.is_strong() {
        slot.site = now.site;
    }
}

fn add<const READS: usize, J: Judge>(cell: &mut Cell<READS>, now: &Stamp, judge: &J, spill: &mut Spill) {
    let overflows = cell.since[READS - 1].actor == OVERFLOW;
    let inline = if overflows { READS - 1 } else { READS };
    if place(&mut cell.since[..inline], now, judge) {
        return;
    }
    let last = &mut cell.since[READS - 1];
    if overflows {
        let list = &mut spill.lists[last.lanes as usize];
        if !place(list, now, judge) {
            list.push(*now);
        }
        last.site |= now.site & WRITES;
    } else if spill.bounded {
        // Space is kept for accesses that are far apart (of different blocks), weak ones first. The nearest access is
        // dropped.
        let least = cell.since.iter_mut().min_by_key(|s| (!s.is_strong(), s.actor.abs_diff(now.actor)));
        if let Some(nearest) = least {
            *nearest = *now;
        }
    } else {
        let site = (last.site | now.site) & WRITES;
        let list = spill.add(vec![*last, *now]);
        cell.since[READS - 1] = Stamp { clock: 1, actor: OVERFLOW, lanes: list, site };
    }
}

/// Puts an access into a free slot, its own slot, or that of an ordered earlier access that it can replace.
fn place<J: Judge>(slots: &mut [Stamp], now: &Stamp, judge: &J) -> bool {
    let mut free = None;
    for (index, slot) in slots.iter_mut().enumerate() {
        // Whatever races with the earlier one also races with the later one, which is not stronger; a write replaces a
        // write.
        let is_weaker = !now.is_strong() || slot.is_strong() && slot.is_as_wide(now);
        let stands_for = is_weaker && (now.writes() || !slot.writes());
        if slot.clock != 0 && slot.actor == now.actor {
            if slot.clock == now.clock && slot.writes() == now.writes() {
                merge(slot, now);
                return true;
            }
            // The later access of the same lanes replaces their earlier one.
            if stands_for {
                slot.lanes &= !now.lanes;
            }
        }
        if slot.clock == 0 || slot.lanes == 0 || stands_for && judge.sees_at_once(slot) {
            *slot = NONE;
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
    if written.actor == now.actor && written.clock == now.clock && written.site == now.site {
        if !judge.same_instruction(written.lanes, now) {
            judge.race(&written, now, address);
        }
        stamp.lanes |= written.lanes;
    } else {
        check_write(&written, now, judge, address);
    }
    if cell.since[0].clock != 0 || READS > 1 && cell.since[1..].iter().any(|slot| slot.clock != 0) {
        check_since(cell, now, judge, spill, address);
    }
    if now.is_strong() {
        add(cell, now, judge, spill);
        return;
    }
    cell.write = stamp;
    if cell.since[READS - 1].actor == OVERFLOW {
        drop(spill.take(cell.since[READS - 1].lanes));
    }
    cell.since = [NONE; READS];
}

/// Pages by number, made when they are first accessed. A cell holds `READS` reads.
#[derive(Debug)]
pub(super) struct Shadow<const READS: usize> {
    pages: Vec<Option<Page<READS>>>,
    spill: Spill,
}

impl<const READS: usize> Shadow<READS> {
    /// With `bounded`, cells forget reads instead of growing.
    pub(super) fn new(bounded: bool) -> Self {
        Self { pages: Vec::new(), spill: Spill { bounded, ..Spill::default() } }
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
            let page = self.pages[number].get_or_insert_with(|| Page::new(bytes.shift()));
            page.check(bytes, now, judge, &mut self.spill);
            at += length;
        }
    }

    /// Forgets accesses to `[first, end)`, whole pages at a time where possible.
    pub(super) fn forget(&mut self, first: u32, end: u32) {
        for number in u64::from(first) / PAGE..u64::from(end).div_ceil(PAGE) {
            if let Some(page) = self.pages.get_mut(number as usize) {
                *page = None;
            }
        }
    }
}
