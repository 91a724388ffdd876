//! `ld` and `st` (PTX ISA §9.7.9.8, §9.7.9.11).

use crate::program::flags::{AccessFlags, GENERIC, LOCAL, PARAMETER, SHARED};
use std::marker::PhantomData;
use std::sync::atomic::{Ordering, fence};

use crate::error::MemorySpace;
use crate::exec::check::observe::{AccessKind, Size};
use crate::exec::context::{Context, Flow, lanes_of};
use crate::exec::lane::Lane;
use crate::exec::lanes::Operation;
use crate::exec::memory::access::{Addresses, Values, element_row};
use crate::exec::memory::local::{load_private, store_local};
use crate::exec::memory::weak::see_older;
use crate::exec::state::undefined::ReadFrom;
use crate::exec::state::{poll, weak};
use crate::memory::global::{Allocation, Word};
use crate::memory::shared::POISON;
use crate::program::{Instruction, Row};

/// Loads `N` contiguous elements of type `T` from address `a + imm` to row `d`, or to the rows of `list`.
pub(crate) struct Load<T, const N: usize, const SPACE: u8>(PhantomData<T>);

/// Stores `N` elements from row `b`, or from the rows of `list`, to address `a + imm`.
pub(crate) struct Store<T, const N: usize, const SPACE: u8>(PhantomData<T>);

impl<T: Lane + Word, const N: usize, const SPACE: u8> Operation for Load<T, N, SPACE> {
    #[inline(always)]
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let addresses = context.addresses(i, i.a, i.has(AccessFlags::WIDE_ADDRESS), i.imm);
        let mut values: Values<T, N> = [[Default::default(); 32]; N];
        let mut rest = mask;
        while rest != 0 {
            let (space, part) = if SPACE == GENERIC { context.same_window(&addresses, rest) } else { (SPACE, rest) };
            rest &= !part;
            let done = match space {
                SHARED => load_shared::<T, N>(context, i, &addresses, part, &mut values),
                LOCAL | PARAMETER => load_private::<T, N>(context, i, &addresses, part, &mut values),
                _ => load_global::<T, N>(context, i, &addresses, part, &mut values),
            };
            if let Err(flow) = done {
                return flow;
            }
        }
        for (n, values) in values.iter().enumerate() {
            context.put::<T>(element_row(context, i, i.d, n, N), values, mask);
        }
        if i.has(AccessFlags::STRONG) {
            let window = if SPACE == GENERIC { context.same_window(&addresses, mask).0 } else { SPACE };
            let results = values_digest::<T, N>(&values, mask);
            return strong_load(context, i, window == SHARED, &addresses, mask, results);
        }
        Flow::Next
    }
}

/// Ends a strong load: orders memory, and lets other warps run if the same load is executed repeatedly.
fn strong_load(
    context: &mut Context<'_>,
    i: &Instruction,
    shared: bool,
    addresses: &Addresses,
    mask: u32,
    results: u64,
) -> Flow {
    if shared {
        context.learn_views();
    }
    if i.has(AccessFlags::ACQUIRE) {
        fence(Ordering::Acquire);
    }
    context.poll(shared, addresses, mask, results)
}

/// A digest of what the lanes of the mask have loaded.
#[inline(never)]
fn values_digest<T: Lane + Word, const N: usize>(values: &Values<T, N>, mask: u32) -> u64 {
    let elements = lanes_of(mask).flat_map(|lane| values.iter().map(move |values| values[lane]));
    elements.fold(0, |sum, cell| poll::digest(sum, T::from_cell(cell).into_bits()))
}

#[inline(always)]
fn load_global<T: Lane + Word, const N: usize>(
    context: &mut Context<'_>,
    i: &Instruction,
    addresses: &Addresses,
    mask: u32,
    values: &mut Values<T, N>,
) -> Result<(), Flow> {
    let size = (size_of::<T>() * N) as u32;
    let Some((allocation, offsets)) = context.global_offsets(addresses, mask, u64::from(size), u64::from(size)) else {
        context.check_global(addresses, mask, size, size)?;
        // Every lane's access is right; they are in different allocations.
        for lane in lanes_of(mask) {
            load_global_lane::<T, N>(context, i, addresses, lane, values)?;
        }
        return Ok(());
    };
    load_global_in::<T, N>(context, i, addresses, allocation, &offsets, mask, values)
}

