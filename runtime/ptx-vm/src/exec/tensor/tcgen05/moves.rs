//! `tcgen05.ld`, `tcgen05.st`, `tcgen05.wait` and `tcgen05.fence` (PTX ISA §9.7.16.8, §9.7.16.11).

use crate::exec::context::{Context, Flow, lanes_of};
use crate::exec::lanes::Operation;
use crate::exec::state::undefined::ReadFrom;
use crate::exec::tensor::ranges;
use crate::numerics::tensor_memory::TensorAddress;
use crate::program::Instruction;
use crate::program::flags::TensorFlags;
use crate::program::forms::MoveForm;

/// `tcgen05.ld`. `imm` is its number among the program's moves, row `a` the address; `list` holds the registers.
pub(crate) struct Load;

impl Operation for Load {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        load(context, i, mask).map_or_else(|flow| flow, |()| Flow::Next)
    }
}

/// `tcgen05.st`, likewise.
pub(crate) struct Store;

impl Operation for Store {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        store(context, i, mask).map_or_else(|flow| flow, |()| Flow::Next)
    }
}

/// The first cell, after the checks: the warp's own lanes, and allocated columns.
fn place(context: &mut Context<'_>, i: &Instruction, form: &MoveForm, mask: u32) -> Result<TensorAddress, Flow> {
    context.whole_warp(mask)?;
    let bits = context.uniform(i.a, "the address")?.wrapping_add_signed(form.offset);
    let at = TensorAddress::of(bits);
    let own = 32 * (context.warp.index % 4);
    let whole = form.shape.lanes() == 32;
    if at.lane != own && (whole || at.lane != own + 16) {
        let allowed = if whole { format!("{own}") } else { format!("{own} or {}", own + 16) };
        let message = format!(
            "warp {} accesses tensor memory from lane {} on ({bits:#010x}); it may access lanes {own} to {}, by this shape from lane {allowed} on (PTX ISA 9.7.16.8.1)",
            context.warp.index,
            at.lane,
            own + 31
        );
        return Err(context.invalid(None, message));
    }
    for (first, columns) in form.shape.columns(form.count) {
        let first = at.column + first;
        context.allocated(first..first + columns, "the operand")?;
    }
    Ok(at)
}

fn observe(context: &mut Context<'_>, form: &MoveForm, at: TensorAddress, stores: bool) {
    if context.is_observed() {
        let rank = context.block as u32;
        let mut cells = vec![];
        for lane in at.lane..at.lane + form.shape.lanes() {
            let parts = form.shape.columns(form.count);
            cells.extend(parts.map(|(first, n)| ranges::of_cells(rank, lane, at.column + first, n)));
        }
        let whole = context.at(u32::MAX);
        context.tell(|o| o.tensor_moved(whole, &cells, stores));
    }
}

fn load(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Result<(), Flow> {
    let program = context.program;
    let form = &program.tensor_moves[i.imm as usize];
    let at = place(context, i, form, mask)?;
    observe(context, form, at, false);
    let mut first: Option<(usize, TensorAddress)> = None;
    let registers = form.shape.registers(form.count);
    let mut unwritten = vec![0; registers as usize];
    for register in 0..registers {
        let tensor = &context.cluster.blocks[context.block].tensor;
        let mut values = [0; 32];
        for (lane, value) in values.iter_mut().enumerate() {
            let cell = form.shape.cell(lane as u32, register);
            let cell = TensorAddress { lane: at.lane + cell.lane, column: at.column + cell.column };
            let (bits, defined) = tensor.load(cell.lane, cell.column);
            *value = bits;
            if !defined {
                unwritten[register as usize] |= 1u32 << lane;
                first = first.or(Some((lane, cell)));
            }
        }
        context.put::<u32>(program.rows[i.list as usize + register as usize], &values, u32::MAX);
    }
    if let (true, Some((lane, TensorAddress { lane: row, column }))) = (context.checked, first) {
        for (register, &lanes) in unwritten.iter().enumerate() {
            let row_of = program.rows[i.list as usize + register];
            context.note_undefined_row(row_of, lanes, lane, ReadFrom::Tensor { lane: row, column });
        }
    }
    Ok(())
}

fn store(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Result<(), Flow> {
    let program = context.program;
    let form = &program.tensor_moves[i.imm as usize];
    let at = place(context, i, form, mask)?;
    observe(context, form, at, true);
    for register in 0..form.shape.registers(form.count) {
        let row = program.rows[i.list as usize + register as usize];
        let values = *context.lanes::<u32>(row);
        let undefined = if context.checked { context.warp.undefined.get(row).0 } else { 0 };
        let tensor = &mut context.cluster.blocks[context.block].tensor;
        for lane in lanes_of(u32::MAX) {
            let cell = form.shape.cell(lane as u32, register);
            let defined = undefined >> lane & 1 == 0;
            tensor.store(at.lane + cell.lane, at.column + cell.column, values[lane], defined);
        }
    }
    Ok(())
}

/// `tcgen05.wait::ld` and, with [`TensorFlags::STORES`], `tcgen05.wait::st`.
pub(crate) struct Wait;

impl Operation for Wait {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        if let Err(flow) = context.whole_warp(mask) {
            return flow;
        }
        let (at, stores) = (context.at(mask), i.has(TensorFlags::STORES));
        context.tell(|o| o.tensor_waited(at, stores));
        Flow::Next
    }
}

/// `tcgen05.fence::before_thread_sync` and, with [`TensorFlags::AFTER`], `tcgen05.fence::after_thread_sync`.
pub(crate) struct Fence;

impl Operation for Fence {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let (at, after) = (context.at(mask), i.has(TensorFlags::AFTER));
        context.tell(|o| o.tensor_fence(at, after));
        Flow::Next
    }
}
