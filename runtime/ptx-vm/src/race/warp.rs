//! The knowledge of a warp and its lanes.
//!
//! The lanes of a warp share one counter, which advances whenever something is released. So an access is stamped with
//! the warp's actor, the counter and the lanes. A lane's own accesses are always ordered for that lane. Accesses of its
//! neighbours are ordered only after a `bar.warp.sync` or a wider barrier has brought them together. As long as all
//! lanes know the same (the usual case) there is one [`Knowledge`] for all.

use super::clock::Clock;
use super::groups::Groups;
use super::knowledge::Knowledge;
use super::lanes::lanes_of;
use super::observer::ProxyFence;
use super::pattern::{LaneDone, PendingRelease, Seen};
use super::stamp::Stamp;
use super::tensor_own::TensorOwn;
use std::sync::Arc;

/// Number of actors of one warp, whose numbers are relative to its first one.
pub(super) const WARP_ACTORS: u32 = 4;
/// Its threads.
pub(super) const THREADS: u32 = 0;
/// Its `cp.async` copies.
pub(super) const COPIES: u32 = 1;
/// Reads of its bulk copies that complete by group.
pub(super) const BULK_READS: u32 = 2;
/// Writes of its bulk copies that complete by group.
pub(super) const BULK_WRITES: u32 = 3;

/// One lane's knowledge of its own actions, without any synchronisation.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// The epoch of `cp.async` that was waited for.
    pub(super) copied: [u32; 32],
    /// The epoch of bulk groups whose reads were waited for.
    pub(super) bulk_read: [u32; 32],
    /// The epoch of bulk groups whose writes were waited for.
    pub(super) bulk_written: [u32; 32],
    /// The warp's clock at the last proxy fence for shared memory, and the value of `copied` then.
    pub(super) shared_fence: [u32; 32],
    shared_copied: [u32; 32],
    /// Clock and `copied` at the last proxy fence for global memory.
    global_fence: [u32; 32],
    global_copied: [u32; 32],
    /// Clock and epochs at the last fence at GPU scope.
    pub(super) device_fence: [u32; 32],
    device_done: Done,
}

/// Epochs of asynchronous work for which each lane has waited: of `cp.async`, of bulk groups' reads, of their writes.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    copied: [u32; 32],
    bulk_read: [u32; 32],
    bulk_written: [u32; 32],
}

impl Own {
    /// The work for which a lane has waited so far.
    pub(super) fn done(&self, lane: usize) -> LaneDone {
        LaneDone { copied: self.copied[lane], bulk_read: self.bulk_read[lane], bulk_written: self.bulk_written[lane] }
    }

    /// A lane executes a fence at GPU scope, at this clock of its warp.
    pub(super) fn fence(&mut self, lane: usize, clock: u32) {
        let LaneDone { copied, bulk_read, bulk_written } = self.done(lane);
        self.device_fence[lane] = clock;
        self.device_done.copied[lane] = copied;
        self.device_done.bulk_read[lane] = bulk_read;
        self.device_done.bulk_written[lane] = bulk_written;
    }
}

/// One warp.
#[derive(Debug)]
pub(super) struct Warp {
    /// The number of its first actor within the cluster.
    pub(super) actor: u32,
    /// The cluster, and the number of its first actor within the launch.
    pub(super) cluster: u32,
    /// Lanes that have not exited.
    pub(super) live: u32,
    /// The counter.
    pub(super) clock: u32,
    /// The counter when something was last passed on. Accesses since then are known to others all or none.
    pub(super) passed: u32,
    /// The knowledge of every lane.
    pub(super) base: Knowledge,
    /// Further knowledge of each lane; it contains `base`.
    pub(super) beyond: Option<Box<[Option<Box<Knowledge>>; 32]>>,
    pub(super) own: Own,
    pub(super) copies: Groups,
    pub(super) bulk: Groups,
    /// The epoch of each lane's last bulk copy that reads shared memory.
    pub(super) bulk_reading: [u32; 32],
    /// Number of committed `wgmma` groups.
    pub(super) wgmma_commits: u32,
    /// mbarriers for which lanes have waited without coming together since.
    pub(super) apart: Vec<u64>,
    pub(super) releases: Option<Box<[Option<PendingRelease>; 32]>>,
    pub(super) acquires: Option<Box<[Option<Box<Seen>>; 32]>>,
    /// The values that strong reads of other lanes have seen, if these lanes have met them at a barrier since. A fence
    /// acquires it.
    pub(super) carried: Vec<(u32, Arc<Seen>)>,
    /// Its `tcgen05` operations, if there were any.
    pub(super) tensor: Option<Box<TensorOwn>>,
}

