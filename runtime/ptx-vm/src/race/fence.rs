//! The effect of memory fences on strong accesses: a fence before a strong write releases, and a fence after a strong
//! read acquires (PTX ISA 8.9.1, release and acquire patterns).

use super::Scope;
use super::knowledge::Knowledge;
use super::lanes::lanes_of;
use super::pattern::{PendingRelease, Seen};
use super::warp::Warp;
use std::sync::Arc;

impl Warp {
    /// A memory fence. A later strong write of these lanes releases what they know now. They also acquire what their
    /// earlier strong reads saw.
    pub(super) fn fence(&mut self, lanes: u32, scope: Scope) {
        if let Some(mut acquires) = self.acquires.take() {
            let cluster = self.cluster;
            for lane in lanes_of(lanes) {
                if let Some(seen) = acquires[lane as usize].take() {
                    self.learn(1 << lane, |k| match &*seen {
                        Seen::Cluster(seen) => k.join(seen),
                        Seen::Global(seen) => k.join_imported(cluster, seen, scope >= Scope::Gpu),
                    });
                }
            }
            if acquires.iter().any(Option::is_some) {
                self.acquires = Some(acquires);
            }
        }
        self.acquire_carried(lanes, scope);
        if scope >= Scope::Gpu {
            self.learn(lanes, |k| k.device.join(&k.happened));
            for lane in lanes_of(lanes).map(|l| l as usize) {
                self.own.fence(lane, self.clock);
            }
            self.tick();
            return;
        }
        let common = self.beyond.is_none().then(|| Arc::new(self.base.clone()));
        let mut pending = self.releases.take().unwrap_or_default();
        for lane in lanes_of(lanes) {
            let knowledge = common.clone().unwrap_or_else(|| Arc::new(self.knowledge(lane).clone()));
            let done = self.own.done(lane as usize);
            pending[lane as usize] = Some(PendingRelease { knowledge, clock: self.clock, done, scope });
        }
        self.releases = Some(pending);
        self.tick();
    }

    /// The knowledge that a strong write of this lane releases because of an earlier fence at GPU scope. The fence is
    /// its own or that of a thread with which it has synchronised.
    pub(super) fn published(&self, lane: u32) -> Option<Knowledge> {
        let known = self.knowledge(lane);
        if known.device.is_empty() && self.own.device_fence[lane as usize] == 0 {
            return None;
        }
        let mut published = Knowledge { happened: known.device.clone(), ..known.clone() };
        self.add_own_fenced(1 << lane, false, &mut published.happened);
        published.device = published.happened.clone();
        Some(published)
    }

    /// The knowledge that a strong write of this lane releases because of its earlier fence at a narrower scope; and
    /// this scope.
    pub(super) fn fenced(&self, lane: u32) -> Option<(Knowledge, Scope)> {
        let pending = self.releases.as_ref()?[lane as usize].as_ref()?;
        let mut knowledge = (*pending.knowledge).clone();
        self.add_own_at(lane, pending.clock, pending.done, &mut knowledge);
        Some((knowledge, pending.scope))
    }

    /// Whether a strong write may release something because of a fence.
    pub(super) fn has_fenced(&self) -> bool {
        self.releases.is_some()
            || self.beyond.is_some()
            || !self.base.device.is_empty()
            || self.own.device_fence.iter().any(|&clock| clock != 0)
    }

    /// Adds the knowledge that a relaxed arrival of these lanes releases because of earlier fences.
    pub(super) fn release_fenced(&self, lanes: u32, to: &mut Knowledge) {
        for lane in lanes_of(lanes) {
            self.fenced(lane).iter().for_each(|(knowledge, _)| to.join(knowledge));
            self.published(lane).iter().for_each(|knowledge| to.join(knowledge));
        }
    }

    /// Records that a strong read of this lane saw `seen`. A later fence acquires it.
    pub(super) fn note_seen(&mut self, lane: u32, seen: Seen) {
        let cluster = self.cluster;
        let slot = &mut self.acquires.get_or_insert_default()[lane as usize];
        match slot {
            Some(before) => before.join(cluster, &seen),
            None => *slot = Some(Box::new(seen)),
        }
    }

    /// The values that strong reads have seen and that no fence of these lanes has acquired: reads of these lanes, or
    /// of others that they met at barriers.
    pub(super) fn unfenced(&self, lanes: u32) -> Option<Seen> {
        let own = self
            .acquires
            .iter()
            .flat_map(|acquires| lanes_of(lanes).filter_map(move |lane| acquires[lane as usize].as_deref()));
        let carried = self.carried.iter().filter(|(mask, _)| mask & lanes != 0).map(|(_, seen)| &**seen);
        own.chain(carried).fold(None, |all, seen| match all {
            None => Some(seen.clone()),
            Some(mut all) => {
                all.join(self.cluster, seen);
                Some(all)
            }
        })
    }

    /// These lanes have met others at a barrier, and strong reads of the others have seen `seen`. A fence by each of
    /// these lanes is then as good as a fence by the others. (An example: one thread's atomic, a barrier, every
    /// thread's `__threadfence`.)
    pub(super) fn carry(&mut self, lanes: u32, seen: &Arc<Seen>) {
        // It contains what these lanes brought to the barrier.
        self.carried.iter_mut().for_each(|(mask, _)| *mask &= !lanes);
        self.carried.retain(|(mask, _)| *mask != 0);
        self.carried.push((lanes, Arc::clone(seen)));
    }

    fn acquire_carried(&mut self, lanes: u32, scope: Scope) {
        if self.carried.is_empty() {
            return;
        }
        let cluster = self.cluster;
        for (mask, seen) in std::mem::take(&mut self.carried) {
            if mask & lanes != 0 {
                self.learn(mask & lanes, |k| match &*seen {
                    Seen::Cluster(seen) => k.join(seen),
                    Seen::Global(seen) => k.join_imported(cluster, seen, scope >= Scope::Gpu),
                });
            }
            if mask & !lanes != 0 {
                self.carried.push((mask & !lanes, seen));
            }
        }
    }
}