#[cold]
#[inline(never)]
fn load_global_lane<T: Lane + Word, const N: usize>(
    context: &mut Context<'_>,
    i: &Instruction,
    addresses: &Addresses,
    lane: usize,
    values: &mut Values<T, N>,
) -> Result<(), Flow> {
    let size = (size_of::<T>() * N) as u32;
    let Some((allocation, offsets)) = context.global_offsets(addresses, 1 << lane, u64::from(size), u64::from(size))
    else {
        return Err(context.out_of_bounds(lane, MemorySpace::Global, addresses[lane], size));
    };
    let mut one: Values<T, N> = [[Default::default(); 32]; N];
    load_global_in::<T, N>(context, i, addresses, allocation, &offsets, 1 << lane, &mut one)?;
    for (values, one) in values.iter_mut().zip(&one) {
        values[lane] = one[lane];
    }
    Ok(())
}

/// Loads from one allocation. In `values`, lanes that are not in the mask have unspecified values afterwards.
#[inline(always)]
fn load_global_in<T: Lane + Word, const N: usize>(
    context: &mut Context<'_>,
    i: &Instruction,
    addresses: &Addresses,
    allocation: &Allocation,
    offsets: &Addresses,
    mask: u32,
    values: &mut Values<T, N>,
) -> Result<(), Flow> {
    let size = (size_of::<T>() * N) as u32;
    context.check_global_written(allocation, offsets, mask, size)?;
    if context.is_observed() {
        context.observe_access(i.flags, MemorySpace::Global, addresses, mask, Size::of::<T>(N), AccessKind::Read);
    }
    context.count_read(MemorySpace::Global, mask, size);
    let data = allocation.data();
    for lane in 0..32 {
        for (n, values) in values.iter_mut().enumerate() {
            // SAFETY: the offset is aligned and inside the allocation with all N elements; that of an inactive lane is
            // 0, which is inside since the allocation holds at least one access.
            let value = unsafe { T::load(data.add(offsets[lane] as usize + n * size_of::<T>())) };
            values[lane] = value.to_cell();
        }
    }
    if i.has(AccessFlags::STRONG) {
        let stale = if context.is_weak() { see_older::<T, N>(context, i.flags, addresses, mask, values) } else { 0 };
        if context.is_observed() {
            let kind = AccessKind::HasRead { stale };
            context.observe_access(i.flags, MemorySpace::Global, addresses, mask, Size::of::<T>(N), kind);
        }
    }
    Ok(())
}

#[inline(always)]
fn load_shared<T: Lane + Word, const N: usize>(
    context: &mut Context<'_>,
    i: &Instruction,
    addresses: &Addresses,
    mask: u32,
    values: &mut Values<T, N>,
) -> Result<(), Flow> {
    let size = (size_of::<T>() * N) as u32;
    if context.is_observed() {
        context.observe_access(i.flags, MemorySpace::Shared, addresses, mask, Size::of::<T>(N), AccessKind::Read);
    }
    let Some(offsets) = context.shared_offsets(addresses, mask, size, size) else {
        return load_distributed::<T, N>(context, i, addresses, mask, values);
    };
    let unwritten = context.unwritten_shared(&offsets, mask, size);
    if unwritten != 0 {
        let lane = unwritten.trailing_zeros() as usize;
        context.note_undefined(|_| unwritten, lane, ReadFrom::Shared { offset: offsets[lane], bytes: size });
    }
    context.count_shared(true, &offsets, mask, size);
    let data = context.shared;
    for lane in 0..32 {
        for (n, values) in values.iter_mut().enumerate() {
            // SAFETY: the offset is aligned and inside the block's shared memory with all N elements (0 for an inactive
            // lane); only this thread touches it.
            let value = unsafe { data.add(offsets[lane] as usize + n * size_of::<T>()).cast::<T>().read() };
            values[lane] = value.to_cell();
        }
    }
    if context.is_observed() && i.has(AccessFlags::STRONG) {
        let kind = AccessKind::HasRead { stale: 0 };
        context.observe_access(i.flags, MemorySpace::Shared, addresses, mask, Size::of::<T>(N), kind);
    }
    Ok(())
}