/// Raises an actor of the own warp to what each of `lanes` knows of its own actions.
fn raise_own(clock: &mut super::actor_clock::ActorClock, actor: u32, lanes: u32, all: bool, values: &[u32; 32]) {
    if lanes == 0 {
        return;
    }
    let first = values[lanes.trailing_zeros() as usize];
    let same = if lanes == u32::MAX {
        values.iter().all(|&v| v == first)
    } else {
        lanes_of(lanes).all(|l| values[l as usize] == first)
    };
    match (same, all) {
        (true, _) if first == 0 => {}
        (true, true) => clock.raise(actor, first),
        (true, false) => clock.raise_lanes(actor, lanes, first),
        (false, _) => lanes_of(lanes).for_each(|l| clock.raise_lanes(actor, 1 << l, values[l as usize])),
    }
}

impl Warp {
    pub(super) fn new(cluster: u32, actor: u32, lanes: u32, rank: u32, dependency: bool) -> Self {
        let mut base = Knowledge { started: 1 << rank.min(31), dependency, ..Knowledge::default() };
        base.happened.own.raise(actor, 0);
        Self {
            actor,
            cluster,
            live: lanes,
            clock: 1,
            passed: 0,
            base,
            beyond: None,
            own: Own::default(),
            copies: Groups::default(),
            bulk: Groups::default(),
            bulk_reading: [0; 32],
            wgmma_commits: 0,
            apart: Vec::new(),
            releases: None,
            acquires: None,
            carried: Vec::new(),
            tensor: None,
        }
    }

    /// A lane's knowledge (without [`Own`]).
    #[inline]
    pub(super) fn knowledge(&self, lane: u32) -> &Knowledge {
        match &self.beyond {
            None => &self.base,
            Some(lanes) => lanes[lane as usize].as_deref().unwrap_or(&self.base),
        }
    }

    fn is_all(&self, lanes: u32) -> bool {
        lanes & self.live == self.live
    }

    /// Adds what the lanes know of their own actions, their accesses up to `clock`.
    pub(super) fn add_own(&self, lanes: u32, clock: u32, to: &mut Knowledge) {
        let all = self.is_all(lanes);
        let actor = self.actor;
        let happened = &mut to.happened.own;
        if all {
            happened.raise(actor + THREADS, clock);
        } else {
            happened.raise_lanes(actor + THREADS, lanes, clock);
        }
        if self.copies.epoch > 1 {
            raise_own(happened, actor + COPIES, lanes, all, &self.own.copied);
        }
        if self.bulk.epoch > 1 {
            raise_own(happened, actor + BULK_READS, lanes, all, &self.own.bulk_read);
            raise_own(happened, actor + BULK_WRITES, lanes, all, &self.own.bulk_written);
        }
        let shared = &mut to.shared_proxy.own;
        raise_own(shared, actor + THREADS, lanes, all, &self.own.shared_fence);
        raise_own(shared, actor + COPIES, lanes, all, &self.own.shared_copied);
        let global = &mut to.global_proxy.own;
        raise_own(global, actor + THREADS, lanes, all, &self.own.global_fence);
        raise_own(global, actor + COPIES, lanes, all, &self.own.global_copied);
        self.add_own_fenced(lanes, all, &mut to.device);
        if let Some(tensor) = &self.tensor {
            tensor.add_to(lanes, to);
        }
    }

    /// Adds what is before the lanes' own fences at GPU scope.
    pub(super) fn add_own_fenced(&self, lanes: u32, all: bool, to: &mut Clock) {
        let (actor, done) = (self.actor, &self.own.device_done);
        raise_own(&mut to.own, actor + THREADS, lanes, all, &self.own.device_fence);
        raise_own(&mut to.own, actor + COPIES, lanes, all, &done.copied);
        if self.bulk.epoch > 1 {
            raise_own(&mut to.own, actor + BULK_READS, lanes, all, &done.bulk_read);
            raise_own(&mut to.own, actor + BULK_WRITES, lanes, all, &done.bulk_written);
        }
    }

