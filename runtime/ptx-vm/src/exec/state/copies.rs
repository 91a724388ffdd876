//! `cp.async` copies of a warp that are in flight.

use std::collections::VecDeque;

/// A copy that was issued and has not completed. It goes to `offset` of the block's shared memory.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) struct Pending {
    pub(in crate::exec) offset: u32,
    pub(in crate::exec) size: u8,
    pub(in crate::exec) data: [u8; 16],
}

/// The copies of a warp: those not yet committed, and the committed groups, oldest first.
#[derive(Debug, Default)]
pub(in crate::exec) struct CopyGroups {
    pub(in crate::exec) open: Vec<Pending>,
    pub(in crate::exec) committed: VecDeque<Vec<Pending>>,
}

impl CopyGroups {
    pub(in crate::exec) fn clear(&mut self) {
        self.open.clear();
        self.committed.clear();
    }
}
