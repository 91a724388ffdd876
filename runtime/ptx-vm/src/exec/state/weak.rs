//! Weak memory: the older values that strong reads of global memory may still see (PTX ISA chapter 8).
//!
//! Every place in global memory that strong writes or atomics reach keeps its last few writes. A warp has a view: for
//! each place, the oldest write that it may still read. A read takes one of the writes that its view allows and moves
//! the view there, so that later reads never go back (coherence). A release leaves the warp's view with what it writes,
//! and an acquire joins the view that it finds there (causality order). `fence.sc` also joins the views of all earlier
//! ones (Fence-SC order). Atomics read the newest write (atomicity).
//!
//! This is a part of what the model allows, never more: writes take effect in the order in which they are executed; the
//! lanes of a warp see the same; everything through which the warps of a cluster synchronise joins their views. So
//! store buffering, and messages passed without release or acquire, are seen; load buffering is not.
//!
//! A read draws one of the allowed writes. But a warp's first read of a place after a strong store to another one takes
//! the oldest: its own store may still wait in a buffer. So two threads that each set a flag and read the other's,
//! without `fence.sc`, both find the other's flag unset, in every run.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use crate::race::Scope;

/// The number of writes that a place keeps.
const KEPT: usize = 8;
/// After this many reads of older values, reads of a place see its newest value, until it is written again. So loops
/// that wait for a value end.
const PATIENCE: u32 = 24;

/// For each place, the number of the oldest write that may be read.
#[derive(Clone, Debug, Default)]
struct View(Arc<BTreeMap<u64, u64>>);

impl View {
    fn least(&self, address: u64) -> u64 {
        self.0.get(&address).copied().unwrap_or(0)
    }

    fn raise(&mut self, address: u64, number: u64) {
        if self.least(address) < number {
            Arc::make_mut(&mut self.0).insert(address, number);
        }
    }

    fn join(&mut self, other: &Self) {
        if Arc::ptr_eq(&self.0, &other.0) || other.0.is_empty() {
            return;
        }
        if self.0.is_empty() {
            *self = other.clone();
            return;
        }
        other.0.iter().for_each(|(&address, &number)| self.raise(address, number));
    }
}

/// The view that a write releases, and to whom.
#[derive(Clone, Debug, Default)]
struct Released {
    view: View,
    reach: Reach,
}

/// The actors that can acquire what a write releases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reach {
    #[default]
    Nobody,
    /// The members of a cluster; without clusters, of a block.
    Cluster(u32),
    Everybody,
}

impl Released {
    fn join(&mut self, view: &View, reach: Reach) {
        self.view.join(view);
        self.reach = match (self.reach, reach) {
            (Reach::Nobody, other) | (other, Reach::Nobody) => other,
            (Reach::Cluster(a), Reach::Cluster(b)) if a == b => Reach::Cluster(a),
            _ => Reach::Everybody,
        };
    }
}

/// The writes that a warp, or a cluster as a whole, has seen.
#[derive(Clone, Debug, Default)]
pub(in crate::exec) struct Views {
    /// Its reads may not go behind this view.
    seen: View,
    /// Views that relaxed reads found; a fence will add them to `seen`.
    found: View,
    /// Its view at its last fence of a scope narrower than the GPU, and at its last one of a wider scope.
    fenced: [Option<View>; 2],
    buffer: Buffer,
}

/// The last strong stores of a warp, as far as they tell which of its reads come after them.
#[derive(Clone, Debug, Default)]
struct Buffer {
    /// The places of the last two stores, if these differ.
    stored: [Option<u64>; 2],
    /// Places that were read since the last store.
    read: Vec<u64>,
}

impl Buffer {
    /// More places are not told apart: a wait for one of many flags goes on.
    const READ: usize = 256;

    fn store(&mut self, address: u64) {
        if self.stored[0] != Some(address) {
            self.stored = [Some(address), self.stored[0]];
        }
        self.read.clear();
    }

