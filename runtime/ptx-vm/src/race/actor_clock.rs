//! The clock of one cluster: up to which point each of its actors is known.
//!
//! Each component of a clock belongs to an *actor* of a cluster: the threads of a warp, its `cp.async` copies, its bulk
//! copies, a warpgroup's `wgmma`, or the bulk copies that complete on an mbarrier. A value `k` means "everything that
//! this actor did with a stamp up to `k`". Lanes of a warp share a counter, so an entry is usually one number for all
//! lanes. Accesses that only some lanes released are kept beside it as an exception.

/// "These lanes of this actor, up to this clock."
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Partial {
    actor: u32,
    lanes: u32,
    clock: u32,
}

/// The clock of one cluster's actors. The index is the actor's number in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ActorClock {
    full: Vec<u32>,
    /// The exceptions, ordered by actor. For one actor, no lane and no clock occurs twice.
    partial: Vec<Partial>,
}

impl ActorClock {
    /// The clock up to which all lanes of every actor are known; a missing entry is 0.
    #[inline]
    pub(super) fn full(&self) -> &[u32] {
        &self.full
    }

    /// Learns of all lanes of `actor` up to `clock`.
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

    /// The range of an actor's entries.
    #[inline]
    fn of(&self, actor: u32) -> std::ops::Range<usize> {
        let start = self.partial.partition_point(|p| p.actor < actor);
        let count = self.partial[start..].iter().take_while(|p| p.actor == actor).count();
        start..start + count
    }

    /// Learns of some lanes of `actor` up to `clock`.
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

    /// Learns everything that `other` knows.
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

    /// Whether it knows everything that these lanes of `actor` did up to `clock`.
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

    /// Whether it knows everything that `other` knows.
    pub(super) fn contains(&self, other: &Self) -> bool {
        let known = self.full.len().min(other.full.len());
        self.full[..known].iter().zip(&other.full).all(|(mine, theirs)| mine >= theirs)
            && other.full[known..].iter().all(|&k| k == 0)
            && other.partial.iter().all(|p| self.covers(p.actor, p.lanes, p.clock))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.partial.is_empty() && self.full.iter().all(|&k| k == 0)
    }

    pub(super) fn clear(&mut self) {
        self.full.clear();
        self.partial.clear();
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
}
