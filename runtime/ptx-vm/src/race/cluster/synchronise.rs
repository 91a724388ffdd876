//! Barriers of threads, and mbarriers.

use super::super::actors::MBARRIERS;
use super::super::finding::Fault;
use super::super::judge::Eyes;
use super::super::lanes::lanes_of;
use super::super::mbarrier::{Mbarrier, Seen};
use super::super::observer::{At, BarrierArrival, MbarrierArrival, MbarrierOrder, MbarrierWait, Scope, Space};
use super::super::pattern::Seen as FenceSeen;
use super::super::rules::Judge;
use super::super::stamp::Stamp;
use super::super::warp::THREADS;
use super::super::{shared_address, shared_offset, shared_rank};
use super::access::by_address;
use super::{ClusterDetector, Knowledge};
use std::sync::Arc;

/// Number of bytes of an mbarrier.
const MBARRIER_BYTES: u32 = 8;

/// One CTA barrier, while threads arrive.
#[derive(Debug, Default)]
pub(super) struct CtaBarrier {
    gathered: Knowledge,
    /// The values that strong reads of the arrived threads have seen, for the fences of the others.
    seen: Vec<FenceSeen>,
    /// The waiting warps (by number in the block) and lanes.
    waiting: Vec<(u32, u32)>,
    /// The count that the first arrival gave.
    threads: Option<u32>,
    arrivals: Vec<Arrival>,
    /// The last completed use.
    before: Use,
}

/// A warp's arrival at a CTA barrier.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    warp: u32,
    lanes: u32,
    /// The warp's clock.
    clock: u32,
}

/// The warps that have used a CTA barrier.
#[derive(Debug, Default)]
struct Use {
    arrivals: Vec<Arrival>,
    /// The warps that waited: they know of all arrivals.
    waited: u32,
}

impl ClusterDetector {
    /// Checks that all live lanes of the warp arrive at an aligned barrier at once.
    fn check_aligned(&mut self, at: At, aligned: bool) {
        let live = self.warp(at).live;
        if aligned && at.lanes != live {
            self.fault(at, at.lanes, Fault::DivergentBarrier { lanes: at.lanes, expected: live });
        }
    }

    pub(super) fn arrives(&mut self, at: At, arrival: BarrierArrival) {
        self.comes_together(at);
        self.check_aligned(at, arrival.aligned);
        self.check_reuse(at, arrival.id);
        let index = self.warp_index(at);
        let barrier = self.blocks[at.rank as usize].barriers.entry(arrival.id).or_default();
        barrier.seen.extend(self.warps[index].unfenced(at.lanes));
        barrier.arrivals.push(Arrival { warp: at.warp, lanes: at.lanes, clock: self.warps[index].clock });
        self.warps[index].release(at.lanes, &mut barrier.gathered);
        if arrival.waits {
            barrier.waiting.push((at.warp, at.lanes));
        }
        let earlier = *barrier.threads.get_or_insert(arrival.threads);
        if earlier != arrival.threads {
            let fault = Fault::BarrierCount { id: arrival.id, earlier, now: arrival.threads };
            self.fault(at, at.lanes, fault);
        }
    }

    /// Checks that all earlier users of the barrier have arrived there before this arrival. Otherwise it might be
    /// counted among theirs.
    fn check_reuse(&mut self, at: At, id: u32) {
        let Some(barrier) = self.blocks[at.rank as usize].barriers.get(&id) else { return };
        let before = &barrier.before;
        if before.waited >> at.warp.min(31) & 1 != 0 {
            return;
        }
        let warp = &self.warps[self.warp_index(at)];
        let unknown = before.arrivals.iter().filter(|earlier| earlier.warp != at.warp).find(|earlier| {
            let actor = self.launch.layout.warp(at.rank, earlier.warp) + THREADS;
            let stamp = Stamp::new(actor, earlier.clock, earlier.lanes, at.pc, true, None);
            !lanes_of(at.lanes).all(|lane| warp.knows(lane, actor, &stamp))
        });
        if let Some(earlier) = unknown {
            let fault = Fault::BarrierReused { id, earlier: earlier.warp };
            self.fault(at, at.lanes, fault);
        }
    }

