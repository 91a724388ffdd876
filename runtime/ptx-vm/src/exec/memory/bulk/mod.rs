//! Bulk and tensor copies and reductions (PTX ISA §9.7.9.25.4, §9.7.9.27), `st.async` and `red.async` (§9.7.9.12,
//! §9.7.13.8).
//!
//! This file decodes what they read and write. [`image`] finds the bytes of boxes, [`engine`] holds copies in flight
//! and completes them, [`groups`] counts the bulk groups, and [`report`] tells the detector.

pub(in crate::exec) mod engine;
pub(crate) mod groups;
mod image;
mod report;
pub(crate) mod tensor_map;

use std::ops::Range;
use std::rc::Rc;

use self::engine::start;
use self::image::{load_image, store_pieces};
use self::report::observe;
use self::tensor_map::is_in_memory;
use crate::error::MemorySpace;
use crate::exec::context::{Context, Flow, lanes_of};
use crate::exec::lanes::Operation;
use crate::exec::memory::access::Addresses;
use crate::exec::state::bulk::{Pending, Reduces};
use crate::numerics::tensor_map::{MapElement, TensorMap};
use crate::program::Instruction;
use crate::program::forms::{BulkForm, BulkReduction, COORDINATE_ROW, Direction, MULTICAST_ROW, Operand, SIZE_ROW};
use crate::race::shared_address;

/// A bulk copy. `imm` is its number among the program's forms.
pub(crate) struct BulkCopy;

impl Operation for BulkCopy {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let program = context.program;
        let form = &program.bulk[i.imm as usize];
        for lane in lanes_of(mask) {
            if repeats(context, i, form, lane, mask) {
                continue;
            }
            if let Err(flow) = issue(context, i, form, lane) {
                return flow;
            }
        }
        Flow::Next
    }
}

impl Context<'_> {
    fn lane_address(&self, i: &Instruction, operand: Operand, lane: usize) -> u64 {
        let row = self.list(i.list, operand.place + 1)[operand.place];
        let all: Addresses = self.addresses(i, row, operand.wide, operand.offset);
        all[lane]
    }

    fn lane_value(&self, i: &Instruction, place: usize, lane: usize) -> u32 {
        self.get(self.list(i.list, place + 1)[place], lane)
    }

    fn coordinates(&self, i: &Instruction, form: &BulkForm, lane: usize) -> Vec<i32> {
        (0..form.coordinates).map(|n| self.lane_value(i, COORDINATE_ROW + n, lane).cast_signed()).collect()
    }

    /// The offsets of a copy in im2col mode.
    fn offsets(&self, i: &Instruction, form: &BulkForm, lane: usize) -> Vec<u16> {
        let first = COORDINATE_ROW + form.coordinates;
        (0..form.offsets).map(|n| self.lane_value(i, first + n, lane) as u16).collect()
    }

    /// Reads global bytes, with checks.
    fn read_global(&mut self, lane: usize, address: u64, to: &mut [u8]) -> Result<(), Flow> {
        let length = to.len() as u64;
        let Some(allocation) = self.allocation(address).filter(|a| a.size - (address - a.base) >= length) else {
            return Err(self.out_of_bounds(lane, MemorySpace::Global, address, length as u32));
        };
        let mut offsets = [0; 32];
        offsets[lane] = address - allocation.base;
        self.check_global_written(allocation, &offsets, 1 << lane, length as u32)?;
        allocation.read(address - allocation.base, to);
        Ok(())
    }
}

/// Whether a lower lane stores the same bytes to the same place. If all lanes of a warp issue one store, it is done
/// once, as in ptxas' code. Loads and reductions are done for every lane.
fn repeats(context: &Context<'_>, i: &Instruction, form: &BulkForm, lane: usize, mask: u32) -> bool {
    if form.direction != Direction::Store || form.reduction.is_some() || mask.is_power_of_two() {
        return false;
    }
    let place = |lane: usize| {
        let size = if form.has_map { 0 } else { context.lane_value(i, SIZE_ROW, lane) };
        (context.lane_address(i, form.shared, lane), context.lane_address(i, form.global, lane), size)
    };
    let own = (place(lane), context.coordinates(i, form, lane));
    lanes_of(mask)
        .take_while(|&lower| lower < lane)
        .any(|lower| (place(lower), context.coordinates(i, form, lower)) == own)
}