    /// Adds what one lane knew of its own actions at a fence: its accesses up to `clock`, and the asynchronous work for
    /// which it had waited then. Work for which it has waited since is not before the fence.
    pub(super) fn add_own_at(&self, lane: u32, clock: u32, done: LaneDone, to: &mut Knowledge) {
        let (actor, lanes) = (self.actor, 1 << lane);
        let happened = &mut to.happened.own;
        for (kind, epoch) in
            [(THREADS, clock), (COPIES, done.copied), (BULK_READS, done.bulk_read), (BULK_WRITES, done.bulk_written)]
        {
            if epoch != 0 {
                happened.raise_lanes(actor + kind, lanes, epoch);
            }
        }
        let own = &self.own;
        let shared = &mut to.shared_proxy.own;
        raise_own(shared, actor + THREADS, lanes, false, &own.shared_fence);
        raise_own(shared, actor + COPIES, lanes, false, &own.shared_copied);
        let global = &mut to.global_proxy.own;
        raise_own(global, actor + THREADS, lanes, false, &own.global_fence);
        raise_own(global, actor + COPIES, lanes, false, &own.global_copied);
        self.add_own_fenced(lanes, false, &mut to.device);
    }

    fn join_lanes(&self, lanes: u32, to: &mut Knowledge) {
        match &self.beyond {
            None => to.join(&self.base),
            Some(beyond) => {
                if lanes_of(lanes).any(|l| beyond[l as usize].is_none()) {
                    to.join(&self.base);
                }
                lanes_of(lanes).filter_map(|l| beyond[l as usize].as_deref()).for_each(|k| to.join(k));
            }
        }
    }

    /// Ends what is passed on together: what follows has a larger clock.
    pub(super) fn tick(&mut self) {
        self.passed = self.clock;
        self.clock += 1;
    }

    /// Passes everything that these lanes know and did to `to`. Their later actions are not included.
    pub(super) fn release(&mut self, lanes: u32, to: &mut Knowledge) {
        self.join_lanes(lanes, to);
        self.add_own(lanes, self.clock, to);
        self.tick();
    }

    /// Like [`release`](Self::release), but includes these lanes' copies up to now, completed or not.
    pub(super) fn release_with_copies(&mut self, lanes: u32, to: &mut Knowledge) {
        to.happened.own.raise_lanes(self.actor + COPIES, lanes, self.copies.epoch);
        self.copies.epoch += 1;
        self.release(lanes, to);
    }

    /// Lets these lanes learn everything in `from`.
    pub(super) fn acquire(&mut self, lanes: u32, from: &Knowledge) {
        self.learn(lanes, |knowledge| knowledge.join(from));
    }

    /// Lets these lanes learn the knowledge of a global place.
    pub(super) fn acquire_global(&mut self, lanes: u32, from: &Knowledge, wide: bool) {
        let cluster = self.cluster;
        self.learn(lanes, |knowledge| knowledge.join_imported(cluster, from, wide));
    }

    pub(super) fn learn(&mut self, lanes: u32, learn: impl Fn(&mut Knowledge)) {
        if self.is_all(lanes) {
            learn(&mut self.base);
            if let Some(beyond) = &mut self.beyond {
                beyond.iter_mut().flatten().for_each(|k| learn(k));
            }
        } else {
            let beyond = self.beyond.get_or_insert_default();
            for lane in lanes_of(lanes) {
                learn(beyond[lane as usize].get_or_insert_with(|| Box::new(self.base.clone())));
            }
        }
    }

    /// `cp.async.wait_group`.
    pub(super) fn wait_copies(&mut self, lanes: u32, pending: u32) {
        for lane in lanes_of(lanes) {
            let done = self.copies.completed(lane, pending);
            let waited = &mut self.own.copied[lane as usize];
            *waited = done.max(*waited);
        }
    }

