//! `tcgen05.mma`, `tcgen05.cp` and `tcgen05.commit`: what they check when they are issued (PTX ISA §9.7.16.9,
//! §9.7.16.10, §9.7.16.12).

use crate::exec::context::{Context, Flow, lanes_of};
use crate::exec::lanes::Operation;
use crate::exec::state::tensor_memory::{Cells, Issued, Source, Work};
use crate::exec::tensor::ranges;
use crate::numerics::descriptor::{Descriptor, Major, Tile};
use crate::numerics::mma::Operand;
use crate::numerics::tcgen05::Product;
use crate::numerics::tensor_descriptor;
use crate::numerics::tensor_memory::{COLUMNS, TensorAddress};
use crate::options::Completion;
use crate::program::Instruction;
use crate::program::flags::{TensorFlags, WgmmaFlags};
use crate::race::{TensorProduct, shared_address};

use super::pipe::perform;

/// The columns of an operand A in tensor memory: 32 bytes of each row.
const A_COLUMNS: u32 = 8;

/// `tcgen05.mma`. `imm` is its number among the program's forms; row `d` holds D's address, row `a` A's descriptor or
/// address, row `b` B's descriptor. Row `c` holds the instruction descriptor, and predicate `p` is enable-input-d.
pub(crate) struct Multiply;

impl Operation for Multiply {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        multiply(context, i, mask).map_or_else(|flow| flow, |()| Flow::Next)
    }
}

fn multiply(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Result<(), Flow> {
    let lane = context.one_lane(mask)?;
    let program = context.program;
    let form = &program.tensor_products[i.imm as usize];
    let bits = context.get::<u32>(i.c, lane);
    let product = Product::decode(form.kind, bits).map_err(|e| context.invalid(Some(lane), e.to_string()))?;
    let enabled = context.predicate(i.p) ^ if i.has(WgmmaFlags::NEGATED) { u32::MAX } else { 0 };
    let accumulate = enabled >> lane & 1 != 0;
    let (rows, n) = (product.m(), product.n() as u32);
    let d = context.get::<u32>(i.d, lane).wrapping_add_signed(form.d_offset);
    let d = context.operand_place(d, rows, n, "the accumulator D")?;
    let b = operand(context, lane, context.get(i.b, lane), (product.b(), product.b_major(), product.n()))?;
    let mut chunks: Vec<u32> = b.chunks().map(|chunk| chunk.address).collect();
    let a = if let Some(offset) = form.a_offset {
        if product.a_major() == Major::Mn {
            let message = "A in tensor memory is K-major: clear bit 15 of the instruction descriptor";
            return Err(context.invalid(Some(lane), message));
        }
        let a = context.get::<u32>(i.a, lane).wrapping_add_signed(offset);
        let a = context.operand_place(a, rows, A_COLUMNS, "the operand A")?;
        if a.lane != d.lane {
            let message = format!("A begins in lane {} and D in lane {}: they must begin in the same", a.lane, d.lane);
            return Err(context.invalid(Some(lane), message));
        }
        Source::Tensor(a)
    } else {
        let tile = operand(context, lane, context.get(i.a, lane), (product.a(), product.a_major(), rows))?;
        chunks.extend(tile.chunks().map(|chunk| chunk.address));
        Source::Shared(tile)
    };
    if context.is_observed() {
        observe(context, &product, d, a, chunks, mask);
    }
    let cells = Cells::of_product(d, rows, n);
    issue(context, Work::Multiply { product, d, a, b, accumulate }, cells);
    Ok(())
}

fn observe(context: &mut Context<'_>, product: &Product, d: TensorAddress, a: Source, chunks: Vec<u32>, mask: u32) {
    let (at, rank) = (context.at(mask), context.block as u32);
    let rows = |base: TensorAddress, columns: u32| -> Vec<_> {
        let lanes = (0..product.m()).map(|row| base.lane + product.lane(row) as u32);
        lanes.map(|lane| ranges::of_cells(rank, lane, base.column, columns)).collect()
    };
    let event = TensorProduct {
        shared: &ranges::of_chunks(rank, chunks),
        operand: &match a {
            Source::Tensor(a) => rows(a, A_COLUMNS),
            Source::Shared(_) => vec![],
        },
        accumulator: &rows(d, product.n() as u32),
        columns: (d.column, product.n() as u32),
        lane: d.lane,
        rows: product.m() as u32,
    };
    context.tell(|o| o.tensor_product(at, &event));
}

/// An operand in shared memory: its type, which dimension is contiguous, and its rows.
fn operand(
    context: &mut Context<'_>,
    lane: usize,
    bits: u64,
    (operand, major, extent): (Operand, Major, usize),
) -> Result<Tile, Flow> {
    let descriptor = tensor_descriptor::decode(bits).map_err(|e| context.invalid(Some(lane), e.to_string()))?;
    let tile = Tile::of_tcgen05(descriptor, operand, major, extent);
    check_written(context, lane, tile.chunks().map(|chunk| chunk.address))?;
    Ok(tile)
}

/// Refuses chunks beyond shared memory, and chunks that nothing has written.
fn check_written(context: &mut Context<'_>, lane: usize, chunks: impl Iterator<Item = u32>) -> Result<(), Flow> {
    let shared = &context.cluster.blocks[context.block].shared;
    let (size, checked) = (shared.size(), context.checked && !shared.is_all_written());
    for address in chunks {
        if size.checked_sub(16).is_none_or(|limit| address > limit) {
            return Err(context.out_of_bounds(lane, crate::error::MemorySpace::Shared, address.into(), 16));
        }
        if checked && !context.cluster.blocks[context.block].shared.is_written(address, 16) {
            return Err(context.shared_uninitialised(lane, address, 16));
        }
    }
    Ok(())
}

/// Lets an operation take effect now, or puts it into the pipe.
fn issue(context: &mut Context<'_>, work: Work, cells: Cells) {
    context.worker.writes += 1;
    let issued = Issued { work, cells, pc: context.pc, warp: context.warp.index };
    if context.launch.completion == Completion::Eager {
        perform(context.cluster, context.block, context.launch.arithmetic, &issued.work);
    } else {
        context.cluster.blocks[context.block].tensor.pipe.push_back(issued);
    }
}

/// `tcgen05.cp [a], b`. `imm` is its number among the program's copies.
pub(crate) struct Copy;

impl Operation for Copy {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        copy(context, i, mask).map_or_else(|flow| flow, |()| Flow::Next)
    }
}