    pub(super) fn barrier_completes(&mut self, rank: u32, id: u32) {
        let Some(used) = self.blocks[rank as usize].barriers.get_mut(&id) else { return };
        let barrier = std::mem::take(used);
        let waited = barrier.waiting.iter().fold(0, |warps, (warp, _)| warps | 1 << warp.min(&31));
        used.before = Use { arrivals: barrier.arrivals, waited };
        let mut seen = barrier.seen.into_iter();
        let seen = seen.next().map(|first| {
            Arc::new(seen.fold(first, |mut all, seen| {
                all.join(self.index, &seen);
                all
            }))
        });
        for (warp, lanes) in barrier.waiting {
            let index = (rank * self.launch.layout.warps + warp) as usize;
            self.warps[index].synced_by(lanes, &barrier.gathered);
            if let Some(seen) = &seen {
                self.warps[index].carry(lanes, seen);
            }
        }
    }

    pub(super) fn arrives_at_cluster(&mut self, at: At, order: MbarrierOrder, aligned: bool) {
        self.check_aligned(at, aligned);
        let index = self.warp_index(at);
        let warp = &mut self.warps[index];
        match order {
            MbarrierOrder::Synchronises => warp.release(at.lanes, &mut self.cluster_gathered),
            MbarrierOrder::Relaxed => {
                warp.release_fenced(at.lanes, &mut self.cluster_gathered);
            }
        }
    }

    pub(super) fn cluster_completes(&mut self) {
        self.cluster_completed = std::mem::take(&mut self.cluster_gathered);
        // All blocks have arrived, so all of them have started.
        self.cluster_completed.started = u32::MAX;
    }

    pub(super) fn waits_for_cluster(&mut self, at: At) {
        let index = self.warp_index(at);
        self.warps[index].acquire(at.lanes, &self.cluster_completed);
    }

    pub(super) fn inits(&mut self, at: At, addresses: &[u64; 32], count: &[u32; 32]) {
        for lane in lanes_of(at.lanes) {
            let address = addresses[lane as usize];
            let stamp = self.write_mbarrier(at, lane, address);
            if !self.mbarriers.contains_key(&address) {
                let actor = self.new_mbarrier_actor(at, address);
                self.mbarriers.insert(address, Mbarrier::new(actor));
                let (first, end) = self.mbarrier_span;
                self.mbarrier_span = (first.min(address), end.max(address + u64::from(MBARRIER_BYTES)));
            }
            let Some(mbarrier) = self.mbarriers.get_mut(&address) else { continue };
            let was_alive = mbarrier.alive;
            mbarrier.init(count[lane as usize], stamp);
            if was_alive {
                self.fault(at, 1 << lane, Fault::ReInit { mbarrier: shared_offset(address) });
            }
        }
    }

    fn new_mbarrier_actor(&mut self, at: At, address: u64) -> Option<u32> {
        if self.mbarrier_actors == MBARRIERS {
            self.fault(at, at.lanes, Fault::Limit { what: "mbarriers of a cluster (1024)" });
            return None;
        }
        let actor = self.launch.layout.mbarrier(self.mbarrier_actors);
        self.mbarrier_actors += 1;
        self.launch.mbarrier_begins(self.first + actor, shared_rank(address), shared_offset(address));
        Some(actor)
    }

    /// The initialisation or end of an mbarrier is an ordinary write of its bytes.
    fn write_mbarrier(&mut self, at: At, lane: u32, address: u64) -> Stamp {
        let index = self.warp_index(at);
        self.warps[index].clock += 1;
        let warp = &self.warps[index];
        let stamp = Stamp::new(self.first + warp.actor + THREADS, warp.clock, 1 << lane, at.pc, true, None);
        let mut eyes = Eyes::new(&self.launch, warp, 1 << lane, Space::Shared, &mut self.found);
        let rank = shared_rank(address);
        if let Some(block) = self.blocks.get_mut(rank as usize) {
            let (origin, offset) = (shared_address(rank, 0), shared_offset(address));
            block.shadow.check(origin, offset, MBARRIER_BYTES, &stamp, &mut eyes);
        }
        stamp
    }

