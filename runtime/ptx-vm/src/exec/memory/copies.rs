//! `cp.async` and its groups (PTX ISA §9.7.9.25.3).

use crate::error::MemorySpace;
use crate::exec::context::{Context, Flow, lanes_of};
use crate::exec::lanes::Operation;
use crate::exec::state::copies::Pending;
use crate::exec::state::fault::FaultKind;
use crate::memory::shared::POISON;
use crate::options::Completion;
use crate::program::Instruction;
use crate::program::flags::{AccessFlags, CopyFlags};
use crate::race::CopyAsync;

const _: () = assert!(
    CopyFlags::WIDE_SOURCE.bits()
        > AccessFlags::STRONG.bits() | AccessFlags::ACQUIRE.bits() | AccessFlags::RELEASE.bits()
);

/// `cp.async [a + imm], [b + list], SIZE`. `list` has the bits of a signed offset.
pub(crate) struct Copy<const SIZE: usize>;

impl<const SIZE: usize> Operation for Copy<SIZE> {
    #[inline(always)]
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        match copy::<SIZE>(context, i, mask) {
            Ok(()) => Flow::Next,
            Err(flow) => flow,
        }
    }
}

#[inline(always)]
fn copy<const SIZE: usize>(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Result<(), Flow> {
    let size = SIZE as u32;
    let destinations = context.addresses(i, i.a, i.has(AccessFlags::WIDE_ADDRESS), i.imm);
    let source_offset = i64::from(i.list.cast_signed());
    let sources = context.addresses(i, i.b, i.has(CopyFlags::WIDE_SOURCE), source_offset);
    let read = read_sizes::<SIZE>(context, i, mask)?;
    let whole = lanes_of(mask).filter(|&l| read[l] == size).fold(0, |m, l| m | 1 << l);
    let Some(offsets) = context.shared_offsets(&destinations, mask, size, size) else {
        for lane in lanes_of(mask) {
            context.shared_place(lane, destinations[lane], size, size)?;
        }
        return Err(context.invalid(None, "cp.async to another block's shared memory"));
    };
    if context.is_observed() {
        let at = context.at(mask);
        let shared = destinations.map(|a| context.shared_address(a));
        let copy = CopyAsync { destinations: &shared, sources: &sources, size, read: &read };
        context.tell(|o| o.copy_async(at, &copy));
    }
    context.check_variables(&offsets, mask, size)?;
    context.mark_shared_written(&offsets, mask, size);
    context.count_read(MemorySpace::Global, whole, size);
    context.count_shared(false, &offsets, mask, size);
    context.worker.writes += 1;
    let eager = context.launch.completion == Completion::Eager;
    if whole == mask
        && let Some((allocation, from)) = context.global_offsets(&sources, mask, SIZE as u64, SIZE as u64)
    {
        context.check_global_written(allocation, &from, mask, size)?;
        let base = allocation.data();
        for lane in lanes_of(mask) {
            // SAFETY: `global_offsets` checked bounds and alignment of the whole access.
            let data: [u8; SIZE] = unsafe { load_bytes(base.add(from[lane] as usize)) };
            land(context, offsets[lane], &data, eager);
        }
        return Ok(());
    }
    for lane in lanes_of(mask) {
        let data = partial::<SIZE>(context, lane, sources[lane], read[lane])?;
        land(context, offsets[lane], &data, eager);
    }
    Ok(())
}

/// The number of bytes that each lane reads.
#[inline(always)]
fn read_sizes<const SIZE: usize>(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Result<[u32; 32], Flow> {
    let mut read = [SIZE as u32; 32];
    if i.has(CopyFlags::SIZED) {
        read = *context.lanes::<u32>(i.c);
        if let Some(lane) = lanes_of(mask).find(|&l| read[l] > SIZE as u32) {
            let message = format!("the source size {} is larger than the copy of {SIZE} bytes", read[lane]);
            return Err(context.invalid(Some(lane), message));
        }
    }
    if i.has(CopyFlags::IGNORE_SOURCE) {
        let ignored = context.predicate(i.p) ^ if i.has(CopyFlags::NEGATED) { u32::MAX } else { 0 };
        for lane in lanes_of(ignored) {
            read[lane] = 0;
        }
    }
    Ok(read)
}

/// Loads contiguous bytes as words of up to 8 bytes.
///
/// # Safety
/// `pointer` must be valid for reads of `SIZE` bytes, and aligned to `SIZE`, up to 8.
#[inline(always)]
unsafe fn load_bytes<const SIZE: usize>(pointer: *const u8) -> [u8; SIZE] {
    use crate::memory::global::Word;
    let mut bytes = [0; SIZE];
    if SIZE == 4 {
        // SAFETY: by this function's contract.
        bytes.copy_from_slice(&unsafe { u32::load(pointer) }.to_le_bytes());
    } else {
        for (n, chunk) in bytes.chunks_exact_mut(8).enumerate() {
            // SAFETY: by this function's contract.
            chunk.copy_from_slice(&unsafe { u64::load(pointer.add(8 * n)) }.to_le_bytes());
        }
    }
    bytes
}

/// Reads `read` bytes; the rest is zero.
fn partial<const SIZE: usize>(
    context: &mut Context<'_>,
    lane: usize,
    source: u64,
    read: u32,
) -> Result<[u8; SIZE], Flow> {
    let mut data = [0; SIZE];
    if read == 0 {
        return Ok(data);
    }
    if !source.is_multiple_of(SIZE as u64) {
        let kind = FaultKind::Misaligned { space: MemorySpace::Global, address: source, alignment: SIZE as u32 };
        return Err(context.fail(Some(lane), kind));
    }
    let Some(allocation) = context.allocation(source) else {
        return Err(context.out_of_bounds(lane, MemorySpace::Global, source, read));
    };
    let offset = source - allocation.base;
    if allocation.size - offset < u64::from(read) {
        return Err(context.out_of_bounds(lane, MemorySpace::Global, source, read));
    }
    let mut offsets = [0; 32];
    offsets[lane] = offset;
    context.check_global_written(allocation, &offsets, 1 << lane, read)?;
    allocation.read(offset, &mut data[..read as usize]);
    Ok(data)
}

/// Completes a copy, or poisons its destination and queues it.
#[inline(always)]
fn land<const SIZE: usize>(context: &mut Context<'_>, offset: u32, data: &[u8; SIZE], eager: bool) {
    // SAFETY: `shared_offsets` checked that SIZE bytes at `offset` are inside the block's shared memory, which only
    // this thread accesses.
    let place = unsafe { &mut *context.shared.add(offset as usize).cast::<[u8; SIZE]>() };
    if eager {
        *place = *data;
        return;
    }
    *place = [POISON; SIZE];
    let mut pending = Pending { offset, size: SIZE as u8, data: [0; 16] };
    pending.data[..SIZE].copy_from_slice(data);
    context.warp.copies.open.push(pending);
}

fn complete(context: &mut Context<'_>, copies: &[Pending]) {
    context.worker.writes += 1;
    let shared = context.cluster.blocks[context.block].shared.bytes_mut();
    for copy in copies {
        let start = copy.offset as usize;
        shared[start..start + copy.size as usize].copy_from_slice(&copy.data[..copy.size as usize]);
    }
}

/// `cp.async.commit_group`.
pub(crate) struct Commit;

impl Operation for Commit {
    fn run(context: &mut Context<'_>, _: &Instruction, mask: u32) -> Flow {
        if context.is_observed() {
            let at = context.at(mask);
            context.tell(|o| o.copy_commit(at));
        }
        if context.launch.completion != Completion::Eager {
            let group = std::mem::take(&mut context.warp.copies.open);
            context.warp.copies.committed.push_back(group);
            if context.launch.completion == Completion::Random {
                complete_some(context);
            }
        }
        Flow::Next
    }
}

/// Completes a random number of the oldest groups.
fn complete_some(context: &mut Context<'_>) {
    while !context.warp.copies.committed.is_empty() && context.worker.random().is_multiple_of(3) {
        if let Some(group) = context.warp.copies.committed.pop_front() {
            complete(context, &group);
        }
    }
}

/// `cp.async.wait_group imm`, or `cp.async.wait_all` if `imm` is −1.
pub(crate) struct Wait;

impl Operation for Wait {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        if i.imm < 0 {
            let flow = Commit::run(context, i, mask);
            debug_assert_eq!(flow, Flow::Next);
        }
        let keep = i.imm.max(0) as usize;
        while context.warp.copies.committed.len() > keep {
            if let Some(group) = context.warp.copies.committed.pop_front() {
                complete(context, &group);
            }
        }
        if context.is_observed() {
            let at = context.at(mask);
            context.tell(|o| o.copy_wait(at, keep as u32));
        }
        Flow::Next
    }
}

/// Completes all copies of the warp.
pub(in crate::exec) fn complete_all(context: &mut Context<'_>) {
    while let Some(group) = context.warp.copies.committed.pop_front() {
        complete(context, &group);
    }
    let open = std::mem::take(&mut context.warp.copies.open);
    complete(context, &open);
}