fn copy(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Result<(), Flow> {
    let lane = context.one_lane(mask)?;
    let program = context.program;
    let form = &program.tensor_copies[i.imm as usize];
    let bits = context.get::<u32>(i.a, lane).wrapping_add_signed(form.offset);
    let at = TensorAddress::of(bits);
    if at.lane != 0 {
        let message =
            format!("the destination {bits:#010x} begins in lane {}; copies of this shape begin in lane 0", at.lane);
        return Err(context.invalid(Some(lane), message));
    }
    let columns = form.bytes / 4;
    context.allocated(at.column..(at.column + columns).min(COLUMNS + 1), "the destination")?;
    let descriptor: Descriptor =
        tensor_descriptor::decode(context.get(i.b, lane)).map_err(|e| context.invalid(Some(lane), e.to_string()))?;
    let tile = Tile::of_tcgen05(descriptor, Operand::U8, Major::K, form.rows as usize);
    let read = |chunk: &crate::numerics::descriptor::Chunk| (chunk.k as u32) < form.bytes;
    let chunks: Vec<u32> = tile.chunks().filter(read).map(|chunk| chunk.address).collect();
    check_written(context, lane, chunks.iter().copied())?;
    if context.is_observed() {
        let (place, rank) = (context.at(mask), context.block as u32);
        let lanes = form.parts.iter().flat_map(|&(_, first, count)| first..first + count);
        let cells: Vec<_> = lanes.map(|lane| ranges::of_cells(rank, lane, at.column, columns)).collect();
        let shared = ranges::of_chunks(rank, chunks);
        context.tell(|o| o.tensor_copy(place, &shared, &cells));
    }
    let work = Work::Copy { tile, bytes: form.bytes, column: at.column, parts: form.parts };
    issue(context, work, Cells { column: at.column, columns, halves: 0xff });
    Ok(())
}

/// `tcgen05.commit [a + imm]`; with [`TensorFlags::MULTICAST`] row `b` holds the mask of blocks.
pub(crate) struct Commit;

impl Operation for Commit {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        for lane in lanes_of(mask) {
            if let Err(flow) = commit(context, i, lane) {
                return flow;
            }
        }
        Flow::Next
    }
}

fn commit(context: &mut Context<'_>, i: &Instruction, lane: usize) -> Result<(), Flow> {
    context.share_views();
    let address = context.mbarrier_addresses(i)[lane];
    let (block, offset) = context.shared_place(lane, address, 8, 8)?;
    let mut blocks = vec![block];
    if i.has(TensorFlags::MULTICAST) {
        let mask = context.get::<u32>(i.b, lane) & 0xffff;
        let count = context.cluster.blocks.len();
        if mask == 0 || mask >> count != 0 {
            let message = format!("the mask {mask:#06x} must name blocks of the cluster, which has {count}");
            return Err(context.invalid(Some(lane), message));
        }
        blocks = lanes_of(mask).collect();
    }
    let mbarriers: Vec<_> = blocks.into_iter().map(|block| (block, offset)).collect();
    for &(block, offset) in &mbarriers {
        if !context.cluster.blocks[block].shared.is_written(offset, 8) {
            return Err(context.invalid(Some(lane), "the mbarrier was never initialised"));
        }
    }
    context.worker.tickets += 1;
    let ticket = context.worker.tickets;
    if context.is_observed() {
        let at = context.at(1 << lane);
        let addresses: Vec<_> = mbarriers.iter().map(|&(block, offset)| shared_address(block as u32, offset)).collect();
        context.tell(|o| o.tensor_commit(at, &addresses, ticket));
    }
    context.worker.writes += 1;
    let work = Work::Commit { mbarriers, ticket };
    let issued =
        Issued { work, cells: Cells { column: 0, columns: 0, halves: 0 }, pc: context.pc, warp: context.warp.index };
    if context.launch.completion == Completion::Eager {
        let arrived = super::pipe::arrive(context.cluster, context.block, &issued);
        return arrived.map_err(|message| context.invalid(Some(lane), message));
    }
    context.cluster.blocks[context.block].tensor.pipe.push_back(issued);
    Ok(())
}
