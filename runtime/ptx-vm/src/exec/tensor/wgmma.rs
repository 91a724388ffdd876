//! `wgmma` (PTX ISA §9.7.15): products of a warpgroup. Each warp computes its own 16 rows, when it issues the product
//! or when it waits for it.

use crate::program::flags::WgmmaFlags;
use crate::program::forms::WgmmaForm;
use std::rc::Rc;

use crate::exec::context::{Context, Flow};
use crate::exec::lanes::Operation;
use crate::exec::state::poll::{Poll, PollTarget};
use crate::exec::state::products::Issued;
use crate::exec::state::warp::Status;
use crate::exec::tensor::ranges;
use crate::numerics::descriptor::{Descriptor, Major, Tile};
use crate::numerics::wgmma::{Columns, Elements};
use crate::options::Completion;
use crate::program::{Instruction, Row};

/// `wgmma.mma_async`. `imm` is its number among the program's forms. Row `a` holds A's descriptor, row `b` B's,
/// predicate `p` is scale-d. `list` holds the accumulators and, if A is in registers, A.
pub(crate) struct WarpgroupMultiply;

impl Operation for WarpgroupMultiply {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        if mask != u32::MAX {
            return context.invalid(None, format!("all 32 lanes must execute it together, only {mask:#010x} do"));
        }
        match multiply(context, i) {
            Ok(()) => Flow::Next,
            Err(flow) => flow,
        }
    }
}

fn multiply(context: &mut Context<'_>, i: &Instruction) -> Result<(), Flow> {
    let program = context.program;
    let form = &program.warpgroup_products[i.imm as usize];
    let registers = form.product.d_registers();
    let list = &program.rows[i.list as usize..];
    let a_rows = if form.a_in_registers { &list[registers..registers + 4] } else { &[] };
    let scale = context.predicate(i.p) ^ if i.has(WgmmaFlags::NEGATED) { u32::MAX } else { 0 };
    let issued = Issued {
        form: i.imm as usize,
        list: i.list,
        a_bits: context.get(i.a, 0),
        b_bits: context.get(i.b, 0),
        a_registers: a_rows.iter().map(|&row| *context.lanes::<u32>(row)).collect(),
        scale_d: scale & 1 != 0,
        group: context.warp.products.committed,
    };
    let d_rows = &list[..registers];
    observe_reads(context, form, &issued)?;
    if context.is_observed() {
        let at = context.at(u32::MAX);
        context.tell(|o| o.wgmma_executed(at));
        observe_registers(context, if issued.scale_d { d_rows } else { &[] }, a_rows);
        observe_issue(context, &issued, d_rows, a_rows);
    }
    if context.launch.completion == Completion::Eager {
        let mut d: Vec<[u32; 32]> = d_rows.iter().map(|&row| *context.lanes::<u32>(row)).collect();
        perform(context, &issued, &mut d)?;
        for (values, &row) in d.iter().zip(d_rows) {
            context.put::<u32>(row, values, u32::MAX);
        }
        leave_registers(context, d_rows);
        return Ok(());
    }
    if !context.warp.products.accumulators.iter().any(|a| a.0 == d_rows) {
        let values = d_rows.iter().map(|&row| *context.lanes::<u32>(row)).collect();
        context.warp.products.accumulators.push((d_rows.to_vec(), values));
    }
    for &row in d_rows {
        context.put::<u32>(row, &[u32::MAX; 32], u32::MAX);
    }
    leave_registers(context, d_rows);
    context.warp.products.issued.push_back(issued);
    Ok(())
}

/// Tells the detector if the product uses registers of others in flight, and records its own.
fn observe_issue(context: &mut Context<'_>, issued: &Issued, d_rows: &[Row], a_rows: &[Row]) {
    if !context.launch.wgmma_registers {
        return;
    }
    let (group, pc) = (issued.group, context.pc);
    let wrong = context.warp.products.in_flight.issue(group, pc, d_rows, a_rows, issued.scale_d);
    if let Some((product, writes)) = wrong {
        let at = context.at(u32::MAX);
        context.tell(|o| o.wgmma_register(at, product, writes));
    }
}

/// Completes the oldest product of the warp.
fn complete_oldest(context: &mut Context<'_>) -> Result<(), Flow> {
    let Some(issued) = context.warp.products.issued.pop_front() else { return Ok(()) };
    let program = context.program;
    let rows = |issued: &Issued| {
        let registers = program.warpgroup_products[issued.form].product.d_registers();
        &program.rows[issued.list as usize..issued.list as usize + registers]
    };
    let d_rows = rows(&issued);
    let Some(index) = context.warp.products.accumulators.iter().position(|a| a.0 == d_rows) else { return Ok(()) };
    let mut values = std::mem::take(&mut context.warp.products.accumulators[index].1);
    perform(context, &issued, &mut values)?;
    if context.warp.products.issued.iter().any(|other| rows(other) == d_rows) {
        context.warp.products.accumulators[index].1 = values;
        return Ok(());
    }
    context.warp.products.accumulators.swap_remove(index);
    for (values, &row) in values.iter().zip(d_rows) {
        context.put::<u32>(row, values, u32::MAX);
        if context.is_observed() {
            context.warp.products.fenced.complete(row, values);
        }
    }
    Ok(())
}

