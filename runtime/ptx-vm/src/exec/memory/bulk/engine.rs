//! Copies in flight, and their completion.

use crate::exec::context::{Context, Flow};
use crate::exec::memory::atomics::update;
use crate::exec::state::block::Cluster;
use crate::exec::state::bulk::{Pending, Reduces};
use crate::exec::state::launch::LaunchState;
use crate::exec::state::warp::Warp;
use crate::exec::state::worker::WorkerState;
use crate::memory::global::Allocation;
use crate::memory::shared::POISON;
use crate::options::Completion;
use crate::race::shared_address;

impl Pending {
    /// A copy that a lane of the running warp issues, still empty.
    pub(in crate::exec) fn new(context: &Context<'_>, lane: usize) -> Self {
        Self {
            owner: (context.warp.block, context.warp.index, lane),
            pc: context.pc,
            writes: vec![],
            mbarriers: vec![],
            stores: vec![],
            reduces: None,
            group: context.warp.bulk.committed(lane),
        }
    }

    pub(in crate::exec) fn pc(&self) -> u32 {
        self.pc
    }

    /// Older values of what the copy stores to global memory are forgotten.
    pub(in crate::exec) fn forget(&self, worker: &mut WorkerState) {
        if let Some(weak) = &mut worker.weak {
            self.stores.iter().for_each(|&(.., to, length)| weak.forget(to, length.into()));
        }
    }

    /// Index of the issuing warp among the unit's warps.
    pub(in crate::exec) fn warp(&self, warps: &[Warp]) -> usize {
        warps.iter().position(|w| (w.block, w.index) == (self.owner.0, self.owner.1)).unwrap_or(0)
    }
}

/// Completes a copy at once, or poisons its destination and queues it.
pub(in crate::exec) fn start(context: &mut Context<'_>, lane: usize, pending: Pending) -> Result<(), Flow> {
    context.worker.writes += 1;
    for (block, offset, bytes) in &pending.writes {
        context.cluster.blocks[*block].shared.mark_written(*offset, bytes.len() as u32);
    }
    for (.., to, length) in &pending.stores {
        if let Some(allocation) = context.allocation(*to) {
            allocation.mark_written(to - allocation.base, (*length).into());
        }
    }
    if context.launch.completion == Completion::Eager {
        let launch = context.launch;
        pending.forget(context.worker);
        return complete(context.cluster, launch, &pending).map_err(|m| context.invalid(Some(lane), m));
    }
    // A reduction must not poison the bytes with which it combines.
    if pending.reduces.is_none() {
        for (block, offset, bytes) in &pending.writes {
            let at = *offset as usize;
            context.cluster.blocks[*block].shared.bytes_mut()[at..at + bytes.len()].fill(POISON);
        }
    }
    context.cluster.engine.push_back(pending);
    Ok(())
}

/// Completes a copy.
pub(in crate::exec) fn complete(
    cluster: &mut Cluster,
    launch: &LaunchState<'_>,
    pending: &Pending,
) -> Result<(), String> {
    for (block, offset, bytes) in &pending.writes {
        let at = *offset as usize;
        let there = &mut cluster.blocks[*block].shared.bytes_mut()[at..at + bytes.len()];
        match pending.reduces {
            None => there.copy_from_slice(bytes),
            Some(Reduces { function, bytes: size }) => {
                let elements = there.chunks_exact_mut(size as usize).zip(bytes.chunks_exact(size as usize));
                for (old, operand) in elements {
                    let new = function(number(old), number(operand)).to_le_bytes();
                    old.copy_from_slice(&new[..old.len()]);
                }
            }
        }
    }
    for &(block, from, to, length) in &pending.stores {
        let bytes = cluster.blocks[block].shared.bytes_mut()[from as usize..(from + length) as usize].to_vec();
        let index = launch.memory.partition_point(|a| a.base <= to);
        if let Some(allocation) = index.checked_sub(1).and_then(|i| launch.memory.get(i)) {
            match pending.reduces {
                None => allocation.write(to - allocation.base, &bytes),
                Some(reduces) => reduce_global(allocation, to - allocation.base, &bytes, reduces),
            }
        }
    }
    for &(block, offset, bytes) in &pending.mbarriers {
        let address = shared_address(block as u32, offset);
        if let Some(observer) = &mut cluster.observer {
            observer.mbarrier_transaction(address, bytes, pending.pc);
        }
        if cluster.complete_transactions(block, offset, bytes)?
            && let Some(observer) = &mut cluster.observer
        {
            observer.mbarrier_phase(address);
        }
    }
    Ok(())
}

/// Combines bytes of shared memory with those of an allocation, element by element, atomically.
fn reduce_global(allocation: &Allocation, offset: u64, bytes: &[u8], reduces: Reduces) {
    let Reduces { function, bytes: size } = reduces;
    for (n, operand) in bytes.chunks_exact(size as usize).enumerate() {
        let at = offset as usize + n * size as usize;
        let operand = number(operand);
        // SAFETY: when the copy was issued, its pieces were found to be inside the allocation. Their addresses and
        // lengths are multiples of the element's size, and allocations start at a multiple of every element size.
        unsafe { update(allocation.data().add(at), size, |old| function(old, operand)) };
    }
}

/// A number of up to eight bytes, little-endian.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}
