//! Vector clocks: what somebody knows to have happened, in the own cluster and in others.

use super::actor_clock::ActorClock;
use super::others::Others;

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
