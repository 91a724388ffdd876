//! Tensor memory: the order of a warp's own `tcgen05` operations, and of accesses to a cell (PTX ISA 9.7.16.6).
//!
//! An asynchronous operation by another thread is ordered before an access only by a chain: its completion, then
//! `tcgen05.fence::before_thread_sync`, any synchronisation, and `tcgen05.fence::after_thread_sync`. Completion is
//! `tcgen05.wait::ld` or `wait::st`; or `tcgen05.commit`, which contains the first fence, and the wait for its
//! mbarrier. Pairs of operations of one pipeline need no completion: two products with the same accumulator, and a copy
//! before a product.

use super::Space;
use super::actors::{Actor, Layout};
use super::clock::Clock;
use super::finding::{Hazard, RaceCause};
use super::found::{Found, RawRace};
use super::knowledge::Knowledge;
use super::lanes::lanes_of;
use super::rules::{Fate, Judge};
use super::stamp::Stamp;
use super::tensor_own::{COPIES, ISSUED, LOADS, OPERANDS, PRODUCTS, STORES, TensorOwn};
use super::warp::Warp;
use std::sync::Arc;

impl Warp {
    /// Its `tcgen05` operations; `actor` is the number of the first actor for them.
    pub(super) fn tensor(&mut self, actor: u32) -> &mut TensorOwn {
        self.tensor.get_or_insert_with(|| Box::new(TensorOwn::new(actor)))
    }

    /// `tcgen05.fence::before_thread_sync`
    pub(super) fn tensor_before(&mut self, lanes: u32, actor: u32) {
        let own = self.tensor(actor);
        for lane in lanes_of(lanes).map(|lane| lane as usize) {
            own.sent_loads[lane] = own.loaded;
            own.sent_stores[lane] = own.stored;
            own.sent_issues[lane] = own.epoch;
        }
        own.epoch += 1;
    }

    /// `tcgen05.fence::after_thread_sync`
    pub(super) fn tensor_after(&mut self, lanes: u32, actor: u32) {
        let common = self.beyond.is_none().then(|| Arc::new(self.base.tensor_sent.clone()));
        for lane in lanes_of(lanes) {
            let seen = common.clone().unwrap_or_else(|| Arc::new(self.knowledge(lane).tensor_sent.clone()));
            self.tensor(actor).seen[lane as usize] = Some(seen);
        }
    }

    /// `tcgen05.wait::ld` or `wait::st` by the whole warp.
    pub(super) fn tensor_wait(&mut self, stores: bool, actor: u32) {
        let own = self.tensor(actor);
        if stores {
            own.stored = own.store;
            own.store += 1;
        } else {
            own.loaded = own.load;
            own.load += 1;
        }
    }

    /// Like [`release`](Self::release), but includes the lane's products and copies up to now, complete or not:
    /// `tcgen05.commit`, which releases when they are.
    pub(super) fn release_with_products(&mut self, lane: u32, actor: u32, to: &mut Knowledge) {
        let epoch = self.tensor(actor).epoch;
        for kind in [PRODUCTS, OPERANDS, COPIES] {
            to.happened.own.raise_lanes(actor + kind, 1 << lane, epoch);
            to.tensor_sent.own.raise_lanes(actor + kind, 1 << lane, epoch);
        }
        self.tensor_before(1 << lane, actor);
        self.release(1 << lane, to);
    }
}

impl Warp {
    /// A relaxed arrival releases no order of memory, but that of `tcgen05` operations before a fence.
    pub(super) fn release_tensor(&self, lanes: u32, to: &mut Knowledge) {
        lanes_of(lanes).for_each(|lane| to.tensor_sent.join(&self.knowledge(lane).tensor_sent));
        if let Some(tensor) = &self.tensor {
            let mut own = Knowledge::default();
            tensor.add_to(lanes, &mut own);
            to.tensor_sent.join(&own.tensor_sent);
        }
    }

    /// A relaxed wait acquires it.
    pub(super) fn acquire_tensor(&mut self, lanes: u32, from: &Knowledge) {
        if !from.tensor_sent.is_empty() {
            self.learn(lanes, |knowledge| knowledge.tensor_sent.join(&from.tensor_sent));
        }
    }
}

/// An accumulator of products that may be in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accumulator {
    /// The first column, their number, and the first lane.
    pub(super) columns: (u32, u32),
    pub(super) lane: u32,
    /// Rows.
    pub(super) rows: u32,
    /// The product that wrote it last.
    pub(super) stamp: Stamp,
}

impl Accumulator {
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let lanes = self.rows > 64 || other.rows > 64 || self.lane == other.lane;
        lanes && self.columns.0 < other.columns.0 + other.columns.1 && other.columns.0 < self.columns.0 + self.columns.1
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.columns, self.lane, self.rows) == (other.columns, other.lane, other.rows)
    }
}

/// The access that is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TensorAccess {
    /// `tcgen05.alloc`, `tcgen05.dealloc`: synchronous, so completion and any order are enough.
    Manages,
    /// `tcgen05.ld`, `st`, and `cp`, which follows no other operation in a pipeline.
    Moves,
    /// The operand A of a product.
    Operand,
    /// The accumulator of a product. `continues` tells that no product with another one over these cells may be under
    /// way.
    Accumulates { continues: bool },
}

