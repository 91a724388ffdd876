//! Knowledge of threads about tensor maps in global memory, which copies read through a proxy of their own.
//!
//! A copy sees a thread's write to its map if two fences are on the path to it: first a
//! `fence.proxy.tensormap::generic.release` after the write, then a `fence.proxy.tensormap::generic.acquire` of that
//! map (PTX ISA 9.7.13.4, 8.9.2).

use super::clock::Clock;
use std::collections::BTreeMap;

/// The part of knowledge that concerns tensor maps.
#[derive(Clone, Debug, Default)]
pub(super) struct MapProxy(Option<Box<Maps>>);

#[derive(Clone, Debug, Default)]
struct Maps {
    /// The accesses before a release.
    released: Clock,
    /// The accesses that the tensor-map proxy sees of the map at an address.
    acquired: BTreeMap<u64, Clock>,
}

impl MapProxy {
    /// Joins the clocks of another one, in the given way.
    fn join_by(&mut self, other: &Self, join: impl Fn(&mut Clock, &Clock)) {
        let Some(theirs) = &other.0 else { return };
        let mine = self.0.get_or_insert_default();
        join(&mut mine.released, &theirs.released);
        for (&map, clock) in &theirs.acquired {
            join(mine.acquired.entry(map).or_default(), clock);
        }
    }

    pub(super) fn join(&mut self, other: &Self) {
        self.join_by(other, Clock::join);
    }

    pub(super) fn join_exported(&mut self, from: u32, other: &Self) {
        self.join_by(other, |mine, theirs| mine.join_exported(from, theirs));
    }

    pub(super) fn join_imported(&mut self, to: u32, other: &Self, wide: bool) {
        self.join_by(other, |mine, theirs| mine.join_imported(to, theirs, wide));
    }

    pub(super) fn clear(&mut self) {
        self.0 = None;
    }

    /// The release of what has happened.
    pub(super) fn release(&mut self, happened: &Clock) -> &mut Clock {
        let released = &mut self.0.get_or_insert_default().released;
        released.join(happened);
        released
    }

    /// The acquire of a map.
    pub(super) fn acquire(&mut self, map: u64) {
        if let Some(maps) = &mut self.0 {
            maps.acquired.entry(map).or_default().join(&maps.released);
        }
    }

    /// The accesses that the tensor-map proxy sees of a map.
    pub(super) fn seen(&self, map: u64) -> Option<&Clock> {
        self.0.as_ref()?.acquired.get(&map)
    }
}