    /// `cp.async.bulk.wait_group[.read]`.
    pub(super) fn wait_bulk(&mut self, lanes: u32, pending: u32, read: bool) {
        for lane in lanes_of(lanes) {
            let done = self.bulk.completed(lane, pending);
            let own = &mut self.own;
            let waited = &mut own.bulk_read[lane as usize];
            *waited = done.max(*waited);
            if !read {
                let waited = &mut own.bulk_written[lane as usize];
                *waited = done.max(*waited);
            }
        }
    }

    /// `griddepcontrol.wait`.
    pub(super) fn depend(&mut self, lanes: u32) {
        self.learn(lanes, |knowledge| knowledge.dependency = true);
    }

    /// These lanes learn that an actor of the cluster has done everything up to `clock`.
    pub(super) fn know(&mut self, lanes: u32, actor: u32, clock: u32) {
        self.learn(lanes, |knowledge| knowledge.happened.own.raise(actor, clock));
    }

    /// Adds what any lane, exited or not, knows.
    pub(super) fn everything_known(&self, to: &mut Knowledge) {
        to.join(&self.base);
        if let Some(beyond) = &self.beyond {
            beyond.iter().flatten().for_each(|knowledge| to.join(knowledge));
        }
    }

    /// These lanes come together: what one of them knows and did, all of them know.
    pub(super) fn sync(&mut self, lanes: u32) {
        if let Some(seen) = self.unfenced(lanes) {
            self.carry(lanes, &Arc::new(seen));
        }
        if self.is_all(lanes) {
            if let Some(beyond) = self.beyond.take() {
                lanes_of(lanes).filter_map(|l| beyond[l as usize].as_deref()).for_each(|k| self.base.join(k));
            }
            let mut base = std::mem::take(&mut self.base);
            self.add_own(lanes, self.clock, &mut base);
            self.base = base;
        } else {
            let mut together = Knowledge::default();
            self.join_lanes(lanes, &mut together);
            self.add_own(lanes, self.clock, &mut together);
            let beyond = self.beyond.get_or_insert_default();
            for lane in lanes_of(lanes) {
                beyond[lane as usize] = Some(Box::new(together.clone()));
            }
        }
        self.tick();
    }

    /// A barrier of all the warp's lanes has completed with this knowledge, which contains their own.
    pub(super) fn synced_by(&mut self, lanes: u32, from: &Knowledge) {
        if self.is_all(lanes) {
            self.beyond = None;
        }
        self.acquire(lanes, from);
    }

    /// `fence.proxy.async` by these lanes.
    pub(super) fn proxy_fence(&mut self, lanes: u32, fence: ProxyFence) {
        let shared = fence != ProxyFence::Global;
        let global = fence != ProxyFence::Shared;
        self.learn(lanes, |k| {
            if shared {
                k.shared_proxy.join(&k.happened);
            }
            if global {
                k.global_proxy.join(&k.happened);
            }
        });
        for lane in lanes_of(lanes).map(|l| l as usize) {
            if shared {
                self.own.shared_fence[lane] = self.clock;
                self.own.shared_copied[lane] = self.own.copied[lane];
            }
            if global {
                self.own.global_fence[lane] = self.clock;
                self.own.global_copied[lane] = self.own.copied[lane];
            }
        }
        self.tick();
    }

    /// `fence.proxy.tensormap::generic` by these lanes, which name the same map if they acquire it.
    pub(super) fn tensor_map_fence(&mut self, lanes: u32, acquired: Option<u64>) {
        if let Some(map) = acquired {
            self.learn(lanes, |knowledge| knowledge.maps.acquire(map));
            return;
        }
        let (actor, clock, copied) = (self.actor, self.clock, self.own.copied);
        self.learn(lanes, |Knowledge { maps, happened, .. }| {
            let released = &mut maps.release(happened).own;
            released.raise_lanes(actor + THREADS, lanes, clock);
            lanes_of(lanes).for_each(|lane| released.raise_lanes(actor + COPIES, 1 << lane, copied[lane as usize]));
        });
        self.tick();
    }

    /// Whether all lanes know the same of an actor of the cluster.
    pub(super) fn knows_alike(&self, actor: u32) -> bool {
        self.beyond.is_none() && actor.wrapping_sub(self.actor) >= WARP_ACTORS
    }