/// Computes `d` from the current content of shared memory.
fn perform(context: &mut Context<'_>, issued: &Issued, d: &mut [[u32; 32]]) -> Result<(), Flow> {
    let program = context.program;
    let form = &program.warpgroup_products[issued.form];
    let own_rows = 16 * (context.warp.index % 4);
    let mut a = if form.a_in_registers {
        Elements::from_registers(form.product.a(), &issued.a_registers)
    } else {
        let tile = own_tile(context, issued.a_bits, form, own_rows)?;
        elements(context, &tile)?
    };
    // MN-major tiles can't be divided by rows, so all of A is read.
    let first_row = if form.a_in_registers || form.a_major == Major::K { 0 } else { own_rows as usize };
    if form.negate_a {
        a.negate();
    }
    let columns = columns(context, issued.b_bits, form)?;
    columns.multiply(&a, first_row, issued.scale_d, d);
    Ok(())
}

/// Tells the detector what the product reads.
fn observe_reads(context: &mut Context<'_>, form: &WgmmaForm, issued: &Issued) -> Result<(), Flow> {
    if !context.is_observed() {
        return Ok(());
    }
    let mut reads = vec![];
    if !form.a_in_registers {
        let own_rows = 16 * (context.warp.index % 4);
        reads.extend(own_tile(context, issued.a_bits, form, own_rows)?.chunks().map(|c| c.address));
    }
    let right = tile(context, issued.b_bits, form.product.b(), form.b_major, form.product.n())?;
    reads.extend(right.chunks().map(|c| c.address));
    observe(context, reads);
    Ok(())
}

/// Tells the detector if no fence orders the product after writes of its registers (accumulators and A).
fn observe_registers(context: &mut Context<'_>, d_rows: &[Row], a_rows: &[Row]) {
    let allowed = |&row: &Row| context.warp.products.fenced.allow(row, context.lanes::<u32>(row));
    let products = &context.warp.products;
    if !products.fenced.is_fenced() || !d_rows.iter().chain(a_rows).all(allowed) || products.in_flight.wrote(a_rows) {
        let at = context.at(u32::MAX);
        context.tell(|o| o.wgmma_unfenced(at));
    }
    leave_registers(context, a_rows);
}

/// Records the values of registers after a product was issued.
fn leave_registers(context: &mut Context<'_>, rows: &[Row]) {
    if context.is_observed() {
        for &row in rows {
            let values = *context.lanes::<u32>(row);
            context.warp.products.fenced.leave(row, &values);
        }
    }
}

/// B, prepared for multiplication.
fn columns(context: &mut Context<'_>, bits: u64, form: &WgmmaForm) -> Result<Rc<Columns>, Flow> {
    let key = (context.block, bits, form.product, form.b_major == Major::Mn, form.negate_b);
    let writes = context.worker.writes;
    let known = &mut context.cluster.products;
    if known.writes != writes {
        known.ready.clear();
        known.writes = writes;
    }
    let found = known.ready.iter().find(|r| r.0 == key).map(|r| Rc::clone(&r.1));
    let tile = tile(context, bits, form.product.b(), form.b_major, form.product.n())?;
    if let Some(found) = found {
        return Ok(found);
    }
    let mut b = elements(context, &tile)?;
    if form.negate_b {
        b.negate();
    }
    let columns = Rc::new(form.product.columns(context.launch.arithmetic, &b));
    context.cluster.products.ready.push((key, Rc::clone(&columns)));
    Ok(columns)
}

/// The part of A that a warp needs: its own 16 rows, if the tile can be divided by rows.
fn own_tile(context: &mut Context<'_>, bits: u64, form: &WgmmaForm, own_rows: u32) -> Result<Tile, Flow> {
    if form.a_major == Major::Mn {
        return tile(context, bits, form.product.a(), Major::Mn, 64);
    }
    Descriptor::decode(bits)
        .map(|d| Descriptor { address: d.address + own_rows / 8 * d.stride, ..d })
        .and_then(|d| Tile::new(d, form.product.a(), Major::K, 16))
        .map_err(|e| context.invalid(None, e.to_string()))
}

fn tile(
    context: &mut Context<'_>,
    bits: u64,
    operand: crate::numerics::mma::Operand,
    major: Major,
    extent: usize,
) -> Result<Tile, Flow> {
    Descriptor::decode(bits)
        .and_then(|d| Tile::new(d, operand, major, extent))
        .map_err(|e| context.invalid(None, e.to_string()))
}

