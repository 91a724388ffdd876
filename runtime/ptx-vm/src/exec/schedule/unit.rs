//! A unit: a resident cluster (without clusters: a block), and the turns of its warps.

use crate::error::LaunchError;
use crate::exec::context::{Context, lanes_of};
use crate::exec::memory::bulk;
use crate::exec::schedule::run::{Slice, Stop, run};
use crate::exec::state::block::{BlockState, Cluster};
use crate::exec::state::launch::LaunchState;
use crate::exec::state::local_written::LocalWritten;
use crate::exec::state::warp::{RowFile, Status, Warp};
use crate::exec::state::worker::WorkerState;
use crate::exec::tensor::tcgen05;
use crate::memory::shared::SharedMemory;
use crate::memory::window;
use crate::options::Completion;
use crate::program::{Fill, Program, Special, SpecialSource};
use crate::race::At;

/// A cluster with its warps.
pub(in crate::exec) struct Unit {
    pub(in crate::exec) cluster: Cluster,
    pub(in crate::exec) warps: Vec<Warp>,
    /// The number of the cluster.
    number: u64,
    /// The number of last rounds in which nothing moved.
    stalled_rounds: u32,
}

/// The result of a round of turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum Progress {
    /// All warps have ended.
    Done,
    /// Some warp did something.
    Moved,
    /// Every warp waits or polls without success.
    Stalled,
    /// No warp can ever move again.
    Stuck,
}

impl Unit {
    /// A unit with its fixed rows filled. It still needs [`Unit::begin`].
    pub(in crate::exec) fn new(launch: &LaunchState<'_>) -> Self {
        let warps_per_block = launch.threads.div_ceil(32);
        let blocks = (0..launch.cluster_size)
            .map(|_| BlockState {
                index: [0; 3],
                shared: SharedMemory::new(launch.shared_bytes, launch.checked, &launch.program.shared.gaps),
                barriers: Default::default(),
                living_warps: 0,
                committed_products: vec![0; warps_per_block as usize],
                tensor: Default::default(),
            })
            .collect();
        let mut warps = vec![];
        for block in 0..launch.cluster_size as usize {
            for index in 0..warps_per_block {
                warps.push(new_warp(launch, block, index));
            }
        }
        Self {
            cluster: Cluster {
                blocks,
                observer: None,
                barrier: Default::default(),
                engine: Default::default(),
                products: Default::default(),
                views: Default::default(),
            },
            warps,
            number: 0,
            stalled_rounds: 0,
        }
    }

    /// Starts the cluster with this number.
    pub(in crate::exec) fn begin(&mut self, launch: &LaunchState<'_>, worker: &mut WorkerState, number: u64) {
        let warps_per_block = launch.threads.div_ceil(32);
        self.stalled_rounds = 0;
        self.number = number;
        self.cluster.observer = launch.observer(number);
        self.cluster.barrier = Default::default();
        self.cluster.engine.clear();
        self.cluster.products.clear();
        self.cluster.views = Default::default();
        if launch.program.uses_tensor_memory() {
            let mut multiprocessors = vec![];
            for block in &mut self.cluster.blocks {
                let number = worker.multiprocessors.enter(launch.blocks_per_multiprocessor, &multiprocessors);
                block.tensor.restart(number);
                multiprocessors.push(number);
            }
        }
        for (rank, block) in self.cluster.blocks.iter_mut().enumerate() {
            block.index = launch.block_index(number, rank as u32);
            block.shared.reset();
            block.barriers = Default::default();
            block.living_warps = warps_per_block;
            block.committed_products.fill(0);
            if let Some(observer) = &mut self.cluster.observer {
                observer.block_begin(rank as u32, block.index, launch.threads);
            }
        }
        for warp in &mut self.warps {
            warp.restart();
            if launch.checked {
                Context::begin_undefined(warp, launch.program);
            }
            let index = self.cluster.blocks[warp.block].index;
            for fill in launch.changing_fills() {
                let value = match fill.source {
                    SpecialSource::Special(special) => {
                        launch.special_of_block(special, index, number, warp.block as u32)
                    }
                    _ => 0,
                };
                fill_row(&mut warp.rows, fill, value);
            }
        }
    }

    /// Leaves its SMs, at the end of the cluster.
    pub(in crate::exec) fn leave(&self, worker: &mut WorkerState) {
        self.cluster.blocks.iter().for_each(|block| worker.multiprocessors.leave(block.tensor.multiprocessor));
    }