    pub(super) fn invals(&mut self, at: At, addresses: &[u64; 32]) {
        for lane in lanes_of(at.lanes) {
            let address = addresses[lane as usize];
            self.write_mbarrier(at, lane, address);
            if !self.uses_mbarrier(at, 1 << lane, address, false) {
                continue;
            }
            if let Some(mbarrier) = self.mbarriers.get_mut(&address) {
                mbarrier.alive = false;
            }
        }
    }

    /// Whether there is an mbarrier. Reports a use that is not ordered after its initialisation.
    ///
    /// A copy that another block of the cluster issues needs a fence after the initialisation. For the block's own
    /// copies, any order between the threads is accepted. Strictly, the initialisation is a write through the generic
    /// proxy (PTX ISA 9.7.9.25.1.2). But compilers leave out the fence there (Triton's lowering of `init_barrier`), and
    /// their code works.
    pub(super) fn uses_mbarrier(&mut self, at: At, lanes: u32, address: u64, bulk: bool) -> bool {
        let index = self.warp_index(at);
        let Some(mbarrier) = self.mbarriers.get(&address).filter(|b| b.alive) else {
            self.fault(at, lanes, Fault::NoMbarrier { mbarrier: shared_offset(address) });
            return false;
        };
        let warp = &self.warps[index];
        let elsewhere = shared_rank(address) != at.rank;
        let strong = Some(Scope::Cluster);
        let mut eyes = Eyes::new(&self.launch, warp, lanes, Space::Shared, &mut self.found);
        eyes.asynchronous = bulk && elsewhere && !mbarrier.init_fenced;
        let now = Stamp::new(self.first + warp.actor + THREADS, warp.clock, lanes, at.pc, true, strong);
        if !eyes.sees(&mbarrier.init, &now) {
            eyes.race(&mbarrier.init, &now, address);
        }
        if elsewhere && !bulk {
            self.touch_remote(at, lanes, shared_rank(address));
        }
        true
    }

    pub(super) fn init_fence(&mut self, at: At) {
        let index = self.warp_index(at);
        let actor = self.first + self.warps[index].actor + THREADS;
        let mine = |init: &Stamp| init.actor == actor && init.lanes & !at.lanes == 0;
        self.mbarriers.values_mut().filter(|b| mine(&b.init)).for_each(|b| b.init_fenced = true);
        self.warps[index].fence(at.lanes, Scope::Cluster);
    }

    pub(super) fn arrives_at_mbarrier(&mut self, at: At, arrival: &MbarrierArrival<'_>) {
        let index = self.warp_index(at);
        for (address, lanes) in by_address(at.lanes, arrival.addresses) {
            if !self.uses_mbarrier(at, lanes, address, false) {
                continue;
            }
            let Some(mbarrier) = self.mbarriers.get_mut(&address) else { continue };
            let warp = &mut self.warps[index];
            let is_near = shared_rank(address) == at.rank;
            match arrival.order {
                MbarrierOrder::Synchronises => mbarrier.collect(is_near, |pending| warp.release(lanes, pending)),
                MbarrierOrder::Relaxed => {
                    mbarrier.relaxed = true;
                    mbarrier.collect(is_near, |pending| {
                        warp.release_fenced(lanes, pending);
                        warp.release_tensor(lanes, pending);
                    });
                }
            }
            let of = |values: &[u32; 32]| lanes_of(lanes).map(|l| values[l as usize]).sum::<u32>();
            let (count, expect) = (of(arrival.count), of(arrival.expect));
            if expect > 0 {
                mbarrier.announce(i64::from(expect), at.pc);
            }
            if arrival.drop {
                mbarrier.drop_arrivals(count);
            }
            let pending = mbarrier.arrivals;
            mbarrier.arrivals -= i64::from(count);
            let lacks = mbarrier.lacks_bytes();
            if mbarrier.arrivals < 0 {
                let pending = pending.max(0) as u32;
                let fault = Fault::OverArrival { mbarrier: shared_offset(address), pending, arrivals: count };
                self.fault(at, lanes, fault);
            } else if let Some((expected, issued)) = lacks {
                let fault = Fault::TooFewBytes { mbarrier: shared_offset(address), expected, issued };
                self.fault(at, lanes, fault);
            }
        }
    }