fn elements(context: &mut Context<'_>, tile: &Tile) -> Result<Elements, Flow> {
    let checked = context.checked;
    let shared = &mut context.cluster.blocks[context.block].shared;
    let size = shared.size();
    let read = |address: u32| -> Result<[u8; 16], u32> {
        if size < 16 || address > size - 16 || checked && !shared.is_written(address, 16) {
            return Err(address);
        }
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&shared.bytes_mut()[address as usize..address as usize + 16]);
        Ok(bytes)
    };
    Elements::from_shared(tile, read).map_err(|address| {
        if size < 16 || address > size - 16 {
            context.out_of_bounds(0, crate::error::MemorySpace::Shared, address.into(), 16)
        } else {
            context.shared_uninitialised(0, address, 16)
        }
    })
}

fn observe(context: &mut Context<'_>, reads: Vec<u32>) {
    if !context.is_observed() {
        return;
    }
    let ranges = ranges::of_chunks(context.block as u32, reads);
    let at = context.at(u32::MAX);
    context.tell(|o| o.wgmma(at, &ranges));
}

/// `wgmma.fence`, `wgmma.commit_group` and, with `imm` ≥ 0, `wgmma.wait_group imm`.
pub(crate) struct WarpgroupGroup;

impl Operation for WarpgroupGroup {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        if mask != context.warp.living() {
            return context.invalid(None, format!("all lanes must execute it together, only {mask:#010x} do"));
        }
        let waits = !i.has(WgmmaFlags::FENCE) && !i.has(WgmmaFlags::COMMIT);
        if waits && !context.warpgroup_has_issued(i.imm as u32) {
            context.warp.polls.wait_for(Poll { pc: context.pc, lanes: mask, target: PollTarget::Warpgroup });
            context.warp.status = Status::Polling;
            return Flow::RetryLater;
        }
        if waits {
            let waited = context.warp.products.committed.saturating_sub(i.imm as u32);
            context.warp.products.in_flight.wait(waited);
        }
        if i.has(WgmmaFlags::FENCE) {
            context.warp.products.fenced.fence();
            context.warp.products.in_flight.fence();
        }
        if context.is_observed() {
            let at = context.at(mask);
            context.tell(|o| o.wgmma_executed(at));
            context.tell(|o| match i.modifiers::<WgmmaFlags>() {
                WgmmaFlags::FENCE => {}
                WgmmaFlags::COMMIT => o.wgmma_commit(at),
                _ => o.wgmma_wait(at, i.imm as u32),
            });
        }
        let done = match i.modifiers::<WgmmaFlags>() {
            WgmmaFlags::FENCE => 0,
            WgmmaFlags::COMMIT => {
                context.warp.products.committed += 1;
                let (warp, committed) = (context.warp.index as usize, context.warp.products.committed);
                if let Some(entry) = context.cluster.blocks[context.block].committed_products.get_mut(warp) {
                    *entry = committed;
                }
                let random = context.launch.completion == Completion::Random;
                if random { (context.worker.random() % 3) as u32 } else { 0 }
            }
            _ => u32::MAX,
        };
        match complete_products(context, i, done) {
            Ok(()) => Flow::Next,
            Err(flow) => flow,
        }
    }
}

impl Context<'_> {
    /// Before an instruction, while products are in flight: tells the detector if it uses their registers.
    #[cold]
    #[inline(never)]
    pub(in crate::exec) fn follow_products(&mut self, mask: u32) {
        let (program, pc) = (self.program, self.pc);
        let opcode = &program.opcodes[program.origins[pc as usize].opcode as usize];
        // Products are checked when they are issued. Waits keep the accumulators alive without reading them.
        if opcode.starts_with("wgmma") {
            return;
        }
        let effect = program.dataflow.of(pc);
        let found = self.warp.products.in_flight.touch(effect.uses, effect.defs, opcode.starts_with("mov."));
        if let Some((product, writes)) = found {
            let at = self.at(mask);
            self.tell(|o| o.wgmma_register(at, product, writes));
        }
    }

    /// Whether all warps of the warpgroup have issued the products for which a wait with this many pending groups
    /// waits. A product belongs to the whole warpgroup: it isn't complete for one warp before all have issued it. So
    /// one thread may tell the producer for all of them that their operands have been read.
    fn warpgroup_has_issued(&self, pending: u32) -> bool {
        let needed = self.warp.products.committed.saturating_sub(pending);
        let first = self.warp.index as usize / 4 * 4;
        let committed = &self.cluster.blocks[self.block].committed_products;
        committed.iter().skip(first).take(4).all(|&groups| groups >= needed)
    }
}

/// Completes up to `most` products. A wait completes the products of the groups for which it waits.
fn complete_products(context: &mut Context<'_>, i: &Instruction, most: u32) -> Result<(), Flow> {
    let committed = context.warp.products.committed;
    let waited = if most == u32::MAX { committed.saturating_sub(i.imm as u32) } else { committed };
    for _ in 0..most {
        if context.warp.products.issued.front().is_none_or(|p| p.group >= waited) {
            break;
        }
        complete_oldest(context)?;
    }
    Ok(())
}