/// Loads for lanes that are out of bounds, misaligned, or read another block's shared memory.
#[cold]
#[inline(never)]
fn load_distributed<T: Lane + Word, const N: usize>(
    context: &mut Context<'_>,
    i: &Instruction,
    addresses: &Addresses,
    mask: u32,
    values: &mut Values<T, N>,
) -> Result<(), Flow> {
    let size = (size_of::<T>() * N) as u32;
    for lane in lanes_of(mask) {
        let (block, offset) = context.shared_place(lane, addresses[lane], size, size)?;
        let shared = &mut context.cluster.blocks[block].shared;
        if context.checked && !shared.is_written(offset, size) {
            return Err(context.shared_uninitialised(lane, offset, size));
        }
        let data = shared.data();
        for (n, values) in values.iter_mut().enumerate() {
            // SAFETY: `shared_place` checked bounds and alignment; only this thread touches the cluster's memory.
            let value = unsafe { data.add(offset as usize + n * size_of::<T>()).cast::<T>().read() };
            values[lane] = value.to_cell();
        }
    }
    context.count_read(MemorySpace::DistributedShared, mask, size);
    if context.is_observed() && i.has(AccessFlags::STRONG) {
        let kind = AccessKind::HasRead { stale: 0 };
        context.observe_access(i.flags, MemorySpace::Shared, addresses, mask, Size::of::<T>(N), kind);
    }
    Ok(())
}

impl<T: Lane + Word, const N: usize, const SPACE: u8> Operation for Store<T, N, SPACE> {
    #[inline(always)]
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let addresses = context.addresses(i, i.a, i.has(AccessFlags::WIDE_ADDRESS), i.imm);
        if i.has(AccessFlags::RELEASE) {
            fence(Ordering::Release);
        }
        context.worker.writes += 1;
        let mut rest = mask;
        while rest != 0 {
            let (space, part) = if SPACE == GENERIC { context.same_window(&addresses, rest) } else { (SPACE, rest) };
            rest &= !part;
            let done = match space {
                SHARED => {
                    if i.has(AccessFlags::STRONG) {
                        context.share_views();
                    }
                    store_shared::<T, N>(context, i, &addresses, part)
                }
                LOCAL => store_local::<T, N>(context, i, &addresses, part),
                _ => store_global::<T, N>(context, i, &addresses, part),
            };
            if let Err(flow) = done {
                return flow;
            }
        }
        Flow::Next
    }
}

#[inline(always)]
fn store_global<T: Lane + Word, const N: usize>(
    context: &mut Context<'_>,
    i: &Instruction,
    addresses: &Addresses,
    mask: u32,
) -> Result<(), Flow> {
    let size = (size_of::<T>() * N) as u32;
    if !context.warp.undefined.is_empty() {
        let rows: [Row; N] = std::array::from_fn(|n| element_row(context, i, i.b, n, N));
        context.check_stored(&rows, mask)?;
    }
    let Some((allocation, offsets)) = context.global_offsets(addresses, mask, u64::from(size), u64::from(size)) else {
        context.check_global(addresses, mask, size, size)?;
        for lane in lanes_of(mask) {
            store_global_lane::<T, N>(context, i, addresses, lane)?;
        }
        return Ok(());
    };
    store_global_in::<T, N>(context, i, addresses, allocation, &offsets, mask);
    Ok(())
}

#[cold]
#[inline(never)]
fn store_global_lane<T: Lane + Word, const N: usize>(
    context: &mut Context<'_>,
    i: &Instruction,
    addresses: &Addresses,
    lane: usize,
) -> Result<(), Flow> {
    let size = (size_of::<T>() * N) as u32;
    let Some((allocation, offsets)) = context.global_offsets(addresses, 1 << lane, u64::from(size), u64::from(size))
    else {
        return Err(context.out_of_bounds(lane, MemorySpace::Global, addresses[lane], size));
    };
    store_global_in::<T, N>(context, i, addresses, allocation, &offsets, 1 << lane);
    Ok(())
}

#[inline(always)]
fn store_global_in<T: Lane + Word, const N: usize>(
    context: &mut Context<'_>,
    i: &Instruction,
    addresses: &Addresses,
    allocation: &Allocation,
    offsets: &Addresses,
    mask: u32,
) {
    let size = (size_of::<T>() * N) as u32;
    let rows: [Row; N] = std::array::from_fn(|n| element_row(context, i, i.b, n, N));
    if context.is_observed() {
        let present = |lane: usize, n: usize| {
            // SAFETY: the offset is aligned and inside the allocation with all N elements.
            unsafe { T::load(allocation.data().add(offsets[lane] as usize + n * size_of::<T>())) }
        };
        context.observe_store::<T>(i.flags, MemorySpace::Global, addresses, mask, &rows, Some(&present));
    }
    context.mark_global_written(allocation, offsets, mask, size);
    context.count_write(MemorySpace::Global, mask, size);
    let data = allocation.data();
    // If lanes write the same place, the highest lane wins. PTX leaves unspecified which one does.
    for lane in lanes_of(mask) {
        for (n, &row) in rows.iter().enumerate() {
            let value: T = context.get(row, lane);
            // SAFETY: the offset is aligned and inside the allocation with all N elements.
            let to = unsafe { data.add(offsets[lane] as usize + n * size_of::<T>()) };
            if context.is_weak() {
                // SAFETY: as for the store.
                let old = unsafe { T::load(to) }.into_bits();
                let address = addresses[lane] + (n * size_of::<T>()) as u64;
                let word = weak::Word { address, bytes: size_of::<T>() as u32 };
                context.weak_write(i.flags, word, [old, value.into_bits()], false);
            }
            // SAFETY: `to` is aligned and inside the allocation with all N elements.
            unsafe { value.store(to) };
        }
    }
}

