//! A kernel to choose from, with the model's estimates.

use std::fmt;

use super::repacking::Repacking;
use crate::gemm::families::KernelKey;
use crate::gemm::kernel::SplitK;

/// The most waves of tiles that may be shared by stream-K: with more, the loss in a partial wave is small.
pub(crate) const STREAMED_WAVES: u128 = 8;

/// A kernel with the model's estimates.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The key that the kernel is generated from.
    pub key: KernelKey,
    /// How K is shared among blocks.
    pub split_k: SplitK,
    /// Estimated 32-bit registers per thread.
    pub registers: usize,
    /// Dynamic and static shared memory of a block, in bytes.
    pub shared_bytes: usize,
    /// Blocks that one multiprocessor can run at once.
    pub blocks_per_multiprocessor: usize,
    /// The number of blocks; for kernels whose blocks take one tile after another, the number of tiles.
    pub blocks: u128,
    /// The operands that are copied before the product, so that the kernel can load them.
    pub repacking: Repacking,
    /// The number of waves: one wave is as many blocks as the GPU can run at once.
    pub waves: f64,
    /// Predicted time in microseconds, with copies of the operands and launches after the product's.
    pub microseconds: f64,
    /// The bound that takes most of the time.
    pub bound: Bound,
}

impl Candidate {
    /// Whether every GPU of the architecture can run its clusters.
    pub(crate) fn is_portable(&self) -> bool {
        self.key.of_family().is_portable()
    }
}

/// The limit of a kernel's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Multiply-adds.
    Arithmetic,
    /// Reading operands from shared memory.
    SharedMemory,
    /// Reading A and B from the L2 cache.
    L2,
    /// The bandwidth of memory.
    Memory,
    /// The epilogue.
    Epilogue,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Arithmetic => "arithmetic",
            Self::SharedMemory => "shared memory",
            Self::L2 => "the L2",
            Self::Memory => "memory",
            Self::Epilogue => "the epilogue",
        })
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; {}; {} blocks in {:.2} waves, {} at once per multiprocessor (about {} registers, {} bytes of shared memory); \
             about {:.1} us, bound by {}",
            self.key,
            self.split_k,
            self.blocks,
            self.waves,
            self.blocks_per_multiprocessor,
            self.registers,
            self.shared_bytes,
            self.microseconds,
            self.bound
        )?;
        if self.repacking.is_none() { Ok(()) } else { write!(f, "; {}", self.repacking) }
    }
}

impl Candidate {
    /// This kernel with these copies before it.
    pub(crate) fn after(self, repacking: Repacking) -> Self {
        let microseconds = self.microseconds - self.repacking.microseconds + repacking.microseconds;
        Self { repacking, microseconds, ..self }
    }
}
