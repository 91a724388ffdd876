//! A kernel among those to choose from, and what the model says of it.

use std::fmt;

use super::repacking::Repacking;
use crate::gemm::kernel::{KernelKey, SplitK};

/// A kernel and what the model says of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// What it is generated from.
    pub key: KernelKey,
    /// How K is shared.
    pub split_k: SplitK,
    /// Estimated 32-bit registers of a thread.
    pub registers: usize,
    /// Dynamic and static shared memory of a block, in bytes.
    pub shared_bytes: usize,
    /// Blocks that one multiprocessor runs at once.
    pub blocks_per_multiprocessor: usize,
    /// Blocks in all; of kernels whose blocks take one tile after another, tiles.
    pub blocks: u128,
    /// What is copied before the product, so that the kernel can load it.
    pub repacking: Repacking,
    /// Waves in which the GPU runs them: as many as fit it at once make one.
    pub waves: f64,
    /// Predicted time in microseconds, copies included.
    pub microseconds: f64,
    /// What most of the time goes into.
    pub bound: Bound,
}

/// What bounds a kernel's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Multiply-adds.
    Arithmetic,
    /// Reading operands from shared memory.
    SharedMemory,
    /// Reading A and B from the L2.
    L2,
    /// Memory's bandwidth.
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
    /// The same kernel after copies.
    pub(crate) fn after(self, repacking: Repacking) -> Self {
        let microseconds = self.microseconds - self.repacking.microseconds + repacking.microseconds;
        Self { repacking, microseconds, ..self }
    }
}
