//! Cluster barriers and addresses of other blocks' shared memory (PTX ISA §9.7.9.22, §9.7.13.4).

use crate::exec::context::{Context, Flow, lanes_of};
use crate::exec::lanes::Operation;
use crate::exec::state::warp::Status;
use crate::memory::window;
use crate::program::Instruction;
use crate::program::flags::ClusterFlags;
use crate::race::MbarrierOrder;

/// `barrier.cluster.arrive`.
pub(crate) struct ClusterArrive;

impl Operation for ClusterArrive {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        if mask != context.warp.living() {
            return Flow::RetryTogether;
        }
        if context.is_observed() {
            let at = context.at(mask);
            let order = if i.has(ClusterFlags::RELAXED) { MbarrierOrder::Relaxed } else { MbarrierOrder::Synchronises };
            context.tell(|o| o.cluster_arrive(at, order, true));
        }
        if context.warp.cluster_phase.is_some() {
            return context.invalid(None, "a second barrier.cluster.arrive without a wait in between");
        }
        context.share_views();
        context.warp.cluster_phase = Some(context.cluster.barrier.phase);
        context.cluster.barrier.arrived += 1;
        Flow::Pause
    }
}

/// `barrier.cluster.wait`.
pub(crate) struct ClusterWait;

impl Operation for ClusterWait {
    fn run(context: &mut Context<'_>, _: &Instruction, mask: u32) -> Flow {
        if mask != context.warp.living() {
            return Flow::RetryTogether;
        }
        let Some(phase) = context.warp.cluster_phase else {
            return context.invalid(None, "barrier.cluster.wait without an arrive before it");
        };
        if context.cluster.barrier.phase == phase {
            context.warp.status = Status::ClusterBarrier;
            return Flow::RetryLater;
        }
        context.warp.cluster_phase = None;
        context.learn_views();
        if context.is_observed() {
            let at = context.at(mask);
            context.tell(|o| o.cluster_wait(at));
        }
        Flow::Next
    }
}

/// `mapa d, a, b`: address `a` in the block of rank `b`. With [`ClusterFlags::WIDE`] it is generic and 64 bits wide.
pub(crate) struct MapAddress;

impl Operation for MapAddress {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let base = if i.has(ClusterFlags::GENERIC) { window::SHARED } else { 0 };
        for lane in lanes_of(mask) {
            let rank: u32 = context.get(i.b, lane);
            if rank as usize >= context.cluster.blocks.len() {
                let size = context.cluster.blocks.len();
                return context.invalid(Some(lane), format!("rank {rank} in a cluster of {size} blocks"));
            }
            let offset_mask = (1u64 << window::CLUSTER_SHIFT) - 1;
            let map = |address: u64| base + (u64::from(rank + 1) << window::CLUSTER_SHIFT | address & offset_mask);
            if i.has(ClusterFlags::WIDE) {
                let address: u64 = context.get(i.a, lane);
                context.lanes_mut::<u64>(i.d)[lane] = map(address - base.min(address));
            } else {
                let address: u32 = context.get(i.a, lane);
                context.lanes_mut::<u32>(i.d)[lane] = map(address.into()) as u32;
            }
        }
        Flow::Next
    }
}

/// `getctarank d, a`: the rank of the block to which an address belongs. `a` is 64 bits wide with
/// [`ClusterFlags::WIDE`].
pub(crate) struct RankOf;

impl Operation for RankOf {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        for lane in lanes_of(mask) {
            let address = if i.has(ClusterFlags::WIDE) {
                context.get::<u64>(i.a, lane)
            } else {
                context.get::<u32>(i.a, lane).into()
            };
            let rank = (address as u32) >> window::CLUSTER_SHIFT;
            context.lanes_mut::<u32>(i.d)[lane] = rank.checked_sub(1).unwrap_or(context.block as u32);
        }
        Flow::Next
    }
}