    /// Whether this is the first read of a place since a store to another one.
    fn read(&mut self, address: u64) -> bool {
        let is_other = |stored: &Option<u64>| stored.is_some_and(|stored| stored != address);
        let is_first = self.stored.iter().any(is_other)
            && self.stored[0] != Some(address)
            && self.read.len() < Self::READ
            && !self.read.contains(&address);
        if is_first {
            self.read.push(address);
        }
        is_first
    }
}

impl Views {
    /// Learns what others have seen with whom these threads synchronise.
    pub(in crate::exec) fn join(&mut self, other: &Self) {
        self.seen.join(&other.seen);
        self.found.join(&other.found);
        for (mine, theirs) in self.fenced.iter_mut().zip(&other.fenced) {
            if let Some(theirs) = theirs {
                mine.get_or_insert_default().join(theirs);
            }
        }
    }

    /// A memory fence.
    fn fence(&mut self, scope: Scope) {
        let found = std::mem::take(&mut self.found);
        self.seen.join(&found);
        self.fenced[usize::from(scope >= Scope::Gpu)] = Some(self.seen.clone());
    }
}

/// A write that reads may still see.
#[derive(Clone, Debug)]
struct Write {
    number: u64,
    value: u64,
    released: Released,
}

/// The last writes of one place, oldest first. There is always at least one.
#[derive(Debug)]
struct Place {
    address: u64,
    bytes: u32,
    writes: VecDeque<Write>,
    /// How many reads have seen older values since the last write.
    older: u32,
}

/// Bytes of global memory that are accessed as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) struct Word {
    pub(in crate::exec) address: u64,
    pub(in crate::exec) bytes: u32,
}

/// The kind of a strong access.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) struct Strength {
    pub(in crate::exec) scope: Scope,
    pub(in crate::exec) acquires: bool,
    pub(in crate::exec) releases: bool,
    /// The cluster of the thread.
    pub(in crate::exec) cluster: u32,
}

impl Strength {
    fn reach(&self, scope: Scope) -> Reach {
        if scope >= Scope::Gpu { Reach::Everybody } else { Reach::Cluster(self.cluster) }
    }

    /// Whether this access can acquire a write's release with this reach.
    fn is_reached(&self, reach: Reach) -> bool {
        match reach {
            Reach::Nobody => false,
            Reach::Cluster(cluster) => cluster == self.cluster,
            Reach::Everybody => self.scope >= Scope::Gpu,
        }
    }
}

/// The value that a read saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) struct Seen {
    pub(in crate::exec) value: u64,
    /// Whether it is an older value, by a write that released nothing.
    pub(in crate::exec) is_stale: bool,
}

/// The history of global memory in one launch.
#[derive(Debug, Default)]
pub(in crate::exec) struct WeakMemory {
    /// Places by the 8 bytes that contain them.
    places: HashMap<u64, Vec<Place>>,
    /// The number of the last write.
    number: u64,
    /// The view at the last `fence.sc` of GPU or system scope.
    sequential: View,
}

impl WeakMemory {
    /// The place of an access. Places that it overlaps otherwise are forgotten: then only their newest value is seen.
    fn place(&mut self, word: Word) -> Option<&mut Place> {
        let places = self.places.get_mut(&(word.address & !7))?;
        let end = word.address + u64::from(word.bytes);
        let is_same = |p: &Place| p.address == word.address && p.bytes == word.bytes;
        places.retain(|p| is_same(p) || p.address >= end || p.address + u64::from(p.bytes) <= word.address);
        places.iter_mut().find(|p| is_same(p))
    }

