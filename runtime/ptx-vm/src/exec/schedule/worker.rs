//! A worker thread: takes clusters in order, keeps some of them resident, and lets them take turns.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::{Duration, Instant};

use crate::error::LaunchError;
use crate::exec::schedule::unit::{Progress, Unit};
use crate::exec::state::launch::{LaunchState, Shared};
use crate::exec::state::worker::WorkerState;
use crate::options::Completion;
use crate::statistics::Statistics;

/// The number of rounds without progress after which another cluster is admitted.
const PATIENCE: u32 = 4;
/// How long nothing may move before it counts as a deadlock, in rounds and in time.
const DEADLOCK_ROUNDS: u64 = 1 << 12;
const DEADLOCK_TIME: Duration = Duration::from_millis(400);

/// Runs clusters until none are left or the launch has failed.
pub(in crate::exec) fn work(launch: &LaunchState<'_>, shared: &Shared, seed: u64) -> Statistics {
    let mut state = WorkerState::new(launch.program.code.len(), seed, launch.random_choices, launch.weak_memory);
    if let Err(error) = run_units(launch, shared, &mut state) {
        shared.fail(*error);
    }
    shared.working.fetch_sub(1, AcqRel);
    if launch.counting {
        for (count, origin) in state.executed.iter().zip(&launch.program.origins) {
            if *count > 0 {
                let opcode = &launch.program.opcodes[origin.opcode as usize];
                *state.statistics.by_opcode.entry(opcode.clone()).or_default() += count;
            }
        }
    }
    state.statistics
}

fn run_units(launch: &LaunchState<'_>, shared: &Shared, state: &mut WorkerState) -> Result<(), Box<LaunchError>> {
    let mut resident: Vec<Unit> = vec![];
    let mut idle: Vec<Unit> = vec![];
    let mut stall = Stall::default();
    loop {
        // In random mode, more clusters run side by side than necessary. A cluster that runs alone may do all the work
        // that many share, and never meet another.
        let company = launch.completion == Completion::Random && state.random().is_multiple_of(4);
        if resident.is_empty() || company || stall.rounds > 0 && stall.rounds % u64::from(PATIENCE) == 0 {
            admit(launch, shared, state, &mut resident, &mut idle);
        }
        if resident.is_empty() {
            return Ok(());
        }
        let mut moved = false;
        let mut index = 0;
        while index < resident.len() {
            match resident[index].round(launch, state)? {
                Progress::Done => {
                    let unit = resident.remove(index);
                    unit.leave(state);
                    idle.push(unit);
                    moved = true;
                }
                Progress::Moved => {
                    moved = true;
                    index += 1;
                }
                Progress::Stalled => index += 1,
                Progress::Stuck => {
                    let waiting = resident[index].waiters(launch);
                    return Err(Box::new(LaunchError::Deadlock { waiting }));
                }
            }
        }
        if shared.has_failed() {
            return Ok(());
        }
        check_limit(launch, state, &resident)?;
        if moved {
            if stall.rounds > 0 {
                shared.stalled.fetch_sub(u32::from(stall.counted), AcqRel);
            }
            shared.epoch.fetch_add(1, Relaxed);
            stall = Stall::default();
        } else {
            stall.wait(launch, shared, &mut resident)?;
        }
    }
}

/// Takes the next cluster, if there is one and there is room for it.
fn admit(
    launch: &LaunchState<'_>,
    shared: &Shared,
    state: &mut WorkerState,
    resident: &mut Vec<Unit>,
    idle: &mut Vec<Unit>,
) {
    if resident.len() >= launch.resident_units {
        return;
    }
    let number = shared.next.fetch_add(1, Relaxed);
    if number >= launch.clusters {
        return;
    }
    let mut unit = idle.pop().unwrap_or_else(|| Unit::new(launch));
    unit.begin(launch, state, number);
    resident.push(unit);
}

fn check_limit(launch: &LaunchState<'_>, state: &WorkerState, resident: &[Unit]) -> Result<(), Box<LaunchError>> {
    if state.statistics.warp_instructions <= launch.instruction_limit {
        return Ok(());
    }
    let Some(unit) = resident.first() else { return Ok(()) };
    let site = Box::new(unit.site(0, unit.warps[0].pc, launch));
    Err(Box::new(LaunchError::InstructionLimit { site, limit: launch.instruction_limit }))
}

/// A time during which nothing of this worker moves.
#[derive(Default)]
struct Stall {
    rounds: u64,
    /// Whether this worker is counted among the stalled ones.
    counted: bool,
    /// When the stall began, and the count of all workers' progress then.
    since: Option<(Instant, u64)>,
}

impl Stall {
    fn wait(
        &mut self,
        launch: &LaunchState<'_>,
        shared: &Shared,
        resident: &mut [Unit],
    ) -> Result<(), Box<LaunchError>> {
        self.rounds += 1;
        if !self.counted {
            self.counted = true;
            shared.stalled.fetch_add(1, AcqRel);
        }
        let epoch = shared.epoch.load(Acquire);
        let (start, begun) = *self.since.get_or_insert_with(|| (Instant::now(), epoch));
        if epoch != begun {
            // Somebody moves, so what is polled for may come.
            self.since = None;
            std::thread::yield_now();
            return Ok(());
        }
        let nothing_to_admit = resident.len() >= launch.resident_units || shared.next.load(Relaxed) >= launch.clusters;
        let everybody = shared.stalled.load(Acquire) >= shared.working.load(Acquire);
        if self.rounds > DEADLOCK_ROUNDS && nothing_to_admit && everybody && start.elapsed() > DEADLOCK_TIME {
            let waiting = resident.iter_mut().flat_map(|unit| unit.waiters(launch)).collect();
            return Err(Box::new(LaunchError::Deadlock { waiting }));
        }
        if self.rounds > 16 {
            std::thread::yield_now();
        }
        Ok(())
    }
}
