//! A warp: its register files, the program counters of its lanes, and the reconvergence of diverged lanes.

use crate::exec::state::barrier::Reduction;
use crate::exec::state::bulk::BulkGroups;
use crate::exec::state::copies::CopyGroups;
use crate::exec::state::local_written::LocalWritten;
use crate::exec::state::poll::Polls;
use crate::exec::state::products::WarpProducts;
use crate::exec::state::undefined::UndefinedValues;
use crate::exec::state::weak::Views;

/// Lanes that are at one instruction, separate from the running ones.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) struct Group {
    pub(in crate::exec) pc: u32,
    pub(in crate::exec) mask: u32,
    /// Whether it waits for other lanes of the warp.
    pub(in crate::exec) waits: bool,
}

/// The reason why a warp doesn't run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum Status {
    /// It can run.
    Ready,
    /// It polled without success. It can run, but others should run first.
    Polling,
    /// It waits at a CTA barrier.
    Barrier(u8),
    /// It waits at the cluster barrier.
    ClusterBarrier,
    /// All its lanes have ended.
    Done,
}

/// The state of a warp.
pub(in crate::exec) struct Warp {
    /// Index of the block in the cluster.
    pub(in crate::exec) block: usize,
    /// Index in the block.
    pub(in crate::exec) index: u32,
    pub(in crate::exec) rows: RowFile,
    pub(in crate::exec) predicates: Vec<u32>,
    /// Lanes that exist.
    pub(in crate::exec) lanes: u32,
    /// Lanes that have ended.
    pub(in crate::exec) exited: u32,
    pub(in crate::exec) pc: u32,
    /// The running lanes.
    pub(in crate::exec) mask: u32,
    pub(in crate::exec) groups: Vec<Group>,
    /// The lowest program counter of the groups that can run. The running lanes stop there for them.
    pub(in crate::exec) next_pc: u32,
    /// Whether the order of program counters is ignored, so that starved lanes get a turn.
    pub(in crate::exec) fair: bool,
    pub(in crate::exec) status: Status,
    /// The state that its lanes poll.
    pub(in crate::exec) polls: Polls,
    /// Lanes that `mbarrier.try_wait` suspended at the end of the last turn.
    pub(in crate::exec) suspended: u32,
    /// The number of turns in a row that it has not taken, because all its lanes were suspended.
    pub(in crate::exec) slept: u32,
    pub(in crate::exec) local: Vec<u8>,
    pub(in crate::exec) local_written: LocalWritten,
    /// Instructions with a member mask, at which lanes wait, and the lanes of the mask that have passed it by.
    pub(in crate::exec) passed: Vec<(u32, u32)>,
    /// Start and size in local memory of the frames of functions that have returned, and in which lanes.
    pub(in crate::exec) ended_frames: Vec<(u32, u32, u32)>,
    pub(in crate::exec) copies: CopyGroups,
    pub(in crate::exec) bulk: BulkGroups,
    pub(in crate::exec) products: WarpProducts,
    /// Registers that hold undefined values.
    pub(in crate::exec) undefined: UndefinedValues,
    /// The writes of global memory that it has seen, if reads may see older values.
    pub(in crate::exec) views: Views,
    /// The phase of the cluster barrier in which it has arrived, if it has not waited for it yet.
    pub(in crate::exec) cluster_phase: Option<u32>,
    /// The result that `bar.red` will write when the barrier completes.
    pub(in crate::exec) barrier_result: Option<BarrierResult>,
    /// If a detector watches: each lane's last access to shared or global memory, as an instruction.
    pub(in crate::exec) last_access: [u32; 32],
}

/// The destination of a barrier's reduction.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) struct BarrierResult {
    pub(in crate::exec) row: u32,
    pub(in crate::exec) predicate: u16,
    pub(in crate::exec) kind: Reduction,
    pub(in crate::exec) mask: u32,
}

impl Warp {
    /// Lanes that exist and have not ended.
    pub(in crate::exec) fn living(&self) -> u32 {
        self.lanes & !self.exited
    }

    /// Whether all living lanes run together.
    pub(in crate::exec) fn is_converged(&self) -> bool {
        self.groups.is_empty()
    }

    /// Puts the warp at the start of the program.
    pub(in crate::exec) fn restart(&mut self) {
        self.exited = 0;
        self.pc = 0;
        self.mask = self.lanes;
        self.groups.clear();
        self.next_pc = u32::MAX;
        self.fair = false;
        self.status = Status::Ready;
        self.polls.clear();
        self.suspended = 0;
        self.slept = 0;
        self.copies.clear();
        self.bulk.clear();
        self.products.clear();
        self.undefined.clear();
        self.ended_frames.clear();
        self.local_written.clear();
        self.passed.clear();
        self.views = Views::default();
        self.cluster_phase = None;
        self.barrier_result = None;
        self.last_access = [u32::MAX; 32];
    }

