//! Bulk groups: `cp.async.bulk.commit_group` and `wait_group` (PTX ISA §9.7.9.25.5).

use super::engine::complete;
use crate::exec::context::{Context, Flow, lanes_of};
use crate::exec::lanes::Operation;
use crate::program::Instruction;
use crate::program::flags::BulkGroupFlags;

/// `cp.async.bulk.commit_group`.
pub(crate) struct BulkCommit;

impl Operation for BulkCommit {
    fn run(context: &mut Context<'_>, _: &Instruction, mask: u32) -> Flow {
        for lane in lanes_of(mask) {
            context.warp.bulk.committed[lane] += 1;
        }
        if context.is_observed() {
            let at = context.at(mask);
            context.tell(|o| o.bulk_commit(at));
        }
        Flow::Next
    }
}

/// `cp.async.bulk.wait_group imm`.
pub(crate) struct BulkWait;

impl Operation for BulkWait {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        for lane in lanes_of(mask) {
            let owner = (context.warp.block, context.warp.index, lane);
            let done = context.warp.bulk.committed[lane].saturating_sub(i.imm as u32);
            let (ready, rest): (Vec<_>, Vec<_>) = context
                .cluster
                .engine
                .drain(..)
                .partition(|p| p.owner == owner && p.group < done && p.mbarriers.is_empty());
            context.cluster.engine.extend(rest);
            for pending in ready {
                let launch = context.launch;
                if let Err(message) = complete(context.cluster, launch, &pending) {
                    return context.invalid(Some(lane), message);
                }
            }
        }
        if context.is_observed() {
            let at = context.at(mask);
            context.tell(|o| o.bulk_wait(at, i.imm as u32, i.has(BulkGroupFlags::READ_ONLY)));
        }
        Flow::Next
    }
}
