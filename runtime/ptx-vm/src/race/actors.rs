//! The actors of a launch and their numbers.

use super::finding::Agent;
use super::tensor_own::{self, TENSOR_ACTORS};
use super::warp::{BULK_READS, BULK_WRITES, COPIES, THREADS, WARP_ACTORS};

/// The number of mbarriers of one cluster that are actors, because bulk copies can complete on them.
pub(super) const MBARRIERS: u32 = 1024;

/// The numbering of actors. Clusters come one after another. In a cluster come the blocks; in a block the warps (four
/// actors each) and then the warpgroups; then, if there is tensor memory, the warps' operations on it. The mbarriers come at the end of the cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// The number of the launch's first actor. Smaller numbers belong to earlier launches.
    pub(super) first: u32,
    /// The number of the previous launch's first actor.
    pub(super) previous: u32,
    /// Launches that may still run although the previous launch has ended: neither that one, nor any launch for which
    /// it waited, has ever waited for them.
    pub(super) open: (u32, u32),
    /// Number of warps of a block.
    pub(super) warps: u32,
    /// Number of blocks of a cluster.
    pub(super) blocks: u32,
    /// Whether the kernel uses tensor memory.
    pub(super) tensor_memory: bool,
}

/// The kind of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Actor {
    Warp {
        rank: u32,
        warp: u32,
        kind: u32,
    },
    Warpgroup {
        rank: u32,
        group: u32,
    },
    /// The `tcgen05` operations of a warp.
    Tensor {
        rank: u32,
        warp: u32,
        kind: u32,
    },
    Mbarrier,
}

impl Layout {
    pub(super) fn per_block(&self) -> u32 {
        let tensor = if self.tensor_memory { self.warps * TENSOR_ACTORS } else { 0 };
        self.warps * WARP_ACTORS + self.warps.div_ceil(4) + tensor
    }

    /// Number of actors of a cluster.
    pub(super) fn stride(&self) -> u32 {
        self.blocks * self.per_block() + MBARRIERS
    }

    /// The number of a warp's first actor, within its cluster.
    pub(super) fn warp(&self, rank: u32, warp: u32) -> u32 {
        rank * self.per_block() + warp * WARP_ACTORS
    }

    /// The number of the actor of a warp's warpgroup, within its cluster.
    pub(super) fn warpgroup(&self, rank: u32, warp: u32) -> u32 {
        rank * self.per_block() + self.warps * WARP_ACTORS + warp / 4
    }

    /// The number of the first actor of a warp's `tcgen05` operations, within its cluster.
    pub(super) fn tensor(&self, rank: u32, warp: u32) -> u32 {
        rank * self.per_block() + self.warps * WARP_ACTORS + self.warps.div_ceil(4) + warp * TENSOR_ACTORS
    }

    /// The number of an mbarrier's actor, within its cluster.
    pub(super) fn mbarrier(&self, index: u32) -> u32 {
        self.blocks * self.per_block() + index
    }

    /// The cluster of an actor of this launch, and its number within it.
    pub(super) fn split(&self, actor: u32) -> (u32, u32) {
        let actor = actor - self.first;
        (actor / self.stride(), actor % self.stride())
    }

    /// The kind of an actor, given its number within the cluster.
    pub(super) fn actor(&self, local: u32) -> Actor {
        let (rank, within) = (local / self.per_block(), local % self.per_block());
        if rank >= self.blocks {
            Actor::Mbarrier
        } else if within < self.warps * WARP_ACTORS {
            Actor::Warp { rank, warp: within / WARP_ACTORS, kind: within % WARP_ACTORS }
        } else if within < self.warps * WARP_ACTORS + self.warps.div_ceil(4) {
            Actor::Warpgroup { rank, group: within - self.warps * WARP_ACTORS }
        } else {
            let within = within - self.warps * WARP_ACTORS - self.warps.div_ceil(4);
            Actor::Tensor { rank, warp: within / TENSOR_ACTORS, kind: within % TENSOR_ACTORS }
        }
    }
}

impl Actor {
    /// Whether it uses the generic proxy.
    pub(super) fn is_generic(self) -> bool {
        matches!(self, Self::Warp { kind: THREADS | COPIES, .. })
    }

    /// Whether its accesses are complete only after somebody has waited for them.
    pub(super) fn is_asynchronous(self) -> bool {
        !matches!(self, Self::Warp { kind: THREADS, .. })
    }

    /// Rank, warp and agent, for reports. The place of an mbarrier is given.
    pub(super) fn describe(self, mbarrier: Option<(u32, u32)>) -> (Option<u32>, Option<u32>, Agent) {
        match self {
            Self::Warp { rank, warp, kind } => {
                let agent = match kind {
                    COPIES => Agent::CopyAsync,
                    BULK_READS | BULK_WRITES => Agent::BulkStore,
                    _ => Agent::Threads,
                };
                (Some(rank), Some(warp), agent)
            }
            Self::Warpgroup { rank, group } => (Some(rank), Some(group * 4), Agent::Wgmma),
            Self::Tensor { rank, warp, kind } => {
                let agent = match kind {
                    tensor_own::LOADS => Agent::TensorLoad,
                    tensor_own::STORES => Agent::TensorStore,
                    tensor_own::COPIES => Agent::TensorCopy,
                    _ => Agent::TensorProduct,
                };
                (Some(rank), Some(warp), agent)
            }
            Self::Mbarrier => {
                let (rank, mbarrier) = mbarrier.unwrap_or_default();
                (Some(rank), None, Agent::BulkLoad { rank, mbarrier })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip() {
        let layout = Layout { first: 100, previous: 0, open: (0, 0), warps: 5, blocks: 2, tensor_memory: true };
        let mut seen = std::collections::HashSet::new();
        for rank in 0..2 {
            for warp in 0..5 {
                for kind in 0..WARP_ACTORS {
                    let number = layout.warp(rank, warp) + kind;
                    assert!(seen.insert(number));
                    assert_eq!(layout.actor(number), Actor::Warp { rank, warp, kind });
                }
            }
            for group in 0..2 {
                let number = layout.warpgroup(rank, group * 4);
                assert!(seen.insert(number));
                assert_eq!(layout.actor(number), Actor::Warpgroup { rank, group });
            }
        }
        for rank in 0..2 {
            for warp in 0..5 {
                for kind in 0..TENSOR_ACTORS {
                    let number = layout.tensor(rank, warp) + kind;
                    assert!(seen.insert(number));
                    assert_eq!(layout.actor(number), Actor::Tensor { rank, warp, kind });
                }
            }
        }
        assert!(seen.insert(layout.mbarrier(0)));
        assert_eq!(layout.actor(layout.mbarrier(7)), Actor::Mbarrier);
        assert_eq!(layout.split(100 + layout.stride() + 3), (1, 3));
    }
}
