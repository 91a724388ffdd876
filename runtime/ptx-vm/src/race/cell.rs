//! Cells: what is remembered of a few bytes, and how an access is judged by it and recorded.
//!
//! A cell has the last weak write and all later accesses, as far as they matter to some later access: an access makes
//! room for one that is ordered after it and at least as exposed. Nobody knows most reads of most kernels, since their
//! blocks end without having released anything to others. An unknown read races with every later write, and so it
//! stands for all other reads.

use super::rules::{Chain, Fate, Judge, is_weak_read, renew, stands_for};
use super::spill::Spill;
use super::stamp::{Stamp, WRITES};

/// One cell: the last weak write, and later accesses that are not ordered among each other. These are reads, and strong
/// writes that may meet.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Cell<const READS: usize> {
    pub(super) write: Stamp,
    pub(super) since: [Stamp; READS],
}

impl<const READS: usize> Cell<READS> {
    pub(super) const EMPTY: Self = Self { write: Stamp::NONE, since: [Stamp::NONE; READS] };

    /// Gives the accesses to other lanes, with a list of its own.
    pub(super) fn by(mut self, lanes: u32, spill: &mut Spill) -> Self {
        self.write.lanes = lanes;
        for slot in &mut self.since {
            match slot.list() {
                Some(list) => *slot = slot.with_list(spill.copy(list, Some(lanes))),
                None => slot.lanes = lanes,
            }
        }
        self
    }

    /// Copies the cell, with a list of its own.
    pub(super) fn duplicate(mut self, spill: &mut Spill) -> Self {
        if let Some(list) = self.list() {
            self.since[READS - 1] = self.since[READS - 1].with_list(spill.copy(list, None));
        }
        self
    }

    /// Ends its list.
    pub(super) fn end(&mut self, spill: &mut Spill) {
        if let Some(list) = self.list() {
            spill.end(list);
        }
        self.since = [Stamp::NONE; READS];
    }

    /// The list that its last slot stands for.
    #[inline]
    fn list(&self) -> Option<u32> {
        self.since[READS - 1].list()
    }

    /// Judges an access to it and records it.
    #[inline]
    pub(super) fn check<J: Judge>(&mut self, now: &Stamp, judge: &mut J, spill: &mut Spill, address: u64) {
        self.judge(now, judge, spill, address);
        self.record(now, judge, spill);
    }

    /// Judges an access to it.
    #[inline]
    pub(super) fn judge<J: Judge>(&self, now: &Stamp, judge: &mut J, spill: &Spill, address: u64) {
        let written = &self.write;
        if written.clock != 0 {
            if now.writes() && written.actor == now.actor && written.clock == now.clock && written.site == now.site {
                if !judge.same_instruction(written.lanes, now) {
                    judge.race(written, now, address);
                }
            } else if !judge.sees(written, now) {
                judge.race(written, now, address);
            }
        }
        let sites = self.since.iter().fold(0, |sites, slot| sites | slot.site);
        if sites & WRITES != 0 || now.writes() && !self.is_untouched() {
            self.judge_since(now, judge, spill, address);
        }
    }

    /// Whether there was no access since the last weak write.
    #[inline]
    fn is_untouched(&self) -> bool {
        self.since.iter().all(|slot| slot.clock == 0)
    }

    /// Judges an access by every conflicting access since the last weak write.
    fn judge_since<J: Judge>(&self, now: &Stamp, judge: &mut J, spill: &Spill, address: u64) {
        self.slots(spill).filter(|slot| slot.writes() || now.writes()).for_each(|slot| {
            if !judge.sees(slot, now) && !self.is_observed(slot, judge, spill) {
                judge.race(slot, now, address);
            }
        });
    }

    /// Its accesses since the last weak write.
    #[inline]
    fn slots<'s>(&'s self, spill: &'s Spill) -> impl Iterator<Item = &'s Stamp> {
        let (inline, list) = match self.list() {
            Some(list) => (READS - 1, spill.list(list)),
            None => (READS, &[][..]),
        };
        self.since[..inline].iter().filter(|slot| slot.clock != 0).chain(list)
    }

    /// Whether the current access comes after one that has observed a strong write here (PTX ISA 8.9.5: the observation
    /// order, then the base causality order).
    #[cold]
    fn is_observed<J: Judge>(&self, write: &Stamp, judge: &J, spill: &Spill) -> bool {
        let observes = |slot: &Stamp| slot.is_informed() && judge.may_meet(write, slot) && judge.comes_after_any(slot);
        write.writes() && write.is_current() && self.slots(spill).any(observes)
    }

