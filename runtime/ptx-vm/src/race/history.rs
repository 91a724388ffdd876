//! The shadow of global memory, and the places in it through which threads synchronise.
//!
//! Blocks run in parallel and share this, so it is split by address into parts with a lock each; no call holds two
//! locks.

use super::Space;
use super::knowledge::Knowledge;
use super::rules::Judge;
use super::shadow::Shadow;
use super::stamp::Stamp;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

const PARTS: usize = 64;
/// The bytes whose shadow is under one key, as a power of two.
const CHUNK_BITS: u32 = 16;
const CHUNK: u64 = 1 << CHUNK_BITS;
/// The number of reads that a cell holds before it needs a list.
const READS: usize = 2;

/// The knowledge that one release sequence has released.
#[derive(Debug, Default)]
struct Sequence {
    /// At GPU or system scope, from any cluster, in exported form.
    wide: Knowledge,
    /// At a narrower scope, by cluster.
    narrow: Vec<(u32, Knowledge)>,
}

impl Sequence {
    fn release(&mut self, cluster: u32, knowledge: &Knowledge, wide: bool) {
        if wide {
            self.wide.join_exported(cluster, knowledge);
        } else {
            self.release_narrowly(cluster, knowledge);
        }
    }

    fn release_narrowly(&mut self, cluster: u32, knowledge: &Knowledge) {
        match self.narrow.iter_mut().find(|(c, _)| *c == cluster) {
            Some((_, before)) => before.join(knowledge),
            None => self.narrow.push((cluster, knowledge.clone())),
        }
    }

    fn join(&mut self, other: &Self) {
        self.wide.join(&other.wide);
        for (cluster, knowledge) in &other.narrow {
            self.release_narrowly(*cluster, knowledge);
        }
    }

    /// Adds what a member of `cluster` sees, in exported form.
    fn add_seen_by(&self, cluster: u32, wide: bool, seen: &mut Knowledge) {
        if wide {
            seen.join(&self.wide);
        } else {
            let mut own = Knowledge::default();
            own.join_imported(cluster, &self.wide, false);
            seen.join_exported(cluster, &own);
        }
        for (_, narrow) in self.narrow.iter().filter(|(c, _)| *c == cluster) {
            seen.join_exported(cluster, narrow);
        }
    }
}

/// The knowledge that has been released to one address.
///
/// A strong read is announced before it is performed and looked up afterwards, and other workers may write in between.
/// So when a new release sequence replaces an old one, the old one is kept. It stays as long as an announced reader may
/// have read its value.
#[derive(Debug, Default)]
pub(super) struct HistoryPlace {
    current: Sequence,
    replaced: Option<Box<Sequence>>,
    readers: u32,
}

impl HistoryPlace {
    /// Adds what a member of `cluster` releases.
    pub(super) fn release(&mut self, cluster: u32, knowledge: &Knowledge, wide: bool) {
        self.current.release(cluster, knowledge, wide);
    }

    /// A write that does not continue a release sequence.
    pub(super) fn overwrite(&mut self) {
        let replaced = std::mem::take(&mut self.current);
        if self.readers > 0 {
            self.replaced.get_or_insert_default().join(&replaced);
        }
    }

    /// Announces a read of the address.
    pub(super) fn expect_reader(&mut self) {
        self.readers += 1;
    }

    /// The knowledge that a member of `cluster` may have seen, in exported form. `expected` tells whether the read was
    /// announced.
    pub(super) fn seen_by(&mut self, cluster: u32, wide: bool, expected: bool) -> Knowledge {
        let mut seen = Knowledge::default();
        self.current.add_seen_by(cluster, wide, &mut seen);
        if let Some(replaced) = &self.replaced {
            replaced.add_seen_by(cluster, wide, &mut seen);
        }
        self.readers = self.readers.saturating_sub(u32::from(expected));
        if self.readers == 0 {
            self.replaced = None;
        }
        seen
    }
}

