//! State that a worker keeps across blocks.

use crate::error::MemorySpace;
use crate::exec::state::tensor_memory::Multiprocessors;
use crate::exec::state::weak::WeakMemory;
use crate::statistics::Statistics;

/// State that a worker keeps across blocks.
pub(crate) struct WorkerState {
    /// For each instruction, the allocation that it accessed last.
    pub(in crate::exec) hints: Vec<u32>,
    /// For each instruction, how often it was executed; counted only on request.
    pub(in crate::exec) executed: Vec<u64>,
    /// The number of changes to memory; it shows whether there is progress.
    pub(in crate::exec) writes: u64,
    pub(in crate::exec) clock: u64,
    pub(in crate::exec) statistics: Statistics,
    /// The number of the cluster that runs now.
    pub(in crate::exec) cluster: u32,
    /// The history of global memory, if reads may see older values.
    pub(in crate::exec) weak: Option<Box<WeakMemory>>,
    /// The SMs on which its blocks run.
    pub(in crate::exec) multiprocessors: Multiprocessors,
    /// The number of `tcgen05.commit`s so far.
    pub(in crate::exec) tickets: u64,
    random: u64,
    /// The number of random choices that are left.
    choices: u64,
}

impl WorkerState {
    pub(in crate::exec) fn new(instructions: usize, seed: u64, choices: u64, weak: bool) -> Self {
        Self {
            hints: vec![0; instructions],
            executed: vec![0; instructions],
            writes: 0,
            clock: 0,
            statistics: Statistics::default(),
            cluster: 0,
            weak: weak.then(Box::default),
            multiprocessors: Multiprocessors::default(),
            tickets: 0,
            random: seed,
            choices,
        }
    }

    /// Whether random choices are left.
    pub(in crate::exec) fn has_choices(&self) -> bool {
        self.choices > 0
    }

    /// A random number (splitmix64).
    pub(in crate::exec) fn random(&mut self) -> u64 {
        // Turns are long, and nothing completes before something waits for it.
        const AFTERWARDS: u64 = 15;
        let Some(left) = self.choices.checked_sub(1) else { return AFTERWARDS };
        self.choices = left;
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(in crate::exec) fn count_read(&mut self, space: MemorySpace, bytes: u32) {
        *self.statistics.bytes_read.entry(space).or_default() += u64::from(bytes);
    }

    pub(in crate::exec) fn count_write(&mut self, space: MemorySpace, bytes: u32) {
        *self.statistics.bytes_written.entry(space).or_default() += u64::from(bytes);
    }
}
