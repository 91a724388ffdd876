//! Bulk copies of a cluster that are in flight, and the groups that its warps commit.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::numerics::reduction::Function;

/// A copy that was issued and has not completed.
#[derive(Debug)]
pub(in crate::exec) struct Pending {
    /// The issuing warp (its number in the unit) and lane, for bulk groups.
    pub(in crate::exec) owner: (usize, u32, usize),
    pub(in crate::exec) pc: u32,
    /// Bytes to be written to shared memory of blocks.
    pub(in crate::exec) writes: Vec<(usize, u32, Rc<Vec<u8>>)>,
    /// Mbarriers, and the bytes to complete on them.
    pub(in crate::exec) mbarriers: Vec<(usize, u32, u32)>,
    /// Bytes to be stored: block, shared offset, global address, length.
    pub(in crate::exec) stores: Vec<(usize, u32, u64, u32)>,
    /// If set, bytes are combined with those in memory instead of replacing them.
    pub(in crate::exec) reduces: Option<Reduces>,
    pub(in crate::exec) group: u32,
}

/// How a copy combines its elements with those in memory.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) struct Reduces {
    pub(in crate::exec) function: Function,
    /// Number of bytes of an element.
    pub(in crate::exec) bytes: u32,
}

/// The copies of a cluster that are in flight.
pub(in crate::exec) type Engine = VecDeque<Pending>;

/// A warp's bulk groups: for each lane, how many groups it has committed.
#[derive(Debug, Default)]
pub(in crate::exec) struct BulkGroups {
    pub(in crate::exec) committed: [u32; 32],
}

impl BulkGroups {
    pub(in crate::exec) fn clear(&mut self) {
        self.committed = [0; 32];
    }

    /// How many groups a lane has committed; this is the number of the open group.
    pub(in crate::exec) fn committed(&self, lane: usize) -> u32 {
        self.committed[lane]
    }
}