/// Hashes addresses. They are the machine's own, so nobody can choose them to collide.
#[derive(Debug, Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

type ByAddress<T> = HashMap<u64, T, BuildHasherDefault<AddressHasher>>;

#[derive(Debug, Default)]
struct Part {
    shadow: ByAddress<Shadow<READS>>,
    places: ByAddress<HistoryPlace>,
}

#[derive(Debug, Default)]
struct Numbers {
    next: u32,
    /// The first actor of the latest launch.
    latest: u32,
    /// Launches that may still run when the latest one has ended: see [`Layout::open`](super::actors::Layout::open).
    open: (u32, u32),
}

/// The shadow of one machine's global memory. It lives longer than a launch.
#[derive(Debug)]
pub struct GlobalHistory {
    parts: Box<[Mutex<Part>]>,
    numbers: Mutex<Numbers>,
    /// Whether anything has been released to any address. If not, plain relaxed atomics need no look-up.
    has_places: AtomicBool,
    /// Whether the latest launch has executed `griddepcontrol.wait`, or doesn't need it.
    waited: AtomicBool,
}

impl Default for GlobalHistory {
    fn default() -> Self {
        Self::new()
    }
}

/// An access to be checked.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    /// The first byte.
    pub(super) first: u64,
    /// Number of bytes.
    pub(super) length: u32,
    /// Bytes of each lane if the lanes of the stamp are neighbours and access the bytes side by side. It is a power of
    /// two up to 16, and the first byte is at a multiple of it. 0 if all of them access all bytes.
    pub(super) each: u32,
    pub(super) stamp: Stamp,
    /// The lanes from whose point of view it is judged, if `each` is 0.
    pub(super) eyes: u32,
}

impl Piece {
    fn end(&self) -> u64 {
        self.first + u64::from(self.length)
    }

    /// Its parts in different chunks.
    fn parts(self) -> impl Iterator<Item = Self> {
        let mut at = self.first;
        std::iter::from_fn(move || {
            (at < self.end()).then(|| {
                let length = (CHUNK - at % CHUNK).min(self.end() - at) as u32;
                let part = Self { first: at, length, ..self };
                let part = match self.each {
                    0 => part,
                    each => {
                        let before = (at - self.first) as u32 / each + self.stamp.lanes.trailing_zeros();
                        part.by((u32::MAX >> (32 - length / each)) << before)
                    }
                };
                at += u64::from(length);
                part
            })
        })
    }

