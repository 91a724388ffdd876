//! The halves of release and acquire patterns (PTX ISA 8.9.1) that a warp remembers between a fence and a strong
//! access.

use std::sync::Arc;

use super::Scope;
use super::knowledge::Knowledge;

/// Epochs of asynchronous work for which a lane has waited: of `cp.async`, of bulk groups' reads, of their writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneDone {
    pub(super) copied: u32,
    pub(super) bulk_read: u32,
    pub(super) bulk_written: u32,
}

/// A fence at a narrower scope than the GPU, through which a later strong write releases.
#[derive(Clone, Debug)]
pub(super) struct PendingRelease {
    pub(super) knowledge: Arc<Knowledge>,
    pub(super) clock: u32,
    /// The work for which the lane had waited at the fence.
    pub(super) done: LaneDone,
    pub(super) scope: Scope,
}

/// The knowledge that a strong read has seen; a later fence acquires it.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    /// In a place of the own cluster.
    Cluster(Knowledge),
    /// In global memory.
    Global(Knowledge),
}

impl Seen {
    /// Adds what another read by a member of `cluster` has seen.
    pub(super) fn join(&mut self, cluster: u32, other: &Self) {
        match (&mut *self, other) {
            (Self::Cluster(before), Self::Cluster(now)) | (Self::Global(before), Self::Global(now)) => before.join(now),
            // Both kinds occur before one fence. The form of a global place can hold the other one.
            (Self::Global(before), Self::Cluster(now)) => before.join_exported(cluster, now),
            (Self::Cluster(before), Self::Global(now)) => {
                let mut now = now.clone();
                now.join_exported(cluster, before);
                *self = Self::Global(now);
            }
        }
    }
}
