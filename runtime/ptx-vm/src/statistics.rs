//! Statistics that are counted during a launch.

use std::collections::BTreeMap;

use crate::error::MemorySpace;

/// Counts of one launch, over all blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Warp instructions executed, regardless of their number of active lanes.
    pub warp_instructions: u64,
    /// Warp instructions by full opcode.
    pub by_opcode: BTreeMap<String, u64>,
    /// Bytes read by active lanes, by space.
    pub bytes_read: BTreeMap<MemorySpace, u64>,
    /// Bytes written by active lanes, by space.
    pub bytes_written: BTreeMap<MemorySpace, u64>,
    /// The number of extra parts into which shared-memory accesses had to be split because of bank conflicts (32 banks
    /// of 4 bytes; lanes that access the same word don't conflict).
    pub bank_conflicts: u64,
}

impl Statistics {
    /// Adds another worker's counts.
    pub(crate) fn merge(&mut self, other: &Statistics) {
        self.warp_instructions += other.warp_instructions;
        for (key, count) in &other.by_opcode {
            *self.by_opcode.entry(key.clone()).or_default() += count;
        }
        for (key, count) in &other.bytes_read {
            *self.bytes_read.entry(*key).or_default() += count;
        }
        for (key, count) in &other.bytes_written {
            *self.bytes_written.entry(*key).or_default() += count;
        }
        self.bank_conflicts += other.bank_conflicts;
    }
}