#[inline(always)]
fn store_shared<T: Lane + Word, const N: usize>(
    context: &mut Context<'_>,
    i: &Instruction,
    addresses: &Addresses,
    mask: u32,
) -> Result<(), Flow> {
    let size = (size_of::<T>() * N) as u32;
    let rows: [Row; N] = std::array::from_fn(|n| element_row(context, i, i.b, n, N));
    let offsets = context.shared_offsets(addresses, mask, size, size);
    if context.is_observed() {
        let data = context.shared;
        let present = offsets.map(|offsets| {
            move |lane: usize, n: usize| {
                // SAFETY: the offset is aligned and inside the block's shared memory with all N elements; only this
                // thread touches it.
                unsafe { data.add(offsets[lane] as usize + n * size_of::<T>()).cast::<T>().read() }
            }
        });
        let present = present.as_ref().map(|present| present as &dyn Fn(usize, usize) -> T);
        context.observe_store::<T>(i.flags, MemorySpace::Shared, addresses, mask, &rows, present);
    }
    let Some(offsets) = offsets else {
        return store_distributed::<T, N>(context, addresses, mask, &rows);
    };
    context.check_variables(&offsets, mask, size)?;
    context.mark_shared_written(&offsets, mask, size);
    if !context.warp.undefined.is_empty() {
        context.mark_undefined(&rows, &offsets, mask, size);
    }
    context.count_shared(false, &offsets, mask, size);
    let data = context.shared;
    for lane in lanes_of(mask) {
        for (n, &row) in rows.iter().enumerate() {
            let value: T = context.get(row, lane);
            // SAFETY: the offset is aligned and inside the block's shared memory with all N elements; only this thread
            // touches it.
            unsafe { data.add(offsets[lane] as usize + n * size_of::<T>()).cast::<T>().write(value) };
        }
    }
    Ok(())
}

#[cold]
#[inline(never)]
fn store_distributed<T: Lane + Word, const N: usize>(
    context: &mut Context<'_>,
    addresses: &Addresses,
    mask: u32,
    rows: &[Row; N],
) -> Result<(), Flow> {
    let size = (size_of::<T>() * N) as u32;
    for lane in lanes_of(mask) {
        let (block, offset) = context.shared_place(lane, addresses[lane], size, size)?;
        for (n, &row) in rows.iter().enumerate() {
            let value: T = context.get(row, lane);
            let data = context.cluster.blocks[block].shared.data();
            // SAFETY: `shared_place` checked bounds and alignment; only this thread touches the cluster's memory.
            unsafe { data.add(offset as usize + n * size_of::<T>()).cast::<T>().write(value) };
        }
        context.cluster.blocks[block].shared.mark_written(offset, size);
    }
    context.count_write(MemorySpace::DistributedShared, mask, size);
    Ok(())
}

/// `discard.L2 [a + imm], 128`: afterwards the bytes have unspecified values (PTX ISA §9.7.9.15).
pub(crate) struct Discard;

impl Operation for Discard {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        const BYTES: u32 = 128;
        let addresses = context.addresses(i, i.a, i.has(AccessFlags::WIDE_ADDRESS), i.imm);
        if let Err(flow) = context.check_global(&addresses, mask, BYTES, BYTES) {
            return flow;
        }
        if context.is_observed() {
            context.observe_access(0, MemorySpace::Global, &addresses, mask, BYTES, AccessKind::Write);
        }
        context.worker.writes += 1;
        for lane in lanes_of(mask) {
            if let Some(allocation) = context.allocation(addresses[lane]) {
                let offset = addresses[lane] - allocation.base;
                allocation.fill(offset, BYTES.into(), POISON);
            }
        }
        Flow::Next
    }
}
