//! Decides whether an access is ordered after an earlier one, and records a race if it isn't.

use super::actors::{Actor, Layout};
use super::clock::Clock;
use super::detector::Detector;
use super::finding::{Hazard, RaceCause};
use super::found::{Found, RawRace};
use super::knowledge::Knowledge;
use super::lanes::lanes_of;
use super::rules::{Chain, Fate, Judge};
use super::stamp::Stamp;
use super::warp::Warp;
use super::{Scope, Space};

/// Judges from the point of view of some lanes of a warp.
pub(super) struct Eyes<'a> {
    launch: &'a Detector,
    layout: &'a Layout,
    pub(super) warp: &'a Warp,
    /// The lanes. Each of them must know of an earlier access.
    pub(super) lanes: u32,
    /// The number of the cluster's first actor.
    first: u32,
    /// The number of the cluster's actors that are not mbarriers.
    blocks_end: u32,
    pub(super) space: Space,
    /// Whether the asynchronous proxy makes the access.
    pub(super) asynchronous: bool,
    /// Tells whether two lanes of the instruction write the same bytes.
    pub(super) same_value: Option<&'a dyn Fn(u32, u32) -> bool>,
    /// Tells whether a lane writes the bytes that are there already.
    pub(super) unchanged: Option<&'a dyn Fn(u32) -> bool>,
    /// Whether the access is a read through the non-coherent cache.
    pub(super) non_coherent: bool,
    /// The address of the tensor map that a copy reads, if this is the access.
    pub(super) map: Option<u64>,
    /// The effect of the access on the observation order.
    pub(super) chain: Chain,
    found: &'a mut Found,
}

impl<'a> Eyes<'a> {
    /// An access by threads, without further facts.
    pub(super) fn new(launch: &'a Detector, warp: &'a Warp, lanes: u32, space: Space, found: &'a mut Found) -> Self {
        let layout = &launch.layout;
        Self {
            launch,
            layout,
            warp,
            lanes,
            first: layout.first + warp.cluster * layout.stride(),
            blocks_end: layout.mbarrier(0),
            space,
            asynchronous: false,
            same_value: None,
            unchanged: None,
            non_coherent: false,
            map: None,
            chain: Chain::None,
            found,
        }
    }
}

