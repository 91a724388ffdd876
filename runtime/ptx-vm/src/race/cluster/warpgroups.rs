//! The `wgmma` instructions of a block's warpgroups. All four warps of a warpgroup must execute the same ones, in the same
//! order (PTX ISA 9.7.15: `.aligned`).

use std::collections::VecDeque;

use super::super::observer::At;
use super::{ClusterDetector, Fault};

/// The warps of a warpgroup.
const WARPS: usize = 4;

/// The instructions that the warps of a warpgroup have executed.
#[derive(Debug, Default)]
struct Warpgroup {
    /// Instructions that not every warp has executed yet.
    instructions: VecDeque<u32>,
    /// How many instructions were before these.
    before: usize,
    /// How many each warp has executed.
    executed: [usize; WARPS],
    /// Whether two warps have executed different ones.
    differs: bool,
}

/// The warpgroups of a block.
#[derive(Debug, Default)]
pub(super) struct Warpgroups {
    groups: Vec<Warpgroup>,
}

impl Warpgroup {
    /// A warp executes an instruction. False if it is not the one that another warp has executed in its place.
    fn execute(&mut self, warp: usize, pc: u32) -> bool {
        let place = self.executed[warp] - self.before;
        self.executed[warp] += 1;
        let same = match self.instructions.get(place) {
            Some(&other) => other == pc,
            None => {
                self.instructions.push_back(pc);
                true
            }
        };
        while self.executed.iter().all(|&executed| executed > self.before) {
            self.instructions.pop_front();
            self.before += 1;
        }
        same
    }
}

impl ClusterDetector {
    pub(super) fn executes_wgmma(&mut self, at: At) {
        let (group, warp) = (at.warp as usize / WARPS, at.warp as usize % WARPS);
        let groups = &mut self.blocks[at.rank as usize].warpgroups.groups;
        if groups.len() <= group {
            groups.resize_with(group + 1, Warpgroup::default);
        }
        let found = &mut groups[group];
        if !found.differs && !found.execute(warp, at.pc) {
            found.differs = true;
            self.fault(at, at.lanes, Fault::WarpgroupSplit { warpgroup: group as u32 });
        }
    }

    /// When a block ends: checks that every warp of a warpgroup has executed all.
    pub(super) fn check_warpgroups(&self, rank: u32, faults: &mut Vec<(u32, Fault)>) {
        for (number, group) in self.blocks[rank as usize].warpgroups.groups.iter().enumerate() {
            if !group.differs
                && let Some(&pc) = group.instructions.front()
            {
                faults.push((pc, Fault::WarpgroupSplit { warpgroup: number as u32 }));
            }
        }
    }
}
