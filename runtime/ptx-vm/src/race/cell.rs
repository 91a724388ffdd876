//! Cells: what is remembered of a few bytes, and how an access is judged by it and recorded.

use super::stamp::{Stamp, WRITES};

/// Judges, for the current access, every earlier access that it meets.
pub(super) trait Judge {
    /// Lets these lanes make the current access.
    fn aim(&mut self, lanes: u32);
    /// Whether the earlier access is ordered before this one, or cannot race with it.
    fn sees(&self, earlier: &Stamp, now: &Stamp) -> bool;
    /// Like [`sees`](Self::sees), for two accesses of several lanes that access each place by the same lane.
    fn sees_by_lane(&self, earlier: &Stamp, now: &Stamp) -> bool;
    /// Like [`sees`](Self::sees), but false if the answer would take long. It is used to forget ordered accesses.
    fn sees_at_once(&self, earlier: &Stamp) -> bool;
    /// Whether nobody can know of one of two accesses by the same actor and not of the other: its warp has passed nothing
    /// on in between.
    fn are_known_together(&self, earlier: &Stamp, now: &Stamp) -> bool;
    /// Records a race at `address`.
    fn race(&mut self, earlier: &Stamp, now: &Stamp, address: u64);
    /// Two lanes of one instruction write the same place. True if they may.
    fn same_instruction(&self, earlier_lanes: u32, now: &Stamp) -> bool;
}

/// One cell: the last weak write, and later accesses that are not ordered among each other: reads, and strong writes,
/// many of which may meet.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Cell<const READS: usize> {
    pub(super) write: Stamp,
    pub(super) since: [Stamp; READS],
}

impl<const READS: usize> Cell<READS> {
    pub(super) const EMPTY: Self = Self { write: Stamp::NONE, since: [Stamp::NONE; READS] };

    /// The same accesses, by other lanes.
    pub(super) fn by(self, lanes: u32) -> Self {
        Self { write: self.write.by(lanes), since: self.since.map(|stamp| stamp.by(lanes)) }
    }

    /// Judges an access to it and records it.
    #[inline]
    pub(super) fn check<J: Judge>(&mut self, now: &Stamp, judge: &mut J, spill: &mut Spill, address: u64) {
        if now.writes() {
            write(self, now, judge, spill, address);
        } else {
            read(self, now, judge, spill, address);
        }
    }
}

/// Lists that don't fit in their cell.
#[derive(Debug, Default)]
pub(super) struct Spill {
    /// Whether lists are not kept: a cell then remembers the latest accesses, of different blocks if possible.
    bounded: bool,
    lists: Vec<Vec<Stamp>>,
    free: Vec<u32>,
}

/// If the last slot of a cell has this actor, it stands for a list: `lanes` is the list's number, and the site tells
/// whether it holds writes.
const OVERFLOW: u32 = u32::MAX;

impl Spill {
    /// With `bounded`, no lists are kept.
    pub(super) fn new(bounded: bool) -> Self {
        Self { bounded, ..Self::default() }
    }

    pub(super) fn is_bounded(&self) -> bool {
        self.bounded
    }

    pub(super) fn duplicate<const READS: usize>(&mut self, since: &mut [Stamp; READS]) {
        if let Some(last) = since.last_mut()
            && last.actor == OVERFLOW
        {
            let list = self.lists[last.lanes as usize].clone();
            last.lanes = self.add(&list);
        }
    }

    /// A list with these stamps; its memory may be that of one that is no longer needed.
    fn add(&mut self, stamps: &[Stamp]) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.lists.push(Vec::new());
            self.lists.len() as u32 - 1
        });
        self.lists[number as usize].extend_from_slice(stamps);
        number
    }

    /// Ends a list.
    fn end(&mut self, number: u32) {
        self.lists[number as usize].clear();
        self.free.push(number);
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
        let list = spill.add(&[*last, *now]);
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
            // Atomics in a loop: without this, every execution by every lane would be remembered.
            if now.is_strong() && slot.site == now.site && judge.are_known_together(slot, now) {
                slot.lanes |= now.lanes;
                slot.clock = now.clock;
                return true;
            }
            // The later access of the same lanes replaces their earlier one.
            if stands_for {
                slot.lanes &= !now.lanes;
            }
        }
        if slot.clock == 0 || slot.lanes == 0 || stands_for && judge.sees_at_once(slot) {
            *slot = Stamp::NONE;
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
        spill.end(cell.since[READS - 1].lanes);
    }
    cell.since = [Stamp::NONE; READS];
}