    /// Gives a turn to every warp that can run.
    pub(in crate::exec) fn round(
        &mut self,
        launch: &LaunchState<'_>,
        worker: &mut WorkerState,
    ) -> Result<Progress, Box<LaunchError>> {
        let writes = worker.writes;
        worker.cluster = self.number as u32;
        let mut moved = false;
        for index in 0..self.warps.len() {
            let before = self.warps[index].status;
            if !matches!(before, Status::Ready | Status::Polling) {
                continue;
            }
            if self.stalled_rounds == 0 && self.warps[index].sleeps(&self.cluster) {
                continue;
            }
            self.warps[index].status = Status::Ready;
            self.warps[index].suspended = 0;
            self.turn(index, before == Status::Polling, launch, worker)?;
            let after = self.warps[index].status;
            moved |= after != Status::Polling;
            if after == Status::Done {
                self.end_of_warp(index);
                self.check_tensor_memory(index, launch)?;
            }
            if matches!(after, Status::Done | Status::Barrier(_) | Status::Ready) {
                moved |= self.complete_barriers(self.warps[index].block, launch.program);
                moved |= self.complete_cluster_barrier();
            }
        }
        let random = launch.completion == Completion::Random && worker.random().is_multiple_of(4);
        if !self.cluster.engine.is_empty() && (!moved && worker.writes == writes || random) {
            self.complete_copy(launch, worker)?;
            moved = true;
        }
        if self.cluster.has_products() && (!moved && worker.writes == writes || random) {
            self.complete_products(launch, worker)?;
            moved = true;
        }
        if self.warps.iter().all(|w| w.status == Status::Done) {
            while !self.cluster.engine.is_empty() {
                self.complete_copy(launch, worker)?;
            }
            while self.cluster.has_products() {
                self.complete_products(launch, worker)?;
            }
            // The observer's findings are collected when it is dropped.
            self.cluster.observer = None;
            return Ok(Progress::Done);
        }
        if moved || worker.writes != writes {
            self.stalled_rounds = 0;
            return Ok(Progress::Moved);
        }
        self.stalled_rounds = self.stalled_rounds.saturating_add(1);
        Ok(if self.is_stuck(self.stalled_rounds) { Progress::Stuck } else { Progress::Stalled })
    }

    fn turn(
        &mut self,
        index: usize,
        polled: bool,
        launch: &LaunchState<'_>,
        worker: &mut WorkerState,
    ) -> Result<(), Box<LaunchError>> {
        let warp = &mut self.warps[index];
        let slice = Slice::of(warp, launch.completion, polled, worker);
        let block = warp.block;
        let rows = warp.rows.as_mut_ptr();
        let predicates = warp.predicates.as_mut_ptr();
        let shared = &mut self.cluster.blocks[block].shared;
        let mut context = Context {
            rows,
            predicates,
            shared_size: shared.size(),
            shared: shared.data(),
            checked: launch.checked,
            counting: launch.counting,
            observed: self.cluster.observer.is_some(),
            pc: warp.pc,
            active: warp.mask,
            program: launch.program,
            launch,
            cluster: &mut self.cluster,
            block,
            warp,
            worker,
            fault: None,
            lane_targets: [0; 32],
        };
        if run(&mut context, slice) == Stop::Fault {
            let pc = context.pc;
            let fault = context.fault.take();
            let site = self.site(index, pc, launch);
            return Err(Box::new(match fault {
                Some(fault) => fault.into_error(site),
                None => LaunchError::Trap { site: Box::new(site) },
            }));
        }
        Ok(())
    }

    /// The place of a warp.
    pub(in crate::exec) fn site(&self, warp: usize, pc: u32, launch: &LaunchState<'_>) -> crate::error::Site {
        let warp = &self.warps[warp];
        launch.program.site(launch.kernel, pc, self.cluster.blocks[warp.block].index, warp.index)
    }

    fn end_of_warp(&mut self, index: usize) {
        let rank = self.warps[index].block;
        let block = &mut self.cluster.blocks[rank];
        block.living_warps -= 1;
        if let Some(committed) = block.committed_products.get_mut(self.warps[index].index as usize) {
            *committed = u32::MAX;
        }
        if block.living_warps == 0
            && let Some(observer) = &mut self.cluster.observer
        {
            observer.block_end(rank as u32);
        }
    }

    /// Lets warps continue whose barrier is complete. True if there were any.
    fn complete_barriers(&mut self, rank: usize, program: &Program) -> bool {
        let mut any = false;
        for id in 0..16u8 {
            let block = &mut self.cluster.blocks[rank];
            let barrier = block.barriers[id as usize];
            if !barrier.is_complete(block.living_warps * 32) {
                continue;
            }
            any = true;
            block.barriers[id as usize] = Default::default();
            if self.cluster.observer.is_some() {
                self.report_threads_around(rank, id, program);
            }
            if let Some(observer) = &mut self.cluster.observer {
                observer.barrier_complete(rank as u32, id.into());
            }
            for warp in self.warps.iter_mut().filter(|w| w.block == rank && w.status == Status::Barrier(id)) {
                warp.status = Status::Ready;
                barrier.deliver(warp);
                warp.views.join(&self.cluster.views);
            }
        }
        any
    }