/// Judges accesses to tensor memory by some lanes of a warp.
pub(super) struct TensorEyes<'a> {
    layout: &'a Layout,
    warp: &'a Warp,
    lanes: u32,
    first: u32,
    access: TensorAccess,
    found: &'a mut Found,
}

impl<'a> TensorEyes<'a> {
    pub(super) fn new(
        layout: &'a Layout,
        warp: &'a Warp,
        lanes: u32,
        access: TensorAccess,
        found: &'a mut Found,
    ) -> Self {
        Self { layout, warp, lanes, first: layout.first + warp.cluster * layout.stride(), access, found }
    }

    /// Whether the earlier operation is known to be complete, regardless of fences.
    fn is_complete(&self, local: u32, earlier: &Stamp) -> bool {
        self.own_move(local).is_some_and(|done| done >= earlier.clock)
            || lanes_of(self.lanes).all(|lane| self.warp.knows(lane, local, earlier))
    }

    /// For a load or store of the own warp: those for which it has waited.
    fn own_move(&self, local: u32) -> Option<u32> {
        let own = self.warp.tensor.as_ref()?;
        match local.wrapping_sub(own.actor) {
            LOADS => Some(own.loaded),
            STORES => Some(own.stored),
            _ => None,
        }
    }

    /// Whether each lane has seen the operation by its last fence.
    fn is_seen(&self, local: u32, lanes: u32, clock: u32) -> bool {
        let Some(own) = &self.warp.tensor else { return false };
        let mut last: Option<&Arc<Clock>> = None;
        lanes_of(self.lanes).all(|lane| {
            let Some(seen) = &own.seen[lane as usize] else { return false };
            if last.is_some_and(|last| Arc::ptr_eq(last, seen)) {
                return true;
            }
            last = Some(seen);
            seen.own.covers(local, lanes, clock)
        })
    }

    /// Whether the operation needs no completion: it and this one belong to one pipeline, in this order.
    fn is_pipelined(&self, local: u32, rank: u32, warp: u32, kind: u32, earlier: &Stamp) -> bool {
        let pair = match (kind, self.access) {
            (PRODUCTS, TensorAccess::Accumulates { continues }) => continues,
            (COPIES, TensorAccess::Accumulates { .. } | TensorAccess::Operand) => true,
            _ => false,
        };
        let mine = self.warp.tensor.as_ref().map(|own| own.actor);
        pair && (mine == Some(local - kind) && earlier.lanes == self.lanes
            || self.is_seen(self.layout.tensor(rank, warp) + ISSUED, earlier.lanes, earlier.clock))
    }

    /// Whether an operation with this stamp is over for the lanes.
    pub(super) fn is_over(&self, earlier: &Stamp) -> bool {
        let local = earlier.actor - self.first;
        self.own_move(local).is_some_and(|done| done >= earlier.clock)
            || self.is_seen(local, earlier.lanes, earlier.clock)
    }

    fn cause(&self, earlier: &Stamp) -> RaceCause {
        let local = earlier.actor - self.first;
        if !matches!(self.layout.actor(local), Actor::Tensor { .. }) {
            return RaceCause::Unordered;
        }
        let sent = |lane| self.warp.knowledge(lane).tensor_sent.own.covers(local, earlier.lanes, earlier.clock);
        if lanes_of(self.lanes).all(sent) {
            RaceCause::TensorFenceAfter
        } else if self.is_complete(local, earlier) {
            RaceCause::TensorFenceBefore
        } else {
            RaceCause::NotWaited
        }
    }
}

impl Judge for TensorEyes<'_> {
    fn aim(&mut self, lanes: u32) {
        self.lanes = lanes;
    }

    fn sees_by_lane(&self, earlier: &Stamp, now: &Stamp) -> bool {
        self.sees(earlier, now)
    }

    fn sees(&self, earlier: &Stamp, _: &Stamp) -> bool {
        let local = earlier.actor - self.first;
        match (self.layout.actor(local), self.access) {
            (Actor::Tensor { .. }, TensorAccess::Manages) => self.is_complete(local, earlier),
            (Actor::Tensor { rank, warp, kind }, _) => {
                self.is_over(earlier) || self.is_pipelined(local, rank, warp, kind, earlier)
            }
            // Allocation and its end are synchronous.
            _ => lanes_of(self.lanes).all(|lane| self.warp.knows(lane, local, earlier)),
        }
    }

    fn sees_at_once(&self, earlier: &Stamp) -> bool {
        self.is_over(earlier)
    }

    fn fate(&self, earlier: &Stamp) -> Fate {
        if self.is_over(earlier) { Fate::Known } else { Fate::Open }
    }

    fn are_known_together(&self, _: &Stamp, _: &Stamp) -> bool {
        false
    }

    #[cold]
    fn race(&mut self, earlier: &Stamp, now: &Stamp, address: u64) {
        let hazard = match (earlier.writes(), now.writes()) {
            (true, true) => Hazard::WriteAfterWrite,
            (true, false) => Hazard::ReadAfterWrite,
            (false, _) => Hazard::WriteAfterRead,
        };
        let cause = self.cause(earlier);
        let (first, second) = (*earlier, *now);
        let race = RawRace { hazard, cause, first, second, space: Space::Tensor, address };
        self.found.races.entry((earlier.pc(), now.pc(), hazard, cause)).or_insert(race);
    }

    /// One operation writes each of its cells once.
    fn same_instruction(&self, _: u32, _: &Stamp) -> bool {
        true
    }
}