    /// A strong read of a place whose newest value is given. `draw` gives a random number below its first argument; if the
    /// second is true, the largest one.
    pub(in crate::exec) fn read(
        &mut self,
        views: &mut Views,
        word: Word,
        newest: u64,
        strength: Strength,
        draw: impl FnOnce(u64, bool) -> u64,
    ) -> Seen {
        let is_buffered = views.buffer.read(word.address);
        let Some(place) = self.place(word) else { return Seen { value: newest, is_stale: false } };
        let least = views.seen.least(word.address);
        let last = place.writes.len() - 1;
        let first = place.writes.iter().position(|write| write.number >= least).unwrap_or(last);
        let can_wait = first < last && place.older < PATIENCE;
        let index = if can_wait { last - draw((last - first) as u64 + 1, is_buffered) as usize } else { last };
        place.older += u32::from(index < last);
        let write = &place.writes[index];
        let is_stale = index < last && write.released.reach == Reach::Nobody;
        let value = if index == last { newest } else { write.value };
        views.seen.raise(word.address, write.number);
        if strength.is_reached(write.released.reach) {
            if strength.acquires { &mut views.seen } else { &mut views.found }.join(&write.released.view);
        }
        Seen { value, is_stale }
    }

    /// A strong write, or the write of an atomic, which has read the newest value.
    pub(in crate::exec) fn write(
        &mut self,
        views: &mut Views,
        word: Word,
        values: [u64; 2],
        strength: Strength,
        is_atomic: bool,
    ) {
        let [old, new] = values;
        views.buffer.store(word.address);
        self.number += 1;
        let number = self.number;
        if self.place(word).is_none() {
            let first = Write { number: 0, value: old, released: Released::default() };
            let place = Place { address: word.address, bytes: word.bytes, writes: VecDeque::from([first]), older: 0 };
            self.places.entry(word.address & !7).or_default().push(place);
        }
        let Some(place) = self.place(word) else { return };
        let mut released = Released::default();
        if is_atomic && let Some(before) = place.writes.back() {
            // It continues the release sequence of the write that it has read.
            released.join(&before.released.view, before.released.reach);
            if strength.is_reached(before.released.reach) {
                if strength.acquires { &mut views.seen } else { &mut views.found }.join(&before.released.view);
            }
        }
        views.seen.raise(word.address, number);
        if strength.releases {
            released.join(&views.seen, strength.reach(strength.scope));
        }
        for (wide, fenced) in views.fenced.iter().enumerate() {
            if let Some(view) = fenced {
                let scope = if wide == 1 { strength.scope } else { Scope::Cluster.min(strength.scope) };
                released.join(view, strength.reach(scope));
            }
        }
        if released.reach != Reach::Nobody {
            released.view.raise(word.address, number);
        }
        place.push(Write { number, value: new, released });
    }

    /// A plain write. It releases nothing, and makes no place.
    pub(in crate::exec) fn write_plainly(&mut self, views: &mut Views, word: Word, new: u64) {
        if self.places.is_empty() {
            return;
        }
        self.number += 1;
        let number = self.number;
        if let Some(place) = self.place(word) {
            place.push(Write { number, value: new, released: Released::default() });
            views.seen.raise(word.address, number);
        }
    }

    /// An asynchronous copy has written these bytes.
    pub(in crate::exec) fn forget(&mut self, address: u64, bytes: u64) {
        self.places.retain(|&key, _| key + 8 <= address || key >= address + bytes);
    }

    /// A memory fence of a warp.
    pub(in crate::exec) fn fence(&mut self, views: &mut Views, cluster: &mut Views, scope: Scope, sequential: bool) {
        views.fence(scope);
        if sequential {
            let order = if scope >= Scope::Gpu { &mut self.sequential } else { &mut cluster.seen };
            views.seen.join(order);
            order.join(&views.seen);
            views.fence(scope);
        }
    }
}

