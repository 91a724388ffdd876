//! Finds the bytes that a bulk copy moves: a contiguous run, or the box of a tensor map.

use std::ops::Range;

use crate::error::MemorySpace;
use crate::exec::context::{Context, Flow};
use crate::exec::state::bulk::Pending;
use crate::exec::state::fault::FaultKind;
use crate::numerics::tensor_box::BoxRow;
use crate::numerics::tensor_map::{Fill, TensorMap};
use crate::program::Instruction;
use crate::program::forms::BulkForm;

/// The bytes that a load writes, in the order of shared memory.
#[allow(clippy::too_many_arguments)]
pub(in crate::exec) fn load_image(
    context: &mut Context<'_>,
    i: &Instruction,
    form: &BulkForm,
    map: Option<&TensorMap>,
    lane: usize,
    size: u32,
    offset: u32,
    ranges: &mut Vec<Range<u64>>,
) -> Result<Vec<u8>, Flow> {
    let Some(map) = map else {
        let source = context.lane_address(i, form.global, lane);
        if !source.is_multiple_of(16) {
            let kind = FaultKind::Misaligned { space: MemorySpace::Global, address: source, alignment: 16 };
            return Err(context.fail(Some(lane), kind));
        }
        let mut bytes = vec![0; size as usize];
        context.read_global(lane, source, &mut bytes)?;
        ranges.push(source..source + u64::from(size));
        return Ok(bytes);
    };
    let coordinates = context.coordinates(i, form, lane);
    let rows: Vec<BoxRow> = if form.offsets > 0 {
        let offsets = context.offsets(i, form, lane);
        map.pixels(&coordinates, &offsets).map_err(|e| context.invalid(Some(lane), e.to_string()))?
    } else {
        map.rows(&coordinates).collect()
    };
    let fill = map.element().fill_bytes(map.fill());
    let element = map.element().bytes();
    let mut image = vec![0; size as usize];
    let mut bytes = vec![];
    for row in rows {
        bytes.clear();
        bytes.resize(row.bytes as usize, 0);
        if map.fill() != Fill::Zero {
            for target in bytes.chunks_exact_mut(element) {
                target.copy_from_slice(&fill[..element]);
            }
        }
        if let Some(inside) = row.inside {
            let to = &mut bytes[inside.skip as usize..(inside.skip + inside.bytes) as usize];
            context.read_global(lane, inside.address, to)?;
            ranges.push(inside.address..inside.address + u64::from(inside.bytes));
        }
        for (n, chunk) in bytes.chunks(16).enumerate() {
            // The destination is aligned to the swizzle's period, so the box's image can stay in its place.
            let plain = offset + row.shared_offset + 16 * n as u32;
            let at = (map.swizzle().apply(plain) - offset) as usize;
            image[at..at + chunk.len()].copy_from_slice(chunk);
        }
    }
    Ok(image)
}

/// The pieces that a store writes, with bounds checked; bytes outside the tensor are left out.
pub(in crate::exec) fn store_pieces(
    context: &mut Context<'_>,
    i: &Instruction,
    form: &BulkForm,
    map: Option<&TensorMap>,
    lane: usize,
    (block, offset, size): (usize, u32, u32),
    pending: &mut Pending,
) -> Result<(), Flow> {
    let mut pieces = vec![];
    match map {
        None => {
            let to = context.lane_address(i, form.global, lane);
            if !to.is_multiple_of(16) {
                let kind = FaultKind::Misaligned { space: MemorySpace::Global, address: to, alignment: 16 };
                return Err(context.fail(Some(lane), kind));
            }
            pieces.push((offset, to, size));
        }
        Some(map) => {
            let coordinates = context.coordinates(i, form, lane);
            for row in map.rows(&coordinates) {
                let Some(inside) = row.inside else { continue };
                let mut at = inside.skip;
                while at < inside.skip + inside.bytes {
                    let length = (16 - at % 16).min(inside.skip + inside.bytes - at);
                    let plain = offset + row.shared_offset + at;
                    let from = map.swizzle().apply(plain & !15) + plain % 16;
                    pieces.push((from, inside.address + u64::from(at - inside.skip), length));
                    at += length;
                }
            }
        }
    }
    for (from, to, length) in pieces {
        if !context.cluster.blocks[block].shared.is_written(from, length) {
            return Err(context.shared_uninitialised(lane, from, length));
        }
        let Some(allocation) = context.allocation(to).filter(|a| a.size - (to - a.base) >= u64::from(length)) else {
            return Err(context.out_of_bounds(lane, MemorySpace::Global, to, length));
        };
        if pending.reduces.is_some() {
            let mut offsets = [0; 32];
            offsets[lane] = to - allocation.base;
            context.check_global_written(allocation, &offsets, 1 << lane, length)?;
        }
        pending.stores.push((block, from, to, length));
    }
    Ok(())
}
