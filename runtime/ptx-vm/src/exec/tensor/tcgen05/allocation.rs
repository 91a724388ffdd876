//! `tcgen05.alloc`, `tcgen05.dealloc` and `tcgen05.relinquish_alloc_permit` (PTX ISA §9.7.16.7).

use crate::exec::context::{Context, Flow};
use crate::exec::lanes::Operation;
use crate::exec::state::poll::{Poll, PollTarget};
use crate::exec::state::warp::Status;
use crate::exec::tensor::ranges;
use crate::numerics::tensor_memory::{LANES, TensorAddress};
use crate::program::Instruction;
use crate::race::{Access, Kind, Order, Scope, Space, shared_address};

/// `tcgen05.alloc [a + imm], b`
pub(crate) struct Allocate;

impl Operation for Allocate {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        allocate(context, i, mask).unwrap_or_else(|flow| flow)
    }
}

fn allocate(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Result<Flow, Flow> {
    context.whole_warp(mask)?;
    let columns = context.uniform(i.b, "the number of columns")?;
    let block = context.block;
    if let Some(message) = context.cluster.blocks[block].tensor.refusal(columns) {
        return Err(context.invalid(None, message));
    }
    let address = context.mbarrier_addresses(i)[0];
    let (place, offset) = context.shared_place(0, address, 4, 4)?;
    if place != block {
        return Err(context.invalid(None, "the address of the allocation goes to the block's own shared memory"));
    }
    let multiprocessor = context.cluster.blocks[block].tensor.multiprocessor;
    let Some(first) = context.worker.multiprocessors.take(multiprocessor, columns) else {
        let target = PollTarget::TensorMemory { columns };
        context.warp.polls.wait_for(Poll { pc: context.pc, lanes: mask, target });
        context.warp.status = Status::Polling;
        return Ok(Flow::RetryLater);
    };
    let state = &mut context.cluster.blocks[block];
    state.tensor.allocate(first, columns);
    let at = offset as usize;
    state.shared.bytes_mut()[at..at + 4].copy_from_slice(&first.to_le_bytes());
    state.shared.mark_written(offset, 4);
    context.worker.writes += 1;
    if context.is_observed() {
        let rank = block as u32;
        let access = Access {
            space: Space::Shared,
            addresses: &[shared_address(rank, offset); 32],
            size: 4,
            element: 4,
            kind: Kind::Write,
            order: Order::Weak,
            scope: Scope::Block,
            rows: None,
            same_value: None,
            unchanged: None,
            non_coherent: false,
            stale: 0,
        };
        let one = context.at(1);
        context.tell(|o| o.access(one, &access));
        manage(context, first, columns);
    }
    Ok(Flow::Next)
}

/// Tells the detector of an allocation or its end.
fn manage(context: &mut Context<'_>, first: u32, columns: u32) {
    let (at, rank) = (context.at(u32::MAX), context.block as u32);
    let cells: Vec<_> = (0..LANES).map(|lane| ranges::of_cells(rank, lane, first, columns)).collect();
    context.tell(|o| o.tensor_managed(at, &cells));
}

/// `tcgen05.dealloc a, b`
pub(crate) struct Free;

impl Operation for Free {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        free(context, i, mask).map_or_else(|flow| flow, |()| Flow::Next)
    }
}

fn free(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Result<(), Flow> {
    context.whole_warp(mask)?;
    let bits = context.uniform(i.a, "the address")?;
    let columns = context.uniform(i.b, "the number of columns")?;
    let at = TensorAddress::of(bits);
    let held = context.cluster.blocks[context.block].tensor.allocations().to_vec();
    if at.lane != 0 || !held.contains(&(at.column, columns)) {
        let held: Vec<_> = held.iter().map(|(first, n)| format!("{n} columns at {first:#x}")).collect();
        let held = if held.is_empty() { "none".to_owned() } else { held.join(", ") };
        let message = format!(
            "{columns} columns of tensor memory at {bits:#x} are freed that no tcgen05.alloc has returned; the block holds {held}"
        );
        return Err(context.invalid(None, message));
    }
    if context.is_observed() {
        manage(context, at.column, columns);
    }
    let tensor = &mut context.cluster.blocks[context.block].tensor;
    tensor.free(at.column, columns);
    let multiprocessor = tensor.multiprocessor;
    context.worker.multiprocessors.give_back(multiprocessor, at.column, columns);
    context.worker.writes += 1;
    Ok(())
}

/// `tcgen05.relinquish_alloc_permit`
pub(crate) struct Relinquish;

impl Operation for Relinquish {
    fn run(context: &mut Context<'_>, _: &Instruction, mask: u32) -> Flow {
        if let Err(flow) = context.whole_warp(mask) {
            return flow;
        }
        context.cluster.blocks[context.block].tensor.relinquish();
        Flow::Next
    }
}