    /// Reports threads that have ended, and before that have gone around the barrier at which others wait.
    fn report_threads_around(&mut self, rank: usize, id: u8, program: &Program) {
        let Some(observer) = &mut self.cluster.observer else { return };
        let of_block = || self.warps.iter().filter(|warp| warp.block == rank);
        if of_block().all(|warp| warp.exited == 0) {
            return;
        }
        for after in &program.after_barriers {
            let waits = |warp: &Warp| warp.status == Status::Barrier(id) && warp.pc == after.instruction + 1;
            if !of_block().any(waits) {
                continue;
            }
            for warp in of_block() {
                let around = |lane: &usize| after.contains(warp.last_access[*lane]);
                let lanes = lanes_of(warp.exited).filter(around).fold(0, |lanes, lane| lanes | 1 << lane);
                if lanes != 0 {
                    let at = At { rank: rank as u32, warp: warp.index, lanes, pc: after.instruction };
                    observer.barrier_passed(at, id.into());
                }
            }
        }
    }

    /// Lets warps continue if all that have not ended have arrived at the cluster barrier.
    fn complete_cluster_barrier(&mut self) -> bool {
        let living: u32 = self.cluster.blocks.iter().map(|b| b.living_warps).sum();
        let barrier = &mut self.cluster.barrier;
        if barrier.arrived == 0 || barrier.arrived < living {
            return false;
        }
        barrier.arrived = 0;
        barrier.phase += 1;
        if let Some(observer) = &mut self.cluster.observer {
            observer.cluster_complete();
        }
        for warp in self.warps.iter_mut().filter(|w| w.status == Status::ClusterBarrier) {
            warp.status = Status::Ready;
        }
        true
    }

    /// When a block ends: everything that it allocated must be free (PTX ISA 9.7.16.7).
    fn check_tensor_memory(&self, index: usize, launch: &LaunchState<'_>) -> Result<(), Box<LaunchError>> {
        let block = &self.cluster.blocks[self.warps[index].block];
        match block.tensor.allocations().first() {
            Some((first, columns)) if block.living_warps == 0 => {
                let site = Box::new(self.site(index, self.warps[index].pc.saturating_sub(1), launch));
                let message = format!(
                    "the block ends with {columns} columns of tensor memory at {first:#x}: free them by tcgen05.dealloc"
                );
                Err(Box::new(LaunchError::Invalid { site, message }))
            }
            _ => Ok(()),
        }
    }

    /// Lets `tcgen05` products and copies of one block take effect, up to a commit.
    fn complete_products(
        &mut self,
        launch: &LaunchState<'_>,
        worker: &mut WorkerState,
    ) -> Result<(), Box<LaunchError>> {
        let waiting: Vec<usize> = (0..self.cluster.blocks.len())
            .filter(|&block| !self.cluster.blocks[block].tensor.pipe.is_empty())
            .collect();
        let random = launch.completion == Completion::Random;
        let choice = if random { worker.random() as usize } else { 0 };
        let Some(&block) = waiting.get(choice % waiting.len().max(1)) else { return Ok(()) };
        let most = if random { 1 + worker.random() % 8 } else { u64::MAX };
        worker.writes += 1;
        for _ in 0..most {
            match tcgen05::pipe::complete_oldest(&mut self.cluster, block, launch.arithmetic) {
                Ok(false) => {}
                Ok(true) => break,
                Err(tcgen05::pipe::Failed { warp, pc, message }) => {
                    let of_warp = |other: &Warp| (other.block, other.index) == (block, warp);
                    let warp = self.warps.iter().position(of_warp).unwrap_or(0);
                    let site = Box::new(self.site(warp, pc, launch));
                    return Err(Box::new(LaunchError::Invalid { site, message }));
                }
            }
        }
        Ok(())
    }

    /// Completes one of the bulk copies in flight.
    fn complete_copy(&mut self, launch: &LaunchState<'_>, worker: &mut WorkerState) -> Result<(), Box<LaunchError>> {
        let count = self.cluster.engine.len() as u64;
        let index = if launch.completion == Completion::Random { (worker.random() % count) as usize } else { 0 };
        let Some(pending) = self.cluster.engine.remove(index) else { return Ok(()) };
        worker.writes += 1;
        pending.forget(worker);
        bulk::engine::complete(&mut self.cluster, launch, &pending).map_err(|message| {
            let site = Box::new(self.site(pending.warp(&self.warps), pending.pc(), launch));
            Box::new(LaunchError::Invalid { site, message })
        })
    }
}