fn issue(context: &mut Context<'_>, i: &Instruction, form: &BulkForm, lane: usize) -> Result<(), Flow> {
    let shared_operand = context.lane_address(i, form.shared, lane);
    let map = if form.has_map {
        let address = context.lane_address(i, form.global, lane);
        let map = context.tensor_map(lane, address)?;
        let modes =
            [form.offsets > 0, map.pixel_box().is_some()].map(|im2col| if im2col { ".im2col" } else { ".tile" });
        if modes[0] != modes[1] {
            let message = format!("a copy in mode `{}` by a tensor map of mode `{}`", modes[0], modes[1]);
            return Err(context.invalid(Some(lane), message));
        }
        if map.rank() != form.coordinates {
            let message = format!("a copy of {} dimensions by a tensor map of {}", form.coordinates, map.rank());
            return Err(context.invalid(Some(lane), message));
        }
        Some(map)
    } else {
        None
    };
    let size = match &map {
        Some(map) => map.box_bytes(),
        None => match form.direction {
            Direction::Put { bytes } => bytes * form.coordinates as u32,
            _ => context.lane_value(i, SIZE_ROW, lane),
        },
    };
    let put = matches!(form.direction, Direction::Put { .. });
    if !put && (size == 0 || !size.is_multiple_of(16)) {
        return Err(
            context.invalid(Some(lane), format!("a bulk copy of {size} bytes: a positive multiple of 16 is needed"))
        );
    }
    let alignment = if put { size } else { map.as_ref().map_or(16, TensorMap::shared_alignment) };
    let (block, offset) = context.shared_place(lane, shared_operand, size, alignment)?;
    let mut pending = Pending::new(context, lane);
    pending.reduces = reduces(context, form, map.as_ref(), lane)?;
    let mut global_ranges: Vec<Range<u64>> = vec![];
    match form.direction {
        Direction::Load => {
            let data = load_image(context, i, form, map.as_ref(), lane, size, offset, &mut global_ranges)?;
            add_destinations(context, i, form, lane, (block, offset), data, &mut pending)?;
        }
        Direction::Store => store_pieces(context, i, form, map.as_ref(), lane, (block, offset, size), &mut pending)?,
        Direction::Share => {
            let source = context.lane_address(i, form.global, lane);
            let (from, start) = context.shared_place(lane, source, size, 16)?;
            let bytes = &context.cluster.blocks[from].shared.bytes_mut()[start as usize..(start + size) as usize];
            let data = bytes.to_vec();
            if !context.cluster.blocks[from].shared.is_written(start, size) {
                return Err(context.shared_uninitialised(lane, start, size));
            }
            let source = shared_address(from as u32, start);
            global_ranges.push(source..source + u64::from(size));
            add_destinations(context, i, form, lane, (block, offset), data, &mut pending)?;
        }
        Direction::Put { bytes } => {
            let data = registers(context, i, form, lane, bytes);
            add_destinations(context, i, form, lane, (block, offset), data, &mut pending)?;
        }
    }
    let map = form.has_map.then(|| context.lane_address(i, form.global, lane)).filter(|&map| is_in_memory(map));
    observe(context, form, lane, (block, offset, size), &global_ranges, map, &pending);
    start(context, lane, pending)
}

/// The bytes in a lane's registers.
fn registers(context: &Context<'_>, i: &Instruction, form: &BulkForm, lane: usize, bytes: u32) -> Vec<u8> {
    let rows = &context.list(i.list, COORDINATE_ROW + form.coordinates)[COORDINATE_ROW..];
    let mut data = vec![];
    for &row in rows {
        if bytes == 8 {
            data.extend(context.get::<u64>(row, lane).to_le_bytes());
        } else {
            data.extend(context.get::<u32>(row, lane).to_le_bytes());
        }
    }
    data
}

/// How the copy combines elements, if it is a reduction.
fn reduces(
    context: &mut Context<'_>,
    form: &BulkForm,
    map: Option<&TensorMap>,
    lane: usize,
) -> Result<Option<Reduces>, Flow> {
    let Some(BulkReduction { operation, element }) = form.reduction else { return Ok(None) };
    let mapped = map.map(TensorMap::element);
    let Some(element) = element.or_else(|| mapped.and_then(MapElement::reduced)) else {
        return Err(context.invalid(Some(lane), format!("a tensor of {mapped:?} has no reductions")));
    };
    match operation.function(element) {
        Some(function) => Ok(Some(Reduces { function, bytes: element.bytes() })),
        None => Err(context.invalid(Some(lane), format!("the reduction {operation:?} on elements of {element:?}"))),
    }
}

/// Adds the destinations of a load's bytes: the destination block, or every block of a multicast.
fn add_destinations(
    context: &mut Context<'_>,
    i: &Instruction,
    form: &BulkForm,
    lane: usize,
    (block, offset): (usize, u32),
    data: Vec<u8>,
    pending: &mut Pending,
) -> Result<(), Flow> {
    let Some(mbarrier) = form.mbarrier else {
        return Err(context.invalid(Some(lane), "a bulk load without an mbarrier"));
    };
    let mbarrier = context.lane_address(i, mbarrier, lane);
    let (barrier_block, barrier_offset) = context.shared_place(lane, mbarrier, 8, 8)?;
    let blocks: Vec<usize> = if form.multicast {
        lanes_of(context.lane_value(i, MULTICAST_ROW, lane) & 0xffff).collect()
    } else {
        vec![block]
    };
    let length = data.len() as u32;
    let data = Rc::new(data);
    if !form.multicast && barrier_block != block {
        let message = "the mbarrier and the destination are in different blocks of the cluster";
        return Err(context.invalid(Some(lane), message));
    }
    for &to in &blocks {
        if to >= context.cluster.blocks.len() {
            return Err(context.invalid(Some(lane), format!("the multicast mask names block {to}, beyond the cluster")));
        }
        // A multicast signals the mbarrier at the same offset in each destination block.
        let at = if form.multicast { to } else { barrier_block };
        if form.reduction.is_some() && !context.cluster.blocks[to].shared.is_written(offset, length) {
            return Err(context.shared_uninitialised(lane, offset, length));
        }
        pending.mbarriers.push((at, barrier_offset, data.len() as u32));
        pending.writes.push((to, offset, Rc::clone(&data)));
    }
    Ok(())
}
