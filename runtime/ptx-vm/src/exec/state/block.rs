//! Blocks and clusters: what the warps of a block, and the blocks of a cluster, share.

use crate::exec::state::barrier::{Barrier, ClusterBarrier};
use crate::exec::state::bulk::Engine;
use crate::exec::state::products::ReadyOperands;
use crate::exec::state::tensor_memory::TensorMemory;
use crate::exec::state::weak::Views;
use crate::memory::shared::SharedMemory;
use crate::race::Observer;

/// State that the warps of a block share.
pub(in crate::exec) struct BlockState {
    /// `%ctaid`
    pub(in crate::exec) index: [u32; 3],
    pub(in crate::exec) shared: SharedMemory,
    pub(in crate::exec) barriers: [Barrier; 16],
    /// The number of warps that have not ended.
    pub(in crate::exec) living_warps: u32,
    /// The number of `wgmma` groups that each warp has committed, and so issued. It is the maximum once the warp has
    /// ended.
    pub(in crate::exec) committed_products: Vec<u32>,
    pub(in crate::exec) tensor: TensorMemory,
}

/// The blocks of a cluster; without clusters, one block.
pub(crate) struct Cluster {
    pub(in crate::exec) blocks: Vec<BlockState>,
    /// The race detector, if one watches.
    pub(in crate::exec) observer: Option<Box<dyn Observer>>,
    pub(in crate::exec) barrier: ClusterBarrier,
    /// Bulk copies in flight.
    pub(in crate::exec) engine: Engine,
    /// Right operands of `wgmma` that are ready to be multiplied.
    pub(in crate::exec) products: ReadyOperands,
    /// Writes of global memory that its warps have passed on to each other, if reads may see older values.
    pub(in crate::exec) views: Views,
}

impl Cluster {
    /// Whether products, copies or commits are in flight.
    pub(in crate::exec) fn has_products(&self) -> bool {
        self.blocks.iter().any(|block| !block.tensor.pipe.is_empty())
    }
}
