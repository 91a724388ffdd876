//! Records what lanes poll for and, when there is no more progress, tells which warps wait for what.

use crate::error::Waiter;
use crate::exec::context::{Context, Flow, lanes_of};
use crate::exec::memory::access::Addresses;
use crate::exec::schedule::unit::Unit;
use crate::exec::state::block::Cluster;
use crate::exec::state::launch::LaunchState;
use crate::exec::state::poll::{Poll, PollTarget, digest};
use crate::exec::state::warp::{Status, Warp};
use crate::exec::sync::mbarrier::Mbarrier;
use crate::race::{Names, Space, shared_address};

impl Warp {
    /// Whether it would only be suspended again in its next turn: no lane can run, and nothing has come that its lanes wait for.
    /// It takes a turn now and then all the same, since a wait may end after a time, and what follows may help others.
    pub(in crate::exec) fn sleeps(&mut self, cluster: &Cluster) -> bool {
        /// The most turns in a row that it doesn't take.
        const MOST: u32 = 64;
        let nobody_runs = self.suspended != 0 && self.suspended == self.mask && self.groups.iter().all(|g| g.waits);
        let has_come = |poll: &Poll| match poll.target {
            PollTarget::Mbarrier { block, offset, parity } => cluster.mbarrier_phase(block, offset) != parity,
            PollTarget::Shared(_) | PollTarget::Global(_) | PollTarget::TensorMemory { .. } | PollTarget::Warpgroup => {
                true
            }
        };
        let sleeps = nobody_runs
            && self.slept < MOST
            && !self.polls.failing().iter().any(|poll| poll.lanes & self.suspended != 0 && has_come(poll));
        self.slept = if sleeps { self.slept + 1 } else { 0 };
        sleeps
    }

    /// Whether what it polls for may come from outside of the cluster.
    fn polls_outside(&self) -> bool {
        self.status == Status::Polling
            && (self.polls.failing().is_empty()
                || self
                    .polls
                    .failing()
                    .iter()
                    .any(|p| matches!(p.target, PollTarget::Global(_) | PollTarget::TensorMemory { .. })))
    }
}

impl Context<'_> {
    /// A strong load, or an atomic without success, with a digest of its results. If it is executed again and gives the
    /// same, other warps run first.
    pub(in crate::exec) fn poll(&mut self, shared: bool, addresses: &Addresses, mask: u32, results: u64) -> Flow {
        let places = lanes_of(mask).fold(results, |sum, lane| digest(sum, addresses[lane]));
        if !self.warp.polls.repeats(self.pc, mask, places) {
            return Flow::Next;
        }
        let address = addresses[mask.trailing_zeros() as usize];
        let target =
            if shared { PollTarget::Shared(self.shared_address(address)) } else { PollTarget::Global(address) };
        self.warp.polls.fail(self.pc, mask, [Poll { pc: self.pc, lanes: mask, target }]);
        self.warp.status = Status::Polling;
        Flow::Pause
    }
}

impl Unit {
    /// Whether no warp can ever move again, after this many rounds without progress. Nothing outside can help if no
    /// warp polls for anything outside.
    pub(in crate::exec) fn is_stuck(&self, stalled_rounds: u32) -> bool {
        /// Enough rounds for a loop with a timeout to end, and for all diverged lanes to get turns.
        const ROUNDS: u32 = 1 << 12;
        self.warps.iter().all(|w| !matches!(w.status, Status::Ready | Status::Polling))
            || stalled_rounds > ROUNDS && self.warps.iter().all(|w| w.status != Status::Ready && !w.polls_outside())
    }

