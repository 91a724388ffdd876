//! Vector clocks: what an actor knows to have happened, in its own cluster and in others.

use super::actor_clock::ActorClock;
use super::others::Others;

/// A vector clock: the actors of the own cluster, and known actors of other clusters.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    /// The own cluster.
    pub(super) own: ActorClock,
    /// Other clusters. It may contain what others know of the own cluster, but this is not used.
    others: Others,
}

impl Clock {
    pub(super) fn join(&mut self, other: &Self) {
        self.own.join(&other.own);
        self.others.join(&other.others);
    }

    /// Learns what a clock of cluster `from` knows, as a clock that belongs to no cluster.
    pub(super) fn join_exported(&mut self, from: u32, clock: &Self) {
        self.others.join(&clock.others);
        if !clock.own.is_empty() {
            self.others.raise(from, &clock.own);
        }
    }

    /// Learns, as a member of cluster `to`, what a clock that belongs to no cluster knows. `wide` is false for a member
    /// that synchronises only with its own cluster.
    pub(super) fn join_imported(&mut self, to: u32, clock: &Self, wide: bool) {
        if let Some(own) = clock.others.get(to) {
            self.own.join(own);
        }
        if wide {
            self.others.join(&clock.others);
        }
    }

    /// Like [`ActorClock::covers`], for an actor of another cluster.
    pub(super) fn covers_other(&self, cluster: u32, actor: u32, lanes: u32, clock: u32) -> bool {
        self.others.get(cluster).is_some_and(|known| known.covers(actor, lanes, clock))
    }

    /// Whether nothing is known.
    pub(super) fn is_empty(&self) -> bool {
        self.others.is_empty() && self.own.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.own.clear();
        self.others.clear();
    }
}
