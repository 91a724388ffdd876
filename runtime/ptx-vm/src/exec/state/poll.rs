//! The condition that lanes poll.

/// A test that failed and will be made again.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) struct Poll {
    pub(in crate::exec) pc: u32,
    pub(in crate::exec) lanes: u32,
    pub(in crate::exec) target: Target,
}

/// What is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum Target {
    /// The phase with this parity of the mbarrier at an offset of a block's shared memory.
    Mbarrier { block: usize, offset: u32, parity: u64 },
    /// A value in shared memory, at this address of the detector.
    Shared(u64),
    /// A value in global memory.
    Global(u64),
    /// `wgmma` products that other warps of the warpgroup have not issued yet.
    Warpgroup,
}