fn new_warp(launch: &LaunchState<'_>, block: usize, index: u32) -> Warp {
    let program = launch.program;
    let threads = launch.threads.min(index * 32 + 32) - index * 32;
    let mut predicates = vec![0; program.predicate_count as usize];
    predicates[0] = u32::MAX;
    let mut rows = RowFile::new(program.row_count);
    for fill in &program.fills {
        match fill.source {
            SpecialSource::Special(special) if special.is_fixed() => {
                special_of_thread(launch, special, index, rows.narrow(fill.row));
            }
            SpecialSource::Special(_) => {}
            SpecialSource::Constant(value) => fill_row(&mut rows, fill, value),
            SpecialSource::Variable { index, offset } => {
                fill_row(&mut rows, fill, launch.variables[index].wrapping_add_signed(offset));
            }
            SpecialSource::Parameter { offset, bytes } => {
                let mut raw = [0; 8];
                raw[..bytes as usize].copy_from_slice(&launch.parameters[offset as usize..(offset + bytes) as usize]);
                fill_row(&mut rows, fill, u64::from_le_bytes(raw));
            }
            SpecialSource::ParameterAddress { offset } => {
                fill_row(&mut rows, fill, window::PARAMETERS + u64::from(offset));
            }
            SpecialSource::DynamicShared { offset } => {
                fill_row(&mut rows, fill, u64::from(launch.dynamic_shared_start).wrapping_add_signed(offset));
            }
            SpecialSource::Zero => fill_row(&mut rows, fill, 0),
        }
    }
    Warp {
        block,
        index,
        rows,
        predicates,
        lanes: if threads == 32 { u32::MAX } else { (1 << threads) - 1 },
        exited: 0,
        pc: 0,
        mask: 0,
        groups: vec![],
        next_pc: u32::MAX,
        fair: false,
        status: Status::Done,
        polls: Default::default(),
        suspended: 0,
        slept: 0,
        local: vec![0; program.local_bytes as usize * 32],
        local_written: LocalWritten::new(if launch.checked { program.local_bytes } else { 0 }),
        ended_frames: vec![],
        passed: vec![],
        copies: Default::default(),
        bulk: Default::default(),
        products: Default::default(),
        undefined: Default::default(),
        views: Default::default(),
        cluster_phase: None,
        barrier_result: None,
        last_access: [u32::MAX; 32],
    }
}

fn fill_row(rows: &mut RowFile, fill: &Fill, value: u64) {
    if fill.wide {
        rows.fill_wide(fill.row, value);
    } else {
        *rows.narrow(fill.row) = [value as u32; 32];
    }
}

/// Special registers that are the same for every block.
fn special_of_thread(launch: &LaunchState<'_>, special: Special, warp: u32, row: &mut [u32; 32]) {
    let [x, y, _] = launch.block;
    for (lane, value) in row.iter_mut().enumerate() {
        let lane = lane as u32;
        let thread = warp * 32 + lane;
        *value = match special {
            Special::Thread(0) => thread % x,
            Special::Thread(1) => thread / x % y,
            Special::Thread(_) => thread / x / y,
            Special::ThreadCount(d) => launch.block[d as usize],
            Special::BlockCount(d) => launch.grid[d as usize],
            Special::Lane => lane,
            Special::Warp => warp,
            Special::WarpCount => launch.threads.div_ceil(32),
            Special::Multiprocessor => 0,
            Special::MultiprocessorCount => 1,
            Special::Grid => 0,
            Special::GridWorkspaceLow => launch.grid_workspace as u32,
            Special::GridWorkspaceHigh => (launch.grid_workspace >> 32) as u32,
            Special::LaneMaskEq => 1 << lane,
            Special::LaneMaskLt => (1 << lane) - 1,
            Special::LaneMaskLe => u32::MAX >> (31 - lane),
            Special::LaneMaskGt => !(u32::MAX >> (31 - lane)),
            Special::LaneMaskGe => !((1 << lane) - 1),
            Special::ClusterCount(d) => launch.grid[d as usize] / launch.cluster[d as usize],
            Special::BlocksInCluster(d) => launch.cluster[d as usize],
            Special::ClusterSize => launch.cluster_size,
            Special::DynamicShared => launch.dynamic_shared_bytes,
            Special::TotalShared => launch.declared_shared_bytes,
            Special::Block(_) | Special::Cluster(_) | Special::BlockInCluster(_) | Special::RankInCluster => 0,
        };
    }
}
