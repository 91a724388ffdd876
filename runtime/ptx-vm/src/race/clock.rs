//! Vector clocks: what somebody knows to have happened.
//!
//! A component of a clock is an *actor* of a cluster: the threads of a warp, its `cp.async` copies, its bulk copies, a
//! warpgroup's `wgmma`, the bulk copies that complete on an mbarrier. A value `k` says "everything this actor did with a
//! stamp up to `k`". Lanes of a warp share a counter, so the usual entry is one number for all lanes; what only some
//! lanes released is kept as an exception beside it.

use super::others::Others;

/// "These lanes of this actor, up to this clock."
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Partial {
    actor: u32,
    lanes: u32,
    clock: u32,
}

/// The clock of one cluster's actors, by the actor's index in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ActorClock {
    full: Vec<u32>,
    /// By actor; of one actor, no lane and no clock twice.
    partial: Vec<Partial>,
}

impl ActorClock {
    /// What is known of all lanes of every actor; absent is 0.
    #[inline]
    pub(super) fn full(&self) -> &[u32] {
        &self.full
    }

    /// All lanes of `actor` up to `clock`.
    pub(super) fn raise(&mut self, actor: u32, clock: u32) {
        let index = actor as usize;
        if self.full.len() <= index {
            self.full.resize(index + 1, 0);
        }
        if self.full[index] < clock {
            self.full[index] = clock;
            let own = self.of(actor);
            if self.partial[own].iter().any(|p| p.clock <= clock) {
                self.partial.retain(|p| p.actor != actor || p.clock > clock);
            }
        }
    }

    /// Where the entries of an actor are.
    #[inline]
    fn of(&self, actor: u32) -> std::ops::Range<usize> {
        let start = self.partial.partition_point(|p| p.actor < actor);
        let count = self.partial[start..].iter().take_while(|p| p.actor == actor).count();
        start..start + count
    }

    /// Some lanes of `actor` up to `clock`.
    pub(super) fn raise_lanes(&mut self, actor: u32, mut lanes: u32, clock: u32) {
        if clock <= self.full.get(actor as usize).copied().unwrap_or(0) {
            return;
        }
        let own = self.of(actor);
        let entries = &mut self.partial[own.clone()];
        lanes &= !entries.iter().filter(|p| p.clock >= clock).fold(0, |known, p| known | p.lanes);
        if lanes == 0 {
            return;
        }
        let mut empty = None;
        let mut left = 0;
        for (index, entry) in entries.iter_mut().enumerate().filter(|(_, p)| p.clock < clock) {
            entry.lanes &= !lanes;
            if entry.lanes == 0 {
                left += 1;
                empty = Some(index);
            }
        }
        if let Some(same) = entries.iter_mut().find(|p| p.clock == clock) {
            same.lanes |= lanes;
        } else if let Some(index) = empty {
            entries[index] = Partial { actor, lanes, clock };
            left -= 1;
        } else {
            self.partial.insert(own.end, Partial { actor, lanes, clock });
        }
        if left > 0 {
            self.partial.retain(|p| p.lanes != 0);
        }
        let all = &self.partial[self.of(actor)];
        if all.iter().fold(0, |lanes, p| lanes | p.lanes) == u32::MAX {
            let least = all.iter().map(|p| p.clock).min().unwrap_or(0);
            self.raise(actor, least);
        }
    }

    /// Learns what `other` knows.
    pub(super) fn join(&mut self, other: &Self) {
        if self.full.len() < other.full.len() {
            self.full.resize(other.full.len(), 0);
        }
        for (mine, theirs) in self.full.iter_mut().zip(&other.full) {
            *mine = (*mine).max(*theirs);
        }
        if !self.partial.is_empty() {
            let full = &self.full;
            self.partial.retain(|p| full.get(p.actor as usize).is_none_or(|&k| p.clock > k));
        }
        if self.partial.is_empty() {
            let full = &self.full;
            let unknown = |p: &&Partial| full.get(p.actor as usize).is_none_or(|&k| p.clock > k);
            self.partial.extend(other.partial.iter().filter(unknown));
            return;
        }
        for p in &other.partial {
            self.raise_lanes(p.actor, p.lanes, p.clock);
        }
    }

    /// Whether everything these lanes of `actor` did up to `clock` is known.
    pub(super) fn covers(&self, actor: u32, mut lanes: u32, clock: u32) -> bool {
        if clock <= self.full.get(actor as usize).copied().unwrap_or(0) {
            return true;
        }
        for entry in &self.partial[self.of(actor)] {
            if entry.clock >= clock {
                lanes &= !entry.lanes;
            }
        }
        lanes == 0
    }

    /// Whether everything that `other` knows is known here.
    pub(super) fn contains(&self, other: &Self) -> bool {
        let known = self.full.len().min(other.full.len());
        self.full[..known].iter().zip(&other.full).all(|(mine, theirs)| mine >= theirs)
            && other.full[known..].iter().all(|&k| k == 0)
            && other.partial.iter().all(|p| self.covers(p.actor, p.lanes, p.clock))
    }

    fn is_empty(&self) -> bool {
        self.partial.is_empty() && self.full.iter().all(|&k| k == 0)
    }

    fn clear(&mut self) {
        self.full.clear();
        self.partial.clear();
    }
}

/// A vector clock: the own cluster's actors, and those of other clusters that have been heard of.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    /// The own cluster.
    pub(super) own: ActorClock,
    /// Other clusters. What comes back from them of the own one is there too, but not needed there.
    others: Others,
}

impl Clock {
    pub(super) fn join(&mut self, other: &Self) {
        self.own.join(&other.own);
        self.others.join(&other.others);
    }

