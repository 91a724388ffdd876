//! The halves of release and acquire patterns (PTX ISA 8.9.1) that a warp keeps between a fence and a strong access.

use std::sync::Arc;

use super::Scope;
use super::clock::Knowledge;

/// Epochs of asynchronous work that a lane has waited for: of `cp.async`, of bulk groups' reads, of their writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneDone {
    pub(super) copied: u32,
    pub(super) bulk_read: u32,
    pub(super) bulk_written: u32,
}

/// A fence at a narrower scope than the GPU, that a later strong write releases through.
#[derive(Clone, Debug)]
pub(super) struct PendingRelease {
    pub(super) knowledge: Arc<Knowledge>,
    pub(super) clock: u32,
    /// What the lane had waited for then.
    pub(super) done: LaneDone,
    pub(super) scope: Scope,
}

/// What a strong read has seen, to be acquired by a later fence.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    /// In a place of the own cluster.
    Cluster(Knowledge),
    /// In global memory.
    Global(Knowledge),
}

impl Seen {
    /// Adds what another read of a member of `cluster` has seen.
    pub(super) fn join(&mut self, cluster: u32, other: &Self) {
        match (&mut *self, other) {
            (Self::Cluster(before), Self::Cluster(now)) | (Self::Global(before), Self::Global(now)) => before.join(now),
            // Both kinds before one fence: the place's own form can hold the other.
            (Self::Global(before), Self::Cluster(now)) => before.join_exported(cluster, now),
            (Self::Cluster(before), Self::Global(now)) => {
                let mut now = now.clone();
                now.join_exported(cluster, before);
                *self = Self::Global(now);
            }
        }
    }
}