impl Place {
    fn push(&mut self, write: Write) {
        if self.writes.len() == KEPT {
            self.writes.pop_front();
        }
        self.writes.push_back(write);
        self.older = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAG: Word = Word { address: 64, bytes: 4 };
    const DATA: Word = Word { address: 128, bytes: 4 };

    fn strength(cluster: u32) -> Strength {
        Strength { scope: Scope::Gpu, acquires: false, releases: false, cluster }
    }

    /// Reads the oldest value that is allowed.
    fn oldest(memory: &mut WeakMemory, views: &mut Views, word: Word, newest: u64, strength: Strength) -> u64 {
        memory.read(views, word, newest, strength, |choices, _| choices - 1).value
    }

    #[test]
    fn reads_of_one_place_never_go_back() {
        let (mut memory, mut writer, mut reader) = (WeakMemory::default(), Views::default(), Views::default());
        for value in 0..3 {
            memory.write(&mut writer, FLAG, [value, value + 1], strength(0), false);
        }
        assert_eq!(oldest(&mut memory, &mut reader, FLAG, 3, strength(1)), 0);
        let second = memory.read(&mut reader, FLAG, 3, strength(1), |_, _| 1);
        assert_eq!(second, Seen { value: 2, is_stale: true });
        assert_eq!(oldest(&mut memory, &mut reader, FLAG, 3, strength(1)), 2);
        assert_eq!(oldest(&mut memory, &mut writer, FLAG, 3, strength(0)), 3, "its own write");
    }

    #[test]
    fn what_was_released_is_seen_by_those_who_acquire_in_its_scope() {
        for (scope, acquires, expected) in
            [(Scope::Gpu, true, 1), (Scope::Gpu, false, 0), (Scope::Block, true, 0), (Scope::System, true, 1)]
        {
            let (mut memory, mut writer, mut reader) = (WeakMemory::default(), Views::default(), Views::default());
            memory.write(&mut writer, DATA, [0, 1], strength(0), false);
            let release = Strength { scope, releases: true, ..strength(0) };
            memory.write(&mut writer, FLAG, [0, 1], release, false);
            let acquire = Strength { acquires, ..strength(1) };
            assert_eq!(memory.read(&mut reader, FLAG, 1, acquire, |_, _| 0).value, 1);
            assert_eq!(oldest(&mut memory, &mut reader, DATA, 1, strength(1)), expected, "{scope:?} {acquires}");
        }
    }

    #[test]
    fn overlapping_places_are_forgotten_and_patience_ends() {
        let (mut memory, mut writer, mut reader) = (WeakMemory::default(), Views::default(), Views::default());
        memory.write(&mut writer, FLAG, [0, 1], strength(0), false);
        for _ in 0..PATIENCE {
            assert_eq!(oldest(&mut memory, &mut reader, FLAG, 1, strength(1)), 0);
        }
        assert_eq!(oldest(&mut memory, &mut reader, FLAG, 1, strength(1)), 1);
        let mut other = Views::default();
        memory.write_plainly(&mut writer, Word { address: 64, bytes: 8 }, 5);
        assert_eq!(oldest(&mut memory, &mut other, FLAG, 5, strength(2)), 5);
    }

    #[test]
    fn the_first_read_after_a_store_to_another_place_sees_what_was_there_before() {
        let is_buffered = |views: &mut Views, memory: &mut WeakMemory, word| {
            let mut buffered = false;
            memory.read(views, word, 1, strength(1), |_, first| {
                buffered = first;
                0
            });
            buffered
        };
        let (mut memory, mut other) = (WeakMemory::default(), Views::default());
        memory.write(&mut other, FLAG, [0, 1], strength(0), false);
        memory.write(&mut other, DATA, [0, 1], strength(0), false);
        let mut views = Views::default();
        assert!(!is_buffered(&mut views, &mut memory, FLAG));
        memory.write(&mut views, DATA, [1, 2], strength(1), false);
        memory.write(&mut other, FLAG, [1, 2], strength(0), false);
        assert!(is_buffered(&mut views, &mut memory, FLAG));
        memory.write(&mut other, FLAG, [2, 3], strength(0), false);
        assert!(!is_buffered(&mut views, &mut memory, FLAG), "only the first read");
        memory.write(&mut other, DATA, [2, 3], strength(0), false);
        assert!(!is_buffered(&mut views, &mut memory, DATA), "its own place");
    }
}