    /// Learns what a clock of `from`'s point of view knows, as one that belongs to no cluster.
    fn join_exported(&mut self, from: u32, clock: &Self) {
        self.others.join(&clock.others);
        if !clock.own.is_empty() {
            self.others.raise(from, &clock.own);
        }
    }

    /// Learns, as a member of cluster `to`, what a clock that belongs to no cluster knows. `wide` is false for somebody
    /// who synchronises with the own cluster only.
    fn join_imported(&mut self, to: u32, clock: &Self, wide: bool) {
        if let Some(own) = clock.others.get(to) {
            self.own.join(own);
        }
        if wide {
            self.others.join(&clock.others);
        }
    }

    /// As [`ActorClock::covers`], for an actor of another cluster.
    pub(super) fn covers_other(&self, cluster: u32, actor: u32, lanes: u32, clock: u32) -> bool {
        self.others.get(cluster).is_some_and(|known| known.covers(actor, lanes, clock))
    }

    /// Whether nothing is known.
    pub(super) fn is_empty(&self) -> bool {
        self.others.is_empty() && self.own.is_empty()
    }

    fn clear(&mut self) {
        self.own.clear();
        self.others.clear();
    }
}

/// Everything that is handed over when somebody releases and somebody else acquires.
///
/// Two clocks more than usual: a generic write is visible to the asynchronous proxy only if a `fence.proxy.async` lies
/// on the path from it (PTX ISA 8.9.2, proxy-preserved base causality order), so that path has a clock of its own, one
/// for each memory that the fence can name.
#[derive(Clone, Debug, Default)]
pub(super) struct Knowledge {
    /// What happened before.
    pub(super) happened: Clock,
    /// What of it in shared memory the asynchronous proxy sees.
    pub(super) shared_proxy: Clock,
    /// What of it in global memory the asynchronous proxy sees.
    pub(super) global_proxy: Clock,
    /// What of it a fence at GPU scope lies behind: a strong write releases it without a fence of its own, for a fence
    /// by each thread, a barrier and then one thread's atomic is as good as a fence by that thread.
    pub(super) device: Clock,
    /// Ranks of the cluster's blocks that are known to have started.
    pub(super) started: u32,
    /// The previous kernel is known to have ended.
    pub(super) dependency: bool,
}

impl Knowledge {
    pub(super) fn join(&mut self, other: &Self) {
        self.happened.join(&other.happened);
        self.shared_proxy.join(&other.shared_proxy);
        self.global_proxy.join(&other.global_proxy);
        self.device.join(&other.device);
        self.started |= other.started;
        self.dependency |= other.dependency;
    }

    /// Joins what `from`'s cluster releases into a global place.
    pub(super) fn join_exported(&mut self, from: u32, other: &Self) {
        self.happened.join_exported(from, &other.happened);
        self.shared_proxy.join_exported(from, &other.shared_proxy);
        self.global_proxy.join_exported(from, &other.global_proxy);
        self.device.join_exported(from, &other.device);
        self.dependency |= other.dependency;
    }

    /// Joins what a global place holds into a member of cluster `to`.
    pub(super) fn join_imported(&mut self, to: u32, other: &Self, wide: bool) {
        self.happened.join_imported(to, &other.happened, wide);
        self.shared_proxy.join_imported(to, &other.shared_proxy, wide);
        self.global_proxy.join_imported(to, &other.global_proxy, wide);
        self.device.join_imported(to, &other.device, wide);
        self.dependency |= other.dependency;
    }

    pub(super) fn clear(&mut self) {
        self.happened.clear();
        self.shared_proxy.clear();
        self.global_proxy.clear();
        self.device.clear();
        self.started = 0;
        self.dependency = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_that_together_are_all_become_one_number() {
        let mut clock = ActorClock::default();
        clock.raise_lanes(3, 0x0000_ffff, 7);
        assert!(clock.covers(3, 0x00ff, 7));
        assert!(!clock.covers(3, 0x0001_0000, 1));
        clock.raise_lanes(3, 0xffff_0000, 5);
        assert_eq!(clock.full()[3], 5);
        assert!(clock.covers(3, 1, 7) && !clock.covers(3, 1 << 20, 6));
    }

    #[test]
    fn a_join_drops_what_the_whole_actor_covers() {
        let mut a = ActorClock::default();
        a.raise_lanes(1, 1, 9);
        let mut b = ActorClock::default();
        b.raise(1, 10);
        a.join(&b);
        assert!(a.partial.is_empty());
        assert!(a.covers(1, u32::MAX, 10));
    }

    #[test]
    fn newer_lanes_take_the_place_of_older_ones() {
        let mut clock = ActorClock::default();
        for k in 1..100 {
            clock.raise_lanes(0, 1, k);
        }
        assert_eq!(clock.partial.len(), 1);
        clock.raise_lanes(0, 3, 50);
        assert!(clock.covers(0, 1, 99) && clock.covers(0, 2, 50) && !clock.covers(0, 2, 51));
    }

    #[test]
    fn clusters_meet_through_a_global_place() {
        let mut first = Knowledge::default();
        first.happened.own.raise(0, 4);
        let mut place = Knowledge::default();
        place.join_exported(0, &first);
        let mut second = Knowledge::default();
        second.join_imported(1, &place, true);
        assert!(second.happened.covers_other(0, 0, u32::MAX, 4));
        assert!(!second.happened.covers_other(0, 0, u32::MAX, 5));
        assert!(second.happened.own.is_empty());
        let mut narrow = Knowledge::default();
        narrow.join_imported(1, &place, false);
        assert!(!narrow.happened.covers_other(0, 0, u32::MAX, 4));
        let mut same = Knowledge::default();
        same.join_imported(0, &place, false);
        assert!(same.happened.own.covers(0, u32::MAX, 4));
    }
}
