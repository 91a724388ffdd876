//! `wgmma` (PTX ISA §9.7.15): products of a warpgroup, computed by each warp for its own 16 rows when it issues them.

use super::context::{Context, Flow};
use super::lanes::Operation;
use crate::numerics::descriptor::{Descriptor, Major, Tile};
use crate::numerics::wgmma::{Elements, Wgmma};
use crate::program::Instruction;
use crate::race::shared_address;

/// The modifiers of a `wgmma.mma_async`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WgmmaForm {
    pub(crate) product: Wgmma,
    /// A comes from four registers of the list instead of a descriptor.
    pub(crate) a_in_registers: bool,
    pub(crate) negate_a: bool,
    pub(crate) negate_b: bool,
    pub(crate) a_major: Major,
    pub(crate) b_major: Major,
}

/// `wgmma.mma_async`: the program's form number `imm`; row `a` holds A's descriptor, row `b` B's, predicate `p` scale-d;
/// `list` holds the accumulators and, if A is in registers, A.
pub(crate) struct WarpgroupMultiply;

/// The scale-d predicate is negated.
pub(crate) const NEGATED: u32 = 1;

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
    let product = form.product;
    let registers = product.d_registers();
    let list = &program.rows[i.list as usize..i.list as usize + registers + if form.a_in_registers { 4 } else { 0 }];
    let (d_rows, a_rows) = list.split_at(registers);
    let own_rows = 16 * (context.warp.index as usize % 4);
    let mut reads = vec![];
    let (mut a, first_row) = if form.a_in_registers {
        let a: Vec<_> = a_rows.iter().map(|&row| *context.lanes::<u32>(row)).collect();
        (Elements::from_registers(product.a(), &a), 0)
    } else {
        let tile = tile(context, i.a, product.a(), form.a_major, 64)?;
        for chunk in tile.chunks().filter(|c| form.a_major == Major::Mn || (own_rows..own_rows + 16).contains(&c.index))
        {
            reads.push(chunk.address);
        }
        (elements(context, &tile)?, own_rows)
    };
    let b_tile = tile(context, i.b, product.b(), form.b_major, product.n())?;
    reads.extend(b_tile.chunks().map(|c| c.address));
    let mut b = elements(context, &b_tile)?;
    if form.negate_a {
        a.negate();
    }
    if form.negate_b {
        b.negate();
    }
    observe(context, reads);
    let scale = context.predicate(i.p) ^ if i.flags & NEGATED != 0 { u32::MAX } else { 0 };
    let columns = product.columns(context.launch.arithmetic, &b);
    let mut d: Vec<[u32; 32]> = d_rows.iter().map(|&row| *context.lanes::<u32>(row)).collect();
    columns.multiply(&a, first_row, scale & 1 != 0, &mut d);
    for (values, &row) in d.iter().zip(d_rows) {
        context.put::<u32>(row, values, u32::MAX);
    }
    Ok(())
}

fn tile(
    context: &mut Context<'_>,
    row: u32,
    operand: crate::numerics::mma::Operand,
    major: Major,
    extent: usize,
) -> Result<Tile, Flow> {
    let bits: u64 = context.get(row, 0);
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

fn observe(context: &mut Context<'_>, mut reads: Vec<u32>) {
    if !context.is_observed() {
        return;
    }
    reads.sort_unstable();
    reads.dedup();
    let rank = context.block as u32;
    let mut ranges: Vec<std::ops::Range<u64>> = vec![];
    for address in reads {
        let start = shared_address(rank, address);
        match ranges.last_mut() {
            Some(last) if last.end == start => last.end += 16,
            _ => ranges.push(start..start + 16),
        }
    }
    let at = context.at(u32::MAX);
    context.tell(|o| o.wgmma(at, &ranges));
}

/// `wgmma.fence`, `wgmma.commit_group` and, with `imm` ≥ 0, `wgmma.wait_group imm`.
pub(crate) struct WarpgroupGroup;
/// The instruction is the fence.
pub(crate) const FENCE: u32 = 1;
/// The instruction is the commit.
pub(crate) const COMMIT: u32 = 2;

impl Operation for WarpgroupGroup {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        if mask != context.warp.living() {
            return context.invalid(None, format!("all lanes must execute it together, only {mask:#010x} do"));
        }
        if context.is_observed() {
            let at = context.at(mask);
            context.tell(|o| match i.flags {
                FENCE => {}
                COMMIT => o.wgmma_commit(at),
                _ => o.wgmma_wait(at, i.imm as u32),
            });
        }
        Flow::Next
    }
}