    /// The waiting warps, and what they wait for.
    pub(in crate::exec) fn waiters(&mut self, launch: &LaunchState<'_>) -> Vec<Waiter> {
        let mut waiters = vec![];
        for index in 0..self.warps.len() {
            match self.warps[index].status {
                Status::Done | Status::Ready => {}
                Status::Polling => self.pollers(index, launch, &mut waiters),
                Status::ClusterBarrier => {
                    let warps: u32 = self.cluster.blocks.iter().map(|b| b.living_warps).sum();
                    let arrived = self.cluster.barrier.arrived;
                    let reason = format!("waits at the cluster barrier, where {arrived} of {warps} warps have arrived");
                    waiters.push(self.waiter(index, self.warps[index].pc, self.warps[index].living(), reason, launch));
                }
                Status::Barrier(id) => {
                    let reason = self.barrier_reason(index, id, launch);
                    let pc = self.warps[index].pc.saturating_sub(1);
                    waiters.push(self.waiter(index, pc, self.warps[index].living(), reason, launch));
                }
            }
        }
        waiters
    }

    fn barrier_reason(&self, index: usize, id: u8, launch: &LaunchState<'_>) -> String {
        let block = &self.cluster.blocks[self.warps[index].block];
        let barrier = block.barriers[id as usize];
        let expected = if barrier.expected == 0 { block.living_warps * 32 } else { barrier.expected };
        let ended = launch.threads.div_ceil(32) - block.living_warps;
        let ended = if ended > 0 { format!(" ({ended} warps of the block have ended)") } else { String::new() };
        format!("waits at barrier {id}, where {} of {expected} threads have arrived{ended}", barrier.arrived)
    }

    /// The events that the groups of lanes of a warp wait for, if the warp has polling lanes.
    fn pollers(&mut self, index: usize, launch: &LaunchState<'_>, waiters: &mut Vec<Waiter>) {
        let polls = self.warps[index].polls.failing().to_vec();
        let mut explained = 0;
        for poll in polls {
            let lanes = poll.lanes & self.warps[index].living();
            if lanes != 0 {
                explained |= lanes;
                let reason = self.poll_reason(poll.target, launch);
                waiters.push(self.waiter(index, poll.pc, lanes, reason, launch));
            }
        }
        let warp = &self.warps[index];
        let running = [(warp.pc, warp.mask)];
        let groups = warp.groups.iter().map(|g| (g.pc, g.mask)).chain(running);
        let rest: Vec<_> = groups.map(|(pc, mask)| (pc, mask & !explained)).filter(|g| g.1 != 0).collect();
        for (pc, lanes) in rest {
            let reason = "waits for other lanes of the warp".to_owned();
            waiters.push(self.waiter(index, pc, lanes, reason, launch));
        }
    }

    fn poll_reason(&mut self, target: PollTarget, launch: &LaunchState<'_>) -> String {
        let named = |space, address| match launch.buffer(space, address) {
            Some((name, offset)) => format!(" ({name}+{offset:#x})"),
            None => String::new(),
        };
        let of_rank = |rank: u64| if rank == 0 { String::new() } else { format!(" of cluster rank {rank}") };
        match target {
            PollTarget::Mbarrier { block, offset, parity } => {
                let state = Mbarrier::from_bits(self.cluster.read_u64(block, offset));
                let name = named(Space::Shared, shared_address(block as u32, offset));
                let rank = of_rank(block as u64);
                format!(
                    "waits for the phase of parity {parity} of the mbarrier at shared+{offset:#x}{rank}{name}, which lacks {state}"
                )
            }
            PollTarget::Warpgroup => "waits for products that other warps of its warpgroup have not issued".to_owned(),
            PollTarget::TensorMemory { columns } => format!(
                "waits for {columns} columns of tensor memory, which blocks of its SM hold that do not free them"
            ),
            PollTarget::Shared(address) => {
                let name = named(Space::Shared, address);
                format!("polls shared+{:#x}{}{name}, which nobody changes", address as u32, of_rank(address >> 32))
            }
            PollTarget::Global(address) => {
                format!("polls global {address:#x}{}, which nobody changes", named(Space::Global, address))
            }
        }
    }

    fn waiter(&self, index: usize, pc: u32, lanes: u32, reason: String, launch: &LaunchState<'_>) -> Waiter {
        let mut site = self.site(index, pc, launch);
        if lanes.is_power_of_two() {
            site.lane = lanes_of(lanes).next().map(|lane| lane as u32);
        }
        Waiter { site, lanes, reason }
    }
}