    /// Records an access.
    #[inline]
    pub(super) fn record<J: Judge>(&mut self, now: &Stamp, judge: &J, spill: &mut Spill) {
        if now.writes() {
            self.record_write(now, judge, spill);
            return;
        }
        let first = &mut self.since[0];
        if first.clock == 0 {
            *first = *now;
        } else if first.actor == now.actor && first.clock == now.clock && first.is_alike(now) {
            first.merge(now);
        } else {
            self.add(now, judge, spill);
        }
    }

    #[inline]
    fn record_write<J: Judge>(&mut self, now: &Stamp, judge: &J, spill: &mut Spill) {
        if now.is_strong() {
            if !self.is_untouched() {
                self.follow(now, judge, spill);
            }
            self.add(now, judge, spill);
            return;
        }
        let written = self.write;
        let mut stamp = *now;
        if written.actor == now.actor && written.clock == now.clock && written.site == now.site {
            stamp.lanes |= written.lanes;
        }
        self.write = stamp;
        self.end(spill);
    }

    /// Records that a strong read, which was recorded, has not observed what is written here.
    pub(super) fn miss<J: Judge>(&mut self, now: &Stamp, judge: &J, spill: &mut Spill) {
        let mut missed = 0;
        let keep = |slot: &mut Stamp| {
            if slot.actor == now.actor && slot.clock == now.clock && slot.is_alike(now) {
                missed |= slot.lanes & now.lanes;
                slot.lanes &= !now.lanes;
            }
            slot.lanes != 0
        };
        self.change(keep, spill);
        if missed != 0 {
            let mut now = now.by(missed);
            now.outdate();
            self.add(&now, judge, spill);
        }
    }

    /// Changes the accesses since the last weak write, and keeps those for which this is true.
    fn change(&mut self, mut keep: impl FnMut(&mut Stamp) -> bool, spill: &mut Spill) {
        let list = self.list();
        let inline = if list.is_some() { READS - 1 } else { READS };
        for slot in self.since[..inline].iter_mut().filter(|slot| slot.clock != 0) {
            if !keep(slot) {
                *slot = Stamp::NONE;
            }
        }
        if let Some(list) = list {
            spill.change(list, keep);
        }
    }

    /// Lets the observation order go on with a strong write.
    fn follow<J: Judge>(&mut self, now: &Stamp, judge: &J, spill: &mut Spill) {
        let chain = judge.chain();
        if chain == Chain::None {
            return;
        }
        // Atomics that are performed at the same time may come in either order: each counts as observed by the other.
        let meets = self.slots(spill).any(|slot| slot.writes() && slot.is_current() && judge.is_pending(slot));
        let dominates = |slot: &Stamp| {
            chain == Chain::Observes
                && !meets
                && slot.writes()
                && slot.is_current()
                && now.is_no_stronger(slot)
                && judge.may_meet(slot, now)
        };
        let keep = |slot: &mut Stamp| {
            if !slot.is_strong() {
                return true;
            }
            // Whoever knows of an atomic comes after what it has observed.
            let is_dominated = dominates(slot);
            if !judge.is_pending(slot) {
                slot.outdate();
                if chain == Chain::Begins {
                    slot.fade();
                }
            }
            !is_dominated
        };
        self.change(keep, spill);
    }

    fn add<J: Judge>(&mut self, now: &Stamp, judge: &J, spill: &mut Spill) {
        let list = self.list();
        let inline = if list.is_some() { READS - 1 } else { READS };
        if place(&mut self.since[..inline], now, judge) {
            return;
        }
        let last = &mut self.since[READS - 1];
        match list {
            Some(list) => {
                last.site |= now.site & WRITES;
                if let Some(lost) = spill.insert(list, now, judge) {
                    // It is found at once here.
                    let first = &mut self.since[0];
                    if READS > 1 && is_weak_read(first) && !matches!(judge.fate(first), Fate::Earlier(_)) {
                        *first = lost;
                    } else {
                        spill.restore(list, &lost);
                    }
                }
            }
            None => *last = Stamp::of_list(spill.add(*last, *now), (last.site | now.site) & WRITES),
        }
    }
}

/// Puts an access into a free slot, its own slot, or that of an ordered earlier access that it can replace. It is not
/// needed if a lost one stands for it.
fn place<J: Judge>(slots: &mut [Stamp], now: &Stamp, judge: &J) -> bool {
    let mut free = None;
    for (index, slot) in slots.iter_mut().enumerate() {
        if slot.clock != 0 {
            if slot.actor == now.actor && renew(slot, now, judge) {
                return true;
            }
            if slot.lanes != 0 {
                match judge.fate(slot) {
                    Fate::Known if stands_for(slot, now) => {}
                    Fate::Lost if is_weak_read(slot) && is_weak_read(now) => return true,
                    _ => continue,
                }
            }
            *slot = Stamp::NONE;
        }
        free = free.or(Some(index));
    }
    if let Some(index) = free {
        slots[index] = *now;
    }
    free.is_some()
}
