//! The knowledge that passes from a release to an acquire: several clocks, one for each proxy and scope.

use super::clock::Clock;
use super::tensor_map::MapProxy;

/// The knowledge that passes from a release to an acquire.
///
/// It has more clocks than usual. The asynchronous proxy sees a generic write only if a `fence.proxy.async` is on the
/// path from it (PTX ISA 8.9.2, proxy-preserved base causality order). So these paths have clocks of their own, one for
/// each memory that the fence can name.
#[derive(Clone, Debug, Default)]
pub(super) struct Knowledge {
    /// The accesses that happened before.
    pub(super) happened: Clock,
    /// The part of it, in shared memory, that the asynchronous proxy sees.
    pub(super) shared_proxy: Clock,
    /// The part of it, in global memory, that the asynchronous proxy sees.
    pub(super) global_proxy: Clock,
    /// The part of it that is before a fence at GPU scope. A strong write releases this without its own fence: a fence
    /// by each thread, a barrier and then one thread's atomic are as good as a fence by that thread.
    pub(super) device: Clock,
    /// The `tcgen05` operations in it that are before a `tcgen05.fence::before_thread_sync`.
    pub(super) tensor_sent: Clock,
    /// The part of it that copies see of their tensor maps.
    pub(super) maps: MapProxy,
    /// Ranks of the cluster's blocks that are known to have started.
    pub(super) started: u32,
    /// Whether the previous kernel is known to have ended.
    pub(super) dependency: bool,
}

impl Knowledge {
    pub(super) fn join(&mut self, other: &Self) {
        self.happened.join(&other.happened);
        self.shared_proxy.join(&other.shared_proxy);
        self.global_proxy.join(&other.global_proxy);
        self.device.join(&other.device);
        self.tensor_sent.join(&other.tensor_sent);
        self.maps.join(&other.maps);
        self.started |= other.started;
        self.dependency |= other.dependency;
    }

    /// Adds what a member of cluster `from` releases to a global place.
    pub(super) fn join_exported(&mut self, from: u32, other: &Self) {
        self.happened.join_exported(from, &other.happened);
        self.shared_proxy.join_exported(from, &other.shared_proxy);
        self.global_proxy.join_exported(from, &other.global_proxy);
        self.device.join_exported(from, &other.device);
        self.tensor_sent.join_exported(from, &other.tensor_sent);
        self.maps.join_exported(from, &other.maps);
        self.dependency |= other.dependency;
    }

    /// Adds the content of a global place to the knowledge of a member of cluster `to`.
    pub(super) fn join_imported(&mut self, to: u32, other: &Self, wide: bool) {
        self.happened.join_imported(to, &other.happened, wide);
        self.shared_proxy.join_imported(to, &other.shared_proxy, wide);
        self.global_proxy.join_imported(to, &other.global_proxy, wide);
        self.device.join_imported(to, &other.device, wide);
        self.tensor_sent.join_imported(to, &other.tensor_sent, wide);
        self.maps.join_imported(to, &other.maps, wide);
        self.dependency |= other.dependency;
    }

    pub(super) fn clear(&mut self) {
        self.happened.clear();
        self.shared_proxy.clear();
        self.global_proxy.clear();
        self.device.clear();
        self.tensor_sent.clear();
        self.maps.clear();
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