    pub(super) fn expects(&mut self, at: At, addresses: &[u64; 32], bytes: &[u32; 32]) {
        for (address, lanes) in by_address(at.lanes, addresses) {
            if !self.uses_mbarrier(at, lanes, address, false) {
                continue;
            }
            if let Some(mbarrier) = self.mbarriers.get_mut(&address) {
                let bytes = lanes_of(lanes).map(|l| i64::from(bytes[l as usize])).sum::<i64>();
                mbarrier.announce(bytes, at.pc);
            }
        }
    }

    /// The counts of `cp.async.mbarrier.arrive` take effect.
    pub(super) fn counts(&mut self, address: u64, arrivals: u32, pc: u32) {
        let Some(mbarrier) = self.mbarriers.get_mut(&address) else { return };
        let pending = mbarrier.arrivals;
        mbarrier.arrivals -= i64::from(arrivals);
        if mbarrier.arrivals < 0 {
            let mbarrier = shared_offset(address);
            let fault = Fault::OverArrival { mbarrier, pending: pending.max(0) as u32, arrivals };
            self.block_fault(shared_rank(address), pc, fault);
        }
    }

    pub(super) fn waited(&mut self, at: At, wait: &MbarrierWait<'_>) {
        let index = self.warp_index(at);
        for (address, lanes) in by_address(at.lanes, wait.addresses) {
            if !self.uses_mbarrier(at, lanes, address, false) {
                continue;
            }
            let Some(mbarrier) = self.mbarriers.get_mut(&address) else { continue };
            let warp = &mut self.warps[index];
            mbarrier.waited = mbarrier.phase - 1;
            mbarrier.relaxed |= wait.order == MbarrierOrder::Relaxed;
            let is_known = |actor, phase| warp.knows_all(lanes, actor, phase);
            let unknown = wait.parity
                && mbarrier.actor.zip(mbarrier.to_be_known()).is_some_and(|(actor, phase)| !is_known(actor, phase));
            let (actor, clock) = (warp.actor + THREADS, warp.clock);
            mbarrier.see(Seen { actor, at: At { lanes, ..at }, clock, together: None });
            if !warp.apart.contains(&address) {
                warp.apart.push(address);
            }
            if wait.order == MbarrierOrder::Synchronises {
                warp.acquire(lanes, mbarrier.completed(wait.scope > Scope::Block));
            } else {
                warp.acquire_tensor(lanes, mbarrier.completed(wait.scope > Scope::Block));
            }
            if unknown {
                self.fault(at, lanes, Fault::PhaseUnknown { mbarrier: shared_offset(address) });
            }
        }
    }

    /// These lanes execute an instruction together: what one has waited for, all have.
    pub(super) fn comes_together(&mut self, at: At) {
        let index = self.warp_index(at);
        let warp = &mut self.warps[index];
        if warp.apart.is_empty() {
            return;
        }
        // From now on their releases have another clock than before.
        warp.clock += 1;
        let (actor, clock) = (warp.actor + THREADS, warp.clock);
        let mbarriers = &mut self.mbarriers;
        warp.apart.retain(|address| {
            mbarriers.get_mut(address).is_some_and(|mbarrier| !mbarrier.come_together(actor, at.lanes, clock))
        });
    }

    pub(super) fn completes_phase(&mut self, address: u64) {
        let Some(mbarrier) = self.mbarriers.get_mut(&address) else { return };
        let overrun = mbarrier.overrun();
        mbarrier.complete();
        if let Some(Seen { at, .. }) = overrun {
            self.fault(at, at.lanes, Fault::PhaseOverrun { mbarrier: shared_offset(address) });
        }
    }
}