impl Eyes<'_> {
    /// The generic writes that the proxy of the access sees.
    fn proxy<'k>(&self, knowledge: &'k Knowledge) -> Option<&'k Clock> {
        match (self.map, self.space) {
            (Some(map), _) => knowledge.maps.seen(map),
            (None, Space::Shared) => Some(&knowledge.shared_proxy),
            (None, Space::Global) => Some(&knowledge.global_proxy),
            // Tensor memory has one proxy, and a judge of its own.
            (None, Space::Tensor) => None,
        }
    }

    fn is_generic_write(&self, earlier: &Stamp) -> bool {
        earlier.writes() && earlier.actor >= self.layout.first && {
            let (_, local) = self.layout.split(earlier.actor);
            self.layout.actor(local).is_generic()
        }
    }

    /// Whether the earlier access is known to be ordered before, regardless of proxies.
    fn is_ordered(&self, earlier: &Stamp) -> bool {
        let layout = self.layout;
        if earlier.actor < layout.first {
            // Earlier launches have ended. The exceptions are the previous launch, unless it was waited for, and those
            // that may still run even then.
            if earlier.actor >= layout.previous {
                let waited = |lane| self.warp.knowledge(lane).dependency;
                return self.warp.base.dependency || lanes_of(self.lanes).all(waited);
            }
            return !(layout.open.0..layout.open.1).contains(&earlier.actor);
        }
        let (cluster, local) = layout.split(earlier.actor);
        if cluster == self.warp.cluster {
            if self.warp.knows_alike(local) {
                return self.warp.base.happened.own.covers(local, earlier.lanes, earlier.clock);
            }
            return lanes_of(self.lanes).all(|lane| self.warp.knows(lane, local, earlier));
        }
        lanes_of(self.lanes)
            .all(|lane| self.warp.knowledge(lane).happened.covers_other(cluster, local, earlier.lanes, earlier.clock))
    }

    fn is_fenced(&self, earlier: &Stamp) -> bool {
        let shared = self.space == Space::Shared;
        let (cluster, local) = self.layout.split(earlier.actor);
        lanes_of(self.lanes).all(|lane| {
            let seen = self.proxy(self.warp.knowledge(lane));
            match (cluster == self.warp.cluster, self.map) {
                (true, None) => self.warp.knows_fenced(lane, local, earlier, shared),
                (true, Some(_)) => seen.is_some_and(|seen| seen.own.covers(local, earlier.lanes, earlier.clock)),
                (false, _) => seen.is_some_and(|s| s.covers_other(cluster, local, earlier.lanes, earlier.clock)),
            }
        })
    }

    /// Whether both are strong, at scopes that include each other, and access the same places: then they may meet (PTX
    /// ISA 8.7.1, morally strong).
    fn is_morally_strong(&self, earlier: &Stamp, now: &Stamp) -> bool {
        earlier.is_as_wide(now) && self.are_in_scope(earlier, now)
    }

    fn are_in_scope(&self, earlier: &Stamp, now: &Stamp) -> bool {
        let (Some(theirs), Some(mine)) = (earlier.scope(), now.scope()) else { return false };
        match theirs.min(mine) {
            Scope::Gpu | Scope::System => true,
            _ if earlier.actor < self.layout.first => false,
            narrow => {
                let (their_cluster, their_local) = self.layout.split(earlier.actor);
                let (my_cluster, my_local) = self.layout.split(now.actor);
                let rank = |local| match self.layout.actor(local) {
                    Actor::Warp { rank, .. } | Actor::Warpgroup { rank, .. } | Actor::Tensor { rank, .. } => Some(rank),
                    Actor::Mbarrier => None,
                };
                their_cluster == my_cluster && (narrow == Scope::Cluster || rank(their_local) == rank(my_local))
            }
        }
    }

    /// Whether it is a read through the non-coherent cache of what this launch has written.
    fn is_stale(&self, earlier: &Stamp) -> bool {
        self.non_coherent && earlier.writes() && earlier.actor >= self.layout.first
    }

    #[inline(never)]
    fn sees_slowly(&self, earlier: &Stamp, now: &Stamp) -> bool {
        if self.is_morally_strong(earlier, now) {
            return true;
        }
        self.is_ordered(earlier) && (!self.asynchronous || !self.is_generic_write(earlier) || self.is_fenced(earlier))
    }

    /// The access by those lanes that race. Lanes that read one place are judged as one.
    fn racing(&mut self, earlier: &Stamp, now: &Stamp) -> Stamp {
        let together = self.lanes;
        let is_of_threads = now.actor.wrapping_sub(self.first) == self.warp.actor;
        if now.writes() || now.is_joint() || !is_of_threads || now.lanes != together || together.is_power_of_two() {
            return *now;
        }
        let mut lanes = 0;
        for lane in lanes_of(together) {
            self.lanes = 1 << lane;
            lanes |= u32::from(!self.sees(earlier, &now.by(self.lanes))) << lane;
        }
        self.lanes = together;
        now.by(lanes)
    }

    /// Whether it is a plain write of the value that another plain write has left there.
    fn changes_nothing(&self, earlier: &Stamp, now: &Stamp) -> bool {
        let plain = |stamp: &Stamp| stamp.writes() && !stamp.is_strong();
        let one_instruction = earlier.actor == now.actor && earlier.clock == now.clock;
        plain(earlier)
            && plain(now)
            && !one_instruction
            && self.is_generic_write(earlier)
            && self.unchanged.is_some_and(|unchanged| lanes_of(now.lanes).all(unchanged))
    }

    fn cause(&self, earlier: &Stamp, now: &Stamp) -> RaceCause {
        if self.is_stale(earlier) {
            return RaceCause::NonCoherent;
        }
        if earlier.actor < self.layout.first {
            return if earlier.actor < self.layout.previous {
                RaceCause::EarlierKernel
            } else {
                RaceCause::PreviousKernel
            };
        }
        let (cluster, local) = self.layout.split(earlier.actor);
        let actor = self.layout.actor(local);
        let same_instruction = now.writes()
            && earlier.writes()
            && earlier.actor == now.actor
            && earlier.clock == now.clock
            && earlier.pc() == now.pc();
        if actor.is_asynchronous() && !self.is_ordered(earlier) {
            RaceCause::NotWaited
        } else if same_instruction {
            RaceCause::SameInstruction
        } else if self.asynchronous && self.is_generic_write(earlier) && self.is_ordered(earlier) {
            if self.map.is_some() { RaceCause::TensorMapFence } else { RaceCause::ProxyFence }
        } else if earlier.is_strong() && now.is_strong() {
            if self.are_in_scope(earlier, now) { RaceCause::MixedSizes } else { RaceCause::NarrowScope }
        } else if cluster == self.warp.cluster && local == self.warp.actor {
            RaceCause::UnorderedLanes
        } else {
            RaceCause::Unordered
        }
    }
}

