//! The barriers of a block and of a cluster.

/// The function that `bar.red` computes from all threads' predicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum Reduction {
    Popc,
    And,
    Or,
}

/// One of a block's 16 barriers.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::exec) struct Barrier {
    /// Threads that have arrived, counted in whole warps.
    pub(in crate::exec) arrived: u32,
    /// The number of threads that complete it; 0 means all threads of the block that have not ended.
    pub(in crate::exec) expected: u32,
    /// For `bar.red`: the threads whose predicate was true, and the threads that took part.
    pub(in crate::exec) votes: u32,
    pub(in crate::exec) voters: u32,
}

/// The barrier of a cluster.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::exec) struct ClusterBarrier {
    /// Warps that have arrived in this phase.
    pub(in crate::exec) arrived: u32,
    /// Phases completed so far.
    pub(in crate::exec) phase: u32,
}
