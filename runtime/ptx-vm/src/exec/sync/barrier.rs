//! CTA barriers: `bar`, `barrier` (PTX ISA §9.7.13.1).

use crate::exec::context::{Context, Flow, lanes_of};
use crate::exec::lanes::Operation;
use crate::exec::state::barrier::{Barrier, Reduction};
use crate::exec::state::warp::{BarrierResult, Status, Warp};
use crate::program::Instruction;
use crate::program::flags::BarrierFlags;

/// `bar.{sync,arrive,red}`, `barrier.cta.…`: `a` is the barrier, `b` the thread count.
pub(crate) struct BarrierOperation;

impl Operation for BarrierOperation {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let aligned = !i.has(BarrierFlags::UNALIGNED);
        let living = context.warp.living();
        // With their places.
        let mut elsewhere: Vec<(u32, u32)> = vec![];
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
            // The other lanes may still arrive. Without `.aligned` they may do so at another place.
            if !aligned && i.modifiers::<BarrierFlags>() & BarrierFlags::REDUCTION == BarrierFlags::empty() {
                elsewhere.extend(context.groups_at_same_text());
            }
            if elsewhere.iter().fold(mask, |all, group| all | group.1) != living {
                return Flow::RetryTogether;
            }
        }
        let (id, count) = operands(context, i, mask.trailing_zeros() as usize);
        let differs = |i: &Instruction, lanes| lanes_of(lanes).any(|lane| operands(context, i, lane) != (id, count));
        if differs(i, mask) || elsewhere.iter().any(|&(pc, lanes)| differs(&context.program.code[pc as usize], lanes)) {
            return context.invalid(None, "a barrier's number or count differs between the lanes of a warp");
        }
        if id >= 16 {
            return context.invalid(None, format!("barrier {id}: barriers are numbered 0 to 15"));
        }
        if i.has(BarrierFlags::COUNTED) && (count == 0 || count % 32 != 0) {
            return context
                .invalid(None, format!("a barrier's thread count must be a positive multiple of 32, not {count}"));
        }
        for (pc, lanes) in elsewhere {
            context.warp.release(pc, lanes);
        }
        arrive(context, i, living, id, count)
    }
}

/// The number of a lane's barrier, and the count of its threads; 0 if none is given.
fn operands(context: &Context<'_>, i: &Instruction, lane: usize) -> (u32, u32) {
    (context.get(i.a, lane), if i.has(BarrierFlags::COUNTED) { context.get(i.b, lane) } else { 0 })
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
    let reduction = match i.modifiers::<BarrierFlags>() & BarrierFlags::REDUCTION {
        BarrierFlags::REDUCE_POPC => Some(Reduction::Popc),
        BarrierFlags::REDUCE_AND => Some(Reduction::And),
        BarrierFlags::REDUCE_OR => Some(Reduction::Or),
        _ => None,
    };
    if let Some(kind) = reduction {
        let votes = context.predicate(i.p) ^ if i.has(BarrierFlags::NEGATED) { u32::MAX } else { 0 };
        let barrier = &mut context.cluster.blocks[context.block].barriers[id as usize];
        barrier.votes += (votes & mask).count_ones();
        barrier.voters += mask.count_ones();
        context.warp.barrier_result = Some(BarrierResult { row: i.d, predicate: i.q, kind, mask });
    }
    context.share_views();
    let at = context.at(mask);
    context.observe_barrier_arrival(at, id, count, i.flags);
    if !i.has(BarrierFlags::ARRIVE) {
        context.warp.status = Status::Barrier(id as u8);
    }
    Flow::Pause
}

impl Barrier {
    /// Whether all expected threads have arrived. `living_threads` are those of the block's warps that have not ended.
    pub(in crate::exec) fn is_complete(&self, living_threads: u32) -> bool {
        let expected = if self.expected == 0 { living_threads } else { self.expected };
        self.arrived != 0 && self.arrived >= expected
    }

    /// Writes the result of a reduction to a warp that leaves the barrier.
    pub(in crate::exec) fn deliver(&self, warp: &mut Warp) {
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
