//! Lists of accesses that don't fit in their cell.

use super::rules::{Fate, Judge, is_weak_read, renew, replaces};
use super::stamp::Stamp;

/// If the last slot of a cell has this actor, it stands for a list: `lanes` is the list's number, and the site tells
/// whether it holds writes.
const OVERFLOW: u32 = u32::MAX;

/// The number of stamps for which a list that is ended keeps its memory.
const REUSED: usize = 64;

impl Stamp {
    /// A slot that stands for a list.
    pub(super) fn of_list(list: u32, site: u32) -> Self {
        Self { clock: 1, actor: OVERFLOW, lanes: list, site }
    }

    /// The list that a slot stands for.
    #[inline]
    pub(super) fn list(&self) -> Option<u32> {
        (self.actor == OVERFLOW).then_some(self.lanes)
    }

    pub(super) fn with_list(self, list: u32) -> Self {
        Self { lanes: list, ..self }
    }
}

/// The lists of one shadow. Each is ordered by actor.
#[derive(Debug)]
pub(super) struct Spill {
    lists: Vec<Vec<Stamp>>,
    free: Vec<u32>,
    /// The number of stamps in all lists, and the largest one. Beyond it, an access takes the place of one by a near
    /// actor.
    held: usize,
    most: usize,
}

impl Spill {
    pub(super) fn new(most: usize) -> Self {
        Self { lists: Vec::new(), free: Vec::new(), held: 0, most }
    }

    #[inline]
    pub(super) fn list(&self, number: u32) -> &[Stamp] {
        &self.lists[number as usize]
    }

    /// A list of two accesses. Its memory may be that of one that is no longer needed.
    pub(super) fn add(&mut self, first: Stamp, second: Stamp) -> u32 {
        let number = self.empty();
        let pair = if first.actor <= second.actor { [first, second] } else { [second, first] };
        self.lists[number as usize].extend(pair);
        self.held += pair.len();
        number
    }

    fn empty(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.lists.push(Vec::new());
            self.lists.len() as u32 - 1
        })
    }

    /// A copy of a list, by other lanes if these are given, as far as there is room.
    pub(super) fn copy(&mut self, number: u32, lanes: Option<u32>) -> u32 {
        let copy = self.empty();
        let from = std::mem::take(&mut self.lists[number as usize]);
        let count = from.len().min(self.most.saturating_sub(self.held));
        let stamps = from[..count].iter().map(|stamp| lanes.map_or(*stamp, |lanes| stamp.by(lanes)));
        self.lists[copy as usize].extend(stamps);
        self.held += count;
        self.lists[number as usize] = from;
        copy
    }

    /// Ends a list.
    pub(super) fn end(&mut self, number: u32) {
        let list = &mut self.lists[number as usize];
        self.held -= list.len();
        list.clear();
        list.shrink_to(REUSED);
        self.free.push(number);
    }

    /// Changes the accesses of a list, and keeps those for which this is true.
    pub(super) fn change(&mut self, number: u32, keep: impl FnMut(&mut Stamp) -> bool) {
        let list = &mut self.lists[number as usize];
        let before = list.len();
        list.retain_mut(keep);
        self.held -= before - list.len();
    }

    /// Records an access in a list. If the list is full, it is searched for accesses that are no longer needed. Then a
    /// lost read that stands for all weak reads of the list, if there is one, is taken out of it and given.
    pub(super) fn insert<J: Judge>(&mut self, number: u32, now: &Stamp, judge: &J) -> Option<Stamp> {
        let list = &mut self.lists[number as usize];
        let start = list.partition_point(|slot| slot.actor < now.actor);
        let count = list[start..].iter().take_while(|slot| slot.actor == now.actor).count();
        let own = &mut list[start..start + count];
        if own.iter_mut().any(|slot| renew(slot, now, judge)) {
            return None;
        }
        if let Some(empty) = own.iter_mut().find(|slot| slot.lanes == 0) {
            *empty = *now;
            return None;
        }
        let mut lost = None;
        if list.len() == list.capacity() {
            lost = self.prune(number, now, judge);
            let list = &mut self.lists[number as usize];
            if list.len() * 4 > list.capacity() * 3 {
                list.reserve(list.capacity());
            }
        }
        if lost.is_none() || !is_weak_read(now) {
            self.put(number, now);
        }
        lost
    }

    /// Puts back what [`insert`](Self::insert) has given.
    pub(super) fn restore(&mut self, number: u32, lost: &Stamp) {
        self.put(number, lost);
    }

    fn put(&mut self, number: u32, now: &Stamp) {
        let list = &mut self.lists[number as usize];
        let start = list.partition_point(|slot| slot.actor < now.actor);
        if self.held < self.most || list.is_empty() {
            list.insert(start, *now);
            self.held += 1;
        } else {
            let near = start.min(list.len() - 1);
            list[near] = *now;
        }
    }

    /// Removes accesses that the current one replaces, and reads for which another one stands.
    fn prune<J: Judge>(&mut self, number: u32, now: &Stamp, judge: &J) -> Option<Stamp> {
        let mut lost = None;
        let mut earlier = [false; 2];
        self.change(number, |slot| {
            if !is_weak_read(slot) {
                return slot.lanes != 0 && !replaces(slot, now, judge);
            }
            match judge.fate(slot) {
                Fate::Known => !replaces(slot, now, judge),
                Fate::Lost => {
                    lost = Some(*slot);
                    false
                }
                Fate::Earlier(launch) => !std::mem::replace(&mut earlier[launch as usize % 2], true),
                Fate::Open => slot.lanes != 0,
            }
        });
        if lost.is_some() {
            self.change(number, |slot| !is_weak_read(slot) || matches!(judge.fate(slot), Fate::Earlier(_)));
        }
        lost
    }
}
