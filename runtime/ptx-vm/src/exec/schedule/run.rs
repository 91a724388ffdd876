//! The inner loop: runs a warp until it must stop.

use crate::exec::context::{Context, Flow};
use crate::exec::state::warp::{Status, Warp};
use crate::exec::state::worker::WorkerState;
use crate::options::Completion;
use crate::program::{Handler, Instruction};

/// The number of instructions that a warp may execute before others get a turn.
const SLICE: u32 = 1 << 16;
/// The number of instructions that diverged lanes may execute before starved lanes of the warp get a turn.
const DIVERGED_SLICE: u32 = 1 << 12;

/// The reason why a warp stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum Stop {
    /// It waits, has ended, or has used up its slice; its status tells which.
    Turn,
    /// The launch failed.
    Fault,
}

/// The length of a turn.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) struct Slice {
    /// Number of instructions.
    instructions: u32,
    /// Whether lanes that fell behind go first in the next turn, because they may be starved. At the end of a short
    /// turn they are not; running without them would separate lanes that the program brings together.
    rotates: bool,
}

impl Slice {
    /// In random mode turns are sometimes short, so that blocks and warps meet in many orders. But a warp that polls
    /// can always poll again, since otherwise nobody could tell that it waits.
    pub(in crate::exec) fn of(warp: &Warp, completion: Completion, polled: bool, worker: &mut WorkerState) -> Self {
        if !warp.is_converged() {
            Self { instructions: DIVERGED_SLICE, rotates: true }
        } else if completion == Completion::Random && !polled {
            Self { instructions: 1 << (worker.random() % u64::from(SLICE.ilog2())), rotates: false }
        } else {
            Self { instructions: SLICE, rotates: true }
        }
    }
}

/// Runs the context's warp for one turn.
pub(in crate::exec) fn run(context: &mut Context<'_>, slice: Slice) -> Stop {
    let mut budget = slice.instructions;
    let code = context.program.code.as_slice();
    let start = budget;
    let stop = loop {
        if context.warp.pc >= context.warp.next_pc && !context.warp.regroup() {
            break meet(context);
        }
        if budget == 0 {
            if slice.rotates && !context.warp.is_converged() {
                context.warp.rotate();
            }
            break Stop::Turn;
        }
        budget -= 1;
        let pc = context.warp.pc;
        let Some(instruction) = code.get(pc as usize) else {
            // The decoder ends every kernel with `exit`.
            context.warp.status = Status::Done;
            break Stop::Turn;
        };
        let active = context.warp.mask;
        let guard = context.predicate(instruction.guard) ^ if instruction.negated { u32::MAX } else { 0 };
        let mask = active & guard;
        context.warp.pc = pc + 1;
        if mask == 0 && context.undefined_guard(instruction, active) == 0 {
            continue;
        }
        context.pc = pc;
        context.active = active;
        if context.counting {
            context.worker.executed[pc as usize] += 1;
        }
        if !context.warp.undefined.is_empty() {
            if context.follow_undefined(instruction, mask).is_err() {
                break Stop::Fault;
            }
            if mask == 0 {
                continue;
            }
        }
        if !context.warp.products.in_flight.is_empty() {
            context.follow_products(mask);
        }
        let handler: Handler = instruction.run;
        // SAFETY: only this function uses the context. The instruction belongs to its program, whose handlers were
        // chosen for this host.
        let flow = unsafe { handler(context.running(), instruction, mask) };
        if flow == Flow::Next {
            continue;
        }
        if let Some(stop) = steer(context, instruction, flow, pc, active, mask) {
            break stop;
        }
    };
    context.worker.statistics.warp_instructions += u64::from(start - budget);
    stop
}

/// Does what an instruction requests besides going on to the next. `Some` stops the warp.
fn steer(
    context: &mut Context<'_>,
    instruction: &Instruction,
    flow: Flow,
    pc: u32,
    active: u32,
    mask: u32,
) -> Option<Stop> {
    let warp = &mut *context.warp;
    match flow {
        Flow::Next => None,
        Flow::Branch => {
            let target = instruction.imm as u32;
            if mask == active {
                warp.pc = target;
            } else {
                warp.mask = active & !mask;
                warp.set_aside(target, mask, false);
                warp.update_next();
            }
            None
        }
        Flow::BranchEach => {
            warp.mask = active & !mask;
            for lane in crate::exec::context::lanes_of(mask) {
                warp.set_aside(context.lane_targets[lane], 1 << lane, false);
            }
            warp.update_next();
            next_group(context)
        }
        Flow::Exit => exit(context, mask, active),
        Flow::Pause => {
            // The value that lanes poll for may have to come from other lanes of the warp.
            if warp.status == Status::Polling && !warp.is_converged() {
                warp.rotate();
            }
            Some(Stop::Turn)
        }
        Flow::RetryLater => {
            warp.pc = pc;
            Some(Stop::Turn)
        }
        Flow::RetryTogether => {
            warp.mask = active & !mask;
            let joins = warp.groups.iter().any(|g| g.pc == pc && g.waits);
            warp.set_aside(pc, mask, true);
            if joins {
                // More lanes are here now: try again with all of them.
                for group in warp.groups.iter_mut().filter(|g| g.pc == pc) {
                    group.waits = false;
                }
            }
            warp.update_next();
            next_group(context)
        }
        Flow::Fault => Some(Stop::Fault),
    }
}

/// If no lane runs, lets a group run.
fn next_group(context: &mut Context<'_>) -> Option<Stop> {
    if context.warp.mask != 0 || context.warp.choose() {
        return None;
    }
    Some(meet(context))
}

fn exit(context: &mut Context<'_>, mask: u32, active: u32) -> Option<Stop> {
    if context.is_observed() {
        let at = context.at(mask);
        context.tell(|o| o.exit(at));
    }
    let warp = &mut *context.warp;
    warp.exited |= mask;
    warp.mask = active & !mask;
    if warp.living() == 0 {
        warp.status = Status::Done;
        return Some(Stop::Turn);
    }
    // Lanes that wait for each other no longer wait for these.
    warp.wake();
    next_group(context)
}

/// All groups of the warp wait for lanes that can't come: none is left that runs.
fn meet(context: &mut Context<'_>) -> Stop {
    let origins = &context.program.origins;
    let groups = &context.warp.groups;
    let places: Vec<_> =
        groups.iter().map(|g| format!("lanes {:#010x} at PTX line {}", g.mask, origins[g.pc as usize].line)).collect();
    if let Some(group) = groups.first() {
        context.pc = group.pc;
    }
    let message = format!(
        "lanes of the warp wait for lanes that never come: {} (an instruction of a whole warp must be executed by all its \
         lanes at one place; one with a member mask by all lanes that the mask names, with the same qualifiers and mask)",
        places.join(", ")
    );
    context.invalid(None, message);
    Stop::Fault
}