impl Judge for Eyes<'_> {
    #[inline(always)]
    fn aim(&mut self, lanes: u32) {
        self.lanes = lanes;
    }

    #[inline(always)]
    fn sees_by_lane(&self, earlier: &Stamp, now: &Stamp) -> bool {
        // Accesses of one lane are in program order.
        let same_lane = earlier.actor == now.actor && now.actor.wrapping_sub(self.first) == self.warp.actor;
        same_lane && !self.asynchronous && !self.non_coherent || self.sees(earlier, now)
    }

    #[inline(always)]
    fn sees(&self, earlier: &Stamp, now: &Stamp) -> bool {
        if self.non_coherent && self.is_stale(earlier) {
            return false;
        }
        let local = earlier.actor.wrapping_sub(self.first);
        self.sees_at_once(earlier)
            || earlier.meets_widely(now)
            || local == self.warp.actor
                && earlier.lanes == self.lanes
                // Accesses of one lane are in program order, and so are those that all lanes make as one.
                && (self.lanes.is_power_of_two() || earlier.is_joint() && now.is_joint())
                && !self.asynchronous
            || self.sees_slowly(earlier, now)
    }

    #[inline(always)]
    fn sees_at_once(&self, earlier: &Stamp) -> bool {
        let local = earlier.actor.wrapping_sub(self.first);
        let base = &self.warp.base;
        let known = |clock: &Clock| clock.own.full().get(local as usize).is_some_and(|&k| k >= earlier.clock);
        // Actors beyond those of the blocks are mbarriers, whose copies belong to the asynchronous proxy itself.
        known(&base.happened)
            && (!self.asynchronous
                || !earlier.writes()
                || local >= self.blocks_end
                || self.proxy(base).is_some_and(known))
    }

    #[inline]
    fn fate(&self, earlier: &Stamp) -> Fate {
        if self.sees_at_once(earlier) {
            Fate::Known
        } else if self.space != Space::Global {
            Fate::Open
        } else if earlier.actor >= self.layout.first {
            if self.launch.is_lost(self.layout.split(earlier.actor).0) { Fate::Lost } else { Fate::Open }
        } else if self.is_ordered(earlier) {
            Fate::Known
        } else {
            Fate::Earlier(u32::from(earlier.actor >= self.layout.previous))
        }
    }

    fn may_meet(&self, earlier: &Stamp, later: &Stamp) -> bool {
        self.is_morally_strong(earlier, later)
    }

    fn comes_after_any(&self, earlier: &Stamp) -> bool {
        let is_after = |lane: u32| {
            let earlier = earlier.by(1 << lane);
            self.is_ordered(&earlier) && (!self.asynchronous || self.is_fenced(&earlier))
        };
        !self.non_coherent && earlier.actor >= self.layout.first && lanes_of(earlier.lanes).any(is_after)
    }

    fn is_pending(&self, earlier: &Stamp) -> bool {
        self.space == Space::Global && earlier.actor >= self.layout.first && {
            let (cluster, _) = self.layout.split(earlier.actor);
            cluster != self.warp.cluster && self.launch.performs(cluster, earlier)
        }
    }

    fn chain(&self) -> Chain {
        self.chain
    }

    fn are_known_together(&self, earlier: &Stamp, now: &Stamp) -> bool {
        let of_threads = now.actor.wrapping_sub(self.first) == self.warp.actor;
        of_threads && earlier.actor == now.actor && earlier.clock > self.warp.passed
    }

    #[cold]
    fn race(&mut self, earlier: &Stamp, now: &Stamp, address: u64) {
        let now = &self.racing(earlier, now);
        let changes_nothing = self.changes_nothing(earlier, now);
        if changes_nothing && !self.launch.shape.same_values {
            return;
        }
        let hazard = match (earlier.writes(), now.writes()) {
            (true, true) => Hazard::WriteAfterWrite,
            (true, false) => Hazard::ReadAfterWrite,
            (false, _) => Hazard::WriteAfterRead,
        };
        let cause = if changes_nothing { RaceCause::SameValue } else { self.cause(earlier, now) };
        self.found.races.entry((earlier.pc(), now.pc(), hazard, cause)).or_insert_with(|| RawRace {
            hazard,
            cause,
            first: *earlier,
            second: *now,
            space: self.space,
            address,
        });
    }

    fn same_instruction(&self, earlier_lanes: u32, now: &Stamp) -> bool {
        if now.is_strong() {
            return true;
        }
        if self.asynchronous {
            return false;
        }
        earlier_lanes & now.lanes != 0
            || self.same_value.is_some_and(|same| same(earlier_lanes.trailing_zeros(), now.lanes.trailing_zeros()))
    }
}
