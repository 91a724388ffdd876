//! Blocks and clusters: what the warps of a block, and the blocks of a cluster, share.

use super::barrier::Barrier;
use super::bulk::engine::Engine;
use super::clusters::ClusterBarrier;
use super::wgmma::ReadyOperands;
use crate::memory::shared::SharedMemory;
use crate::race::Observer;

/// What the warps of a block share.
pub(super) struct Block {
    /// `%ctaid`
    pub(super) index: [u32; 3],
    pub(super) shared: SharedMemory,
    pub(super) barriers: [Barrier; 16],
    /// Warps that have not ended.
    pub(super) living_warps: u32,
    /// Groups of `wgmma` products that each warp has committed, and so issued; all, once it has ended.
    pub(super) committed_products: Vec<u32>,
}

/// The blocks of a cluster; without clusters, one block.
pub(crate) struct Cluster {
    pub(super) blocks: Vec<Block>,
    /// The race detector, if one watches.
    pub(super) observer: Option<Box<dyn Observer>>,
    pub(super) barrier: ClusterBarrier,
    /// Bulk copies under way.
    pub(super) engine: Engine,
    /// Right operands of `wgmma` that are ready to be multiplied.
    pub(super) products: ReadyOperands,
}
