//! CTA barriers: `bar`, `barrier` (PTX ISA §9.7.13.1).

use super::context::{Context, Flow, lanes_of};
use super::lanes::Operation;
use super::warp::{BarrierResult, Status, Warp};
use crate::program::Instruction;

/// What `bar.red` computes from all threads' predicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    Popc,
    And,
    Or,
}

/// One of a block's 16 barriers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Barrier {
    /// Threads that have arrived, counted in whole warps.
    pub(super) arrived: u32,
    /// Threads that complete it; 0 stands for all of the block that have not ended.
    pub(super) expected: u32,
    /// For `bar.red`: threads whose predicate was true, and threads that took part.
    pub(super) votes: u32,
    pub(super) voters: u32,
}

/// The instruction has a thread count (operand `b`).
pub(crate) const COUNTED: u32 = 1;
/// The instruction doesn't wait.
pub(crate) const ARRIVE: u32 = 2;
/// The instruction may be executed by part of a warp.
pub(crate) const UNALIGNED: u32 = 4;
/// The instruction reduces a predicate: `p`, negated with [`NEGATED`], to row `d` or predicate `q`.
pub(crate) const REDUCE_POPC: u32 = 8;
pub(crate) const REDUCE_AND: u32 = 16;
pub(crate) const REDUCE_OR: u32 = 32;
pub(crate) const NEGATED: u32 = 64;

/// `bar.{sync,arrive,red}`, `barrier.cta.…`: `a` is the barrier, `b` the thread count.
pub(crate) struct BarrierOperation;

impl Operation for BarrierOperation {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let aligned = i.flags & UNALIGNED == 0;
        let living = context.warp.living();
        if mask != living {
            if aligned && mask != context.active {
                let active = context.active;
                return context.invalid(
                    None,
                    format!(
                        "an aligned barrier in divergent code: of lanes {active:#010x} only {mask:#010x} execute it"
                    ),
                );
            }
            // The other lanes may still come.
            return Flow::RetryTogether;
        }
        let lane = mask.trailing_zeros() as usize;
        let id: u32 = context.get(i.a, lane);
        let count = if i.flags & COUNTED != 0 { context.get(i.b, lane) } else { 0u32 };
        if lanes_of(mask)
            .any(|l| context.get::<u32>(i.a, l) != id || i.flags & COUNTED != 0 && context.get::<u32>(i.b, l) != count)
        {
            return context.invalid(None, "a barrier's number or count differs between the lanes of a warp");
        }
        if id >= 16 {
            return context.invalid(None, format!("barrier {id}: barriers are numbered 0 to 15"));
        }
        if i.flags & COUNTED != 0 && (count == 0 || count % 32 != 0) {
            return context
                .invalid(None, format!("a barrier's thread count must be a positive multiple of 32, not {count}"));
        }
        arrive(context, i, mask, id, count)
    }
}

fn arrive(context: &mut Context<'_>, i: &Instruction, mask: u32, id: u32, count: u32) -> Flow {
    let block = &mut context.cluster.blocks[context.block];
    let barrier = &mut block.barriers[id as usize];
    if barrier.arrived != 0 && barrier.expected != count {
        let before = barrier.expected;
        return context.invalid(
            None,
            format!(
                "barrier {id} is used with different thread counts: {before} and {count} (0 stands for all threads)"
            ),
        );
    }
    barrier.expected = count;
    barrier.arrived += 32;
    if count != 0 && barrier.arrived > count {
        return context.invalid(None, format!("more than {count} threads arrive at barrier {id}"));
    }
    let reduction = match i.flags & (REDUCE_POPC | REDUCE_AND | REDUCE_OR) {
        REDUCE_POPC => Some(Reduction::Popc),
        REDUCE_AND => Some(Reduction::And),
        REDUCE_OR => Some(Reduction::Or),
        _ => None,
    };
    if let Some(kind) = reduction {
        let votes = context.predicate(i.p) ^ if i.flags & NEGATED != 0 { u32::MAX } else { 0 };
        let barrier = &mut context.cluster.blocks[context.block].barriers[id as usize];
        barrier.votes += (votes & mask).count_ones();
        barrier.voters += mask.count_ones();
        context.warp.barrier_result = Some(BarrierResult { row: i.d, predicate: i.q, kind, mask });
    }
    let at = context.at(mask);
    context.observe_barrier_arrival(at, id, count, i.flags);
    if i.flags & ARRIVE == 0 {
        context.warp.status = Status::Barrier(id as u8);
    }
    Flow::Pause
}

impl Barrier {
    /// Whether all expected threads have arrived, when the block has this many threads in warps that have not ended.
    pub(super) fn is_complete(&self, living_threads: u32) -> bool {
        let expected = if self.expected == 0 { living_threads } else { self.expected };
        self.arrived != 0 && self.arrived >= expected
    }

    /// Writes a reduction's result to a warp that leaves the barrier.
    pub(super) fn deliver(&self, warp: &mut Warp) {
        let Some(result) = warp.barrier_result.take() else { return };
        let truth = match result.kind {
            Reduction::Popc => {
                for lane in lanes_of(result.mask) {
                    warp.rows.narrow(result.row)[lane] = self.votes;
                }
                return;
            }
            Reduction::And => self.votes == self.voters,
            Reduction::Or => self.votes != 0,
        };
        let to = &mut warp.predicates[result.predicate as usize];
        *to = *to & !result.mask | if truth { result.mask } else { 0 };
    }
}