    /// Sets the running lanes aside at `pc`, and lets the group with the lowest program counter run. False if every
    /// group waits.
    pub(in crate::exec) fn regroup(&mut self) -> bool {
        if self.mask != 0 {
            self.set_aside(self.pc, self.mask, false);
        }
        self.choose()
    }

    /// Adds lanes to the group at `pc`.
    pub(in crate::exec) fn set_aside(&mut self, pc: u32, mask: u32, waits: bool) {
        match self.groups.iter_mut().find(|g| g.pc == pc && g.waits == waits) {
            Some(group) => group.mask |= mask,
            None => self.groups.push(Group { pc, mask, waits }),
        }
    }

    /// Lets the group with the lowest program counter run. The running mask must be empty.
    pub(in crate::exec) fn choose(&mut self) -> bool {
        let lowest = self.groups.iter().enumerate().filter(|(_, g)| !g.waits).min_by_key(|(_, g)| g.pc);
        let Some((index, _)) = lowest else {
            self.mask = 0;
            return false;
        };
        self.take(index);
        true
    }

    fn take(&mut self, index: usize) {
        let group = self.groups.swap_remove(index);
        (self.pc, self.mask) = (group.pc, group.mask);
        self.fair = false;
        self.update_next();
    }

    pub(in crate::exec) fn update_next(&mut self) {
        let lowest = self.groups.iter().filter(|g| !g.waits).map(|g| g.pc).min();
        self.next_pc = if self.fair { u32::MAX } else { lowest.unwrap_or(u32::MAX) };
    }

    /// Gives a turn to lanes that the order of program counters starves: the group that waited longest runs until the
    /// next call.
    pub(in crate::exec) fn rotate(&mut self) {
        let Some(index) = self.groups.iter().position(|g| !g.waits) else { return };
        let group = self.groups.remove(index);
        // The running lanes go to the end of the queue.
        self.groups.push(Group { pc: self.pc, mask: self.mask, waits: false });
        (self.pc, self.mask) = (group.pc, group.mask);
        self.fair = !self.fair;
        self.update_next();
    }

    /// Lets all waiting groups try again.
    pub(in crate::exec) fn wake(&mut self) {
        for group in std::mem::take(&mut self.groups) {
            self.set_aside(group.pc, group.mask, false);
        }
        self.update_next();
    }

    /// Lanes that wait for others at `pc` have done so, and go on behind it.
    pub(in crate::exec) fn release(&mut self, pc: u32, lanes: u32) {
        for group in self.groups.iter_mut().filter(|g| g.waits && g.pc == pc) {
            group.mask &= !lanes;
        }
        self.groups.retain(|g| g.mask != 0);
        self.set_aside(pc + 1, lanes, false);
        self.update_next();
    }

    /// Records that lanes pass by an instruction whose member mask names them.
    pub(in crate::exec) fn pass(&mut self, pc: u32, lanes: u32) {
        match self.passed.iter_mut().find(|passed| passed.0 == pc) {
            Some(passed) => passed.1 |= lanes,
            None if lanes != 0 => self.passed.push((pc, lanes)),
            None => {}
        }
    }

    /// The lanes that have passed by an instruction; forgets them.
    pub(in crate::exec) fn take_passed(&mut self, pc: u32) -> u32 {
        let place = self.passed.iter().position(|passed| passed.0 == pc);
        place.map_or(0, |place| self.passed.swap_remove(place).1)
    }
}

/// A register file: rows of 32 words, aligned to a cache line.
pub(in crate::exec) struct RowFile {
    rows: Vec<AlignedRow>,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct AlignedRow([u32; 32]);

impl RowFile {
    pub(in crate::exec) fn new(rows: u32) -> Self {
        Self { rows: vec![AlignedRow([0; 32]); rows as usize] }
    }

    pub(in crate::exec) fn as_mut_ptr(&mut self) -> *mut u32 {
        self.rows.as_mut_ptr().cast()
    }

    /// A 32-bit register.
    pub(in crate::exec) fn narrow(&mut self, row: u32) -> &mut [u32; 32] {
        &mut self.rows[row as usize].0
    }

    /// Sets one lane of a 64-bit register.
    pub(in crate::exec) fn set_wide(&mut self, row: u32, lane: usize, value: u64) {
        let (row, word) = (row as usize + lane / 16, lane % 16 * 2);
        (self.rows[row].0[word], self.rows[row].0[word + 1]) = (value as u32, (value >> 32) as u32);
    }

    /// Fills a 64-bit register.
    pub(in crate::exec) fn fill_wide(&mut self, row: u32, value: u64) {
        let pair = &mut self.rows[row as usize..row as usize + 2];
        for (lane, word) in pair.iter_mut().flat_map(|r| r.0.iter_mut()).enumerate() {
            *word = if lane % 2 == 0 { value as u32 } else { (value >> 32) as u32 };
        }
    }
}