    fn by(self, lanes: u32) -> Self {
        Self { stamp: self.stamp.by(lanes), ..self }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // After a panic elsewhere, clocks are at worst incomplete.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GlobalHistory {
    /// An empty history.
    #[must_use]
    pub fn new() -> Self {
        Self {
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            numbers: Mutex::new(Numbers { next: 1, latest: 1, open: (1, 1) }),
            has_places: AtomicBool::new(false),
            waited: AtomicBool::new(true),
        }
    }

    /// Forgets the accesses to memory that is freed, so that its address can be used again.
    pub fn forget(&self, bytes: Range<u64>) {
        let mut at = bytes.start;
        while at < bytes.end {
            let chunk = at >> CHUNK_BITS;
            let end = ((chunk + 1) << CHUNK_BITS).min(bytes.end);
            let mut part = self.part(chunk);
            if at.is_multiple_of(CHUNK) && end - at == CHUNK {
                part.shadow.remove(&chunk);
            } else if let Some(shadow) = part.shadow.get_mut(&chunk) {
                shadow.forget((at % CHUNK) as u32, (end - (chunk << CHUNK_BITS)) as u32);
            }
            part.places.retain(|address, _| !(at..end).contains(address));
            drop(part);
            at = end;
        }
    }

    /// Records that the latest launch waits for the previous one (`griddepcontrol.wait`): it can't end before that one
    /// has.
    pub(super) fn waits(&self) {
        self.waited.store(true, Ordering::Relaxed);
    }

    /// Reserves actor numbers for a launch. Gives the first number of this launch and of the previous one. Also gives
    /// those of launches that may still run when the previous one has ended.
    pub(super) fn begin_launch(&self, actors: u64, overlaps: bool) -> Option<(u32, u32, (u32, u32))> {
        let mut numbers = lock(&self.numbers);
        // The largest number is reserved for the shadow.
        if u64::from(numbers.next) + actors >= u64::from(u32::MAX) {
            if actors >= u64::from(u32::MAX) - 1 {
                return None;
            }
            self.clear();
            *numbers = Numbers { next: 1, latest: 1, open: (1, 1) };
        }
        let first = numbers.next;
        let previous = std::mem::replace(&mut numbers.latest, first);
        let waited = self.waited.swap(!overlaps, Ordering::Relaxed);
        let is_open = numbers.open.0 < numbers.open.1;
        numbers.open = match (overlaps, waited) {
            (false, _) => (first, first),
            (true, true) if is_open => numbers.open,
            (true, true) => (previous, previous),
            // The previous launch may have ended before those that it overlapped.
            (true, false) => (numbers.open.0, previous),
        };
        numbers.next += actors as u32;
        for part in &self.parts {
            lock(part).places.clear();
        }
        self.has_places.store(false, Ordering::Relaxed);
        Some((first, previous, numbers.open))
    }

    fn clear(&self) {
        for part in &self.parts {
            *lock(part) = Part::default();
        }
    }

    fn part(&self, chunk: u64) -> MutexGuard<'_, Part> {
        lock(&self.parts[(chunk.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % PARTS])
    }

    /// Checks accesses.
    pub(super) fn check<J: Judge>(&self, accesses: impl Iterator<Item = Piece>, judge: &mut J) {
        let mut pieces = accesses.flat_map(Piece::parts).peekable();
        while let Some(chunk) = pieces.peek().map(|piece| piece.first >> CHUNK_BITS) {
            let mut part = self.part(chunk);
            let shadow = part.shadow.entry(chunk).or_insert_with(|| Shadow::new(Space::Global));
            let origin = chunk << CHUNK_BITS;
            // Lanes usually access one chunk, which is looked up once.
            while let Some(piece) = pieces.next_if(|piece| piece.first >> CHUNK_BITS == chunk) {
                let first = (piece.first - origin) as u32;
                if piece.each != 0 {
                    shadow.check_row(origin, first, piece.each, &piece.stamp, judge);
                } else {
                    judge.aim(piece.eyes);
                    shadow.check(origin, first, piece.length, &piece.stamp, judge);
                }
            }
        }
    }

    /// Records that a strong read has not observed what is written there.
    pub(super) fn miss<J: Judge>(&self, piece: Piece, judge: &J) {
        for piece in piece.parts() {
            let chunk = piece.first >> CHUNK_BITS;
            if let Some(shadow) = self.part(chunk).shadow.get_mut(&chunk) {
                shadow.miss((piece.first % CHUNK) as u32, piece.length, &piece.stamp, judge);
            }
        }
    }

    /// Calls `work` with the place at an address, which is created if necessary.
    pub(super) fn with_place(&self, address: u64, work: impl FnOnce(&mut HistoryPlace)) {
        self.has_places.store(true, Ordering::Release);
        work(self.part(address >> CHUNK_BITS).places.entry(address).or_default());
        // This comes before the executor's own store, which may be a relaxed one.
        fence(Ordering::SeqCst);
    }

    /// Calls `work` with the place at an address, if anything was ever released to it.
    pub(super) fn with_known_place<R>(&self, address: u64, work: impl FnOnce(&mut HistoryPlace) -> R) -> Option<R> {
        if !self.has_places.load(Ordering::Acquire) {
            return None;
        }
        self.part(address >> CHUNK_BITS).places.get_mut(&address).map(work)
    }
}