    /// Whether all of these lanes know that another actor of the cluster has done everything up to `clock`.
    pub(super) fn knows_all(&self, lanes: u32, actor: u32, clock: u32) -> bool {
        let knows = |knowledge: &Knowledge| knowledge.happened.own.covers(actor, u32::MAX, clock);
        if self.beyond.is_none() { knows(&self.base) } else { lanes_of(lanes).all(|lane| knows(self.knowledge(lane))) }
    }

    /// Whether a lane knows a stamp of its own cluster (`actor` is a number in the cluster).
    pub(super) fn knows(&self, lane: u32, actor: u32, stamp: &Stamp) -> bool {
        let mut others = stamp.lanes;
        let own = match actor.wrapping_sub(self.actor) {
            THREADS => u32::MAX,
            COPIES => self.own.copied[lane as usize],
            BULK_READS => self.own.bulk_read[lane as usize],
            BULK_WRITES => self.own.bulk_written[lane as usize],
            _ => 0,
        };
        if stamp.clock <= own {
            others &= !(1 << lane);
        }
        others == 0 || self.knowledge(lane).happened.own.covers(actor, others, stamp.clock)
    }

    /// Whether a lane's asynchronous operations see a generic write of its own cluster.
    pub(super) fn knows_fenced(&self, lane: u32, actor: u32, stamp: &Stamp, shared: bool) -> bool {
        let mut others = stamp.lanes;
        let own = &self.own;
        let own = match (actor.wrapping_sub(self.actor), shared) {
            (THREADS, true) => own.shared_fence[lane as usize],
            (THREADS, false) => own.global_fence[lane as usize],
            (COPIES, true) => own.shared_copied[lane as usize],
            (COPIES, false) => own.global_copied[lane as usize],
            _ => 0,
        };
        if stamp.clock <= own {
            others &= !(1 << lane);
        }
        let knowledge = self.knowledge(lane);
        let proxy = if shared { &knowledge.shared_proxy } else { &knowledge.global_proxy };
        others == 0 || proxy.own.covers(actor, others, stamp.clock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(actor: u32, clock: u32, lanes: u32) -> Stamp {
        Stamp::new(actor, clock, lanes, 0, true, None)
    }

    #[test]
    fn lanes_know_their_own_and_after_a_sync_each_others() {
        let mut warp = Warp::new(0, 8, u32::MAX, 0, true);
        let write = stamp(8, warp.clock, 1 << 3);
        assert!(warp.knows(3, 8, &write));
        assert!(!warp.knows(4, 8, &write));
        warp.sync(0x18);
        assert!(warp.knows(4, 8, &write));
        assert!(!warp.knows(5, 8, &write));
        let later = stamp(8, warp.clock, 1 << 3);
        assert!(!warp.knows(4, 8, &later));
        warp.sync(u32::MAX);
        assert!(warp.knows(5, 8, &later) && warp.beyond.is_none());
    }

    #[test]
    fn what_one_lane_waited_for_its_neighbours_know_after_a_sync() {
        let mut warp = Warp::new(0, 0, u32::MAX, 0, true);
        let mut released = Knowledge::default();
        released.happened.own.raise(20, 5);
        warp.acquire(1, &released);
        let copy = stamp(20, 5, u32::MAX);
        assert!(warp.knows(0, 20, &copy) && !warp.knows(1, 20, &copy));
        warp.sync(u32::MAX);
        assert!(warp.knows(1, 20, &copy));
    }

    #[test]
    fn a_proxy_fence_covers_the_lanes_own_writes_and_what_it_knew() {
        let mut warp = Warp::new(0, 0, u32::MAX, 0, true);
        let write = stamp(0, warp.clock, 2);
        warp.proxy_fence(2, ProxyFence::Shared);
        assert!(warp.knows_fenced(1, 0, &write, true));
        assert!(!warp.knows_fenced(1, 0, &write, false));
        assert!(!warp.knows_fenced(0, 0, &write, true));
        warp.sync(u32::MAX);
        assert!(warp.knows_fenced(0, 0, &write, true));
        let later = stamp(0, warp.clock, 2);
        warp.sync(u32::MAX);
        assert!(!warp.knows_fenced(0, 0, &later, true));
    }
}
