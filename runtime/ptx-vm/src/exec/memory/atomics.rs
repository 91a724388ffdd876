//! `atom`, `red`, fences (PTX ISA §9.7.13.4–9.7.13.6).

use crate::program::flags::{
    ALIGNMENT_SHIFT, AccessFlags, AtomicFlags, FenceFlags, GENERIC, GLOBAL, SHARED, SIZE_SHIFT, SPACE_SHIFT,
};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use crate::error::MemorySpace;
use crate::exec::check::observe::{AccessKind, scope};
use crate::exec::context::{Context, Flow, lanes_of};
use crate::exec::lanes::Operation;
use crate::exec::state::poll::digest;
use crate::exec::state::weak::Word;
use crate::program::{Instruction, Row};

/// `[a + imm] = f(old, b, c)`, where `f` is the program's function number `list`, lane after lane. `d` is the old
/// value.
pub(crate) struct Atomic;

impl Operation for Atomic {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let addresses = context.addresses(i, i.a, i.has(AccessFlags::WIDE_ADDRESS), i.imm);
        let (mut changed, mut results) = (false, 0);
        let mut rest = mask;
        while rest != 0 {
            let known = (i.flags >> SPACE_SHIFT & 15) as u8;
            let (space, part) = if known == GENERIC { context.same_window(&addresses, rest) } else { (known, rest) };
            rest &= !part;
            let done = match space {
                GLOBAL => global(context, i, &addresses, part),
                SHARED => shared(context, i, &addresses, part),
                _ => Err(context.invalid(None, "an atomic operation on local or parameter memory")),
            };
            match done {
                Ok(updated) => {
                    changed |= updated.changed;
                    results = digest(results, updated.old);
                }
                Err(flow) => return flow,
            }
        }
        if changed {
            context.worker.writes += 1;
            context.warp.polls.forget_lanes(mask);
            return Flow::Next;
        }
        let known = (i.flags >> SPACE_SHIFT & 15) as u8;
        let window = if known == GENERIC { context.same_window(&addresses, mask).0 } else { known };
        context.poll(window == SHARED, &addresses, mask, results)
    }
}

fn alignment(i: &Instruction) -> u32 {
    (i.flags >> SIZE_SHIFT & 15).max(i.flags >> ALIGNMENT_SHIFT & 31)
}

fn operand(context: &Context<'_>, row: Row, lane: usize, size: u32) -> u64 {
    if size == 8 { context.get::<u64>(row, lane) } else { u64::from(context.get::<u32>(row, lane)) }
}

fn give(context: &mut Context<'_>, i: &Instruction, lane: usize, size: u32, old: u64) {
    if i.has(AtomicFlags::RETURNS) {
        if size == 8 {
            context.lanes_mut::<u64>(i.d)[lane] = old;
        } else {
            context.lanes_mut::<u32>(i.d)[lane] = old as u32;
        }
    }
}

/// The effect of an atomic of several lanes.
#[derive(Default)]
struct Updated {
    /// Whether a value in memory has changed.
    changed: bool,
    /// A digest of the old values.
    old: u64,
}

impl Updated {
    fn note(&mut self, old: u64, new: u64) {
        self.changed |= old != new;
        self.old = digest(self.old, old);
    }
}

fn global(context: &mut Context<'_>, i: &Instruction, addresses: &[u64; 32], mask: u32) -> Result<Updated, Flow> {
    let size = i.flags >> SIZE_SHIFT & 15;
    let flags = i.flags | AccessFlags::STRONG.bits();
    context.check_global(addresses, mask, size, alignment(i))?;
    if context.is_observed() {
        context.observe_access(flags, MemorySpace::Global, addresses, mask, size, AccessKind::Atomic);
    }
    let program = context.program;
    let function = &program.functions[i.list as usize + usize::from(i.has(AtomicFlags::FLUSHED_IN_GLOBAL))];
    let mut updated = Updated::default();
    for lane in lanes_of(mask) {
        let Some(allocation) = context.allocation(addresses[lane]) else {
            return Err(context.out_of_bounds(lane, MemorySpace::Global, addresses[lane], size));
        };
        let offset = addresses[lane] - allocation.base;
        if context.checked && !allocation.is_all_written() {
            let mut offsets = [0; 32];
            offsets[lane] = offset;
            context.check_global_written(allocation, &offsets, 1 << lane, size)?;
        }
        let (b, c) = (operand(context, i.b, lane, size), operand(context, i.c, lane, size));
        // SAFETY: `check_global` checked bounds and alignment of this lane's access.
        let (old, new) = unsafe { update(allocation.data().add(offset as usize), size, |old| function([old, b, c])) };
        updated.note(old, new);
        if context.is_weak() {
            let word = Word { address: addresses[lane], bytes: size };
            context.weak_write(flags, word, [old, new], true);
        }
        give(context, i, lane, size, old);
    }
    if context.is_observed() {
        context.observe_access(flags, MemorySpace::Global, addresses, mask, size, AccessKind::WasAtomic);
    }
    context.count_read(MemorySpace::Global, mask, size);
    context.count_write(MemorySpace::Global, mask, size);
    Ok(updated)
}

/// Updates one word. Gives its old and its new value.
///
/// # Safety
/// `pointer` must be valid for an aligned atomic access of `size` bytes.
pub(in crate::exec) unsafe fn update(pointer: *const u8, size: u32, function: impl Fn(u64) -> u64) -> (u64, u64) {
    macro_rules! with {
        ($atomic:ty, $int:ty) => {{
            // SAFETY: by this function's contract.
            let word = unsafe { <$atomic>::from_ptr(pointer.cast_mut().cast()) };
            let mut old = word.load(Ordering::Relaxed);
            loop {
                let new = function(u64::from(old)) as $int;
                match word.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => return (u64::from(old), u64::from(new)),
                    Err(now) => old = now,
                }
            }
        }};
    }
    match size {
        2 => with!(AtomicU16, u16),
        4 => with!(AtomicU32, u32),
        _ => with!(AtomicU64, u64),
    }
}

fn shared(context: &mut Context<'_>, i: &Instruction, addresses: &[u64; 32], mask: u32) -> Result<Updated, Flow> {
    let size = i.flags >> SIZE_SHIFT & 15;
    let flags = i.flags | AccessFlags::STRONG.bits();
    if context.is_observed() {
        context.observe_access(flags, MemorySpace::Shared, addresses, mask, size, AccessKind::Atomic);
    }
    context.share_views();
    context.learn_views();
    let program = context.program;
    let function = &program.functions[i.list as usize];
    let mut updated = Updated::default();
    for lane in lanes_of(mask) {
        let (block, offset) = context.shared_place(lane, addresses[lane], size, alignment(i))?;
        if !context.cluster.blocks[block].shared.is_written(offset, size) {
            return Err(context.shared_uninitialised(lane, offset, size));
        }
        let (b, c) = (operand(context, i.b, lane, size), operand(context, i.c, lane, size));
        let place = offset as usize..(offset + size) as usize;
        let bytes = &mut context.cluster.blocks[block].shared.bytes_mut()[place];
        let mut raw = [0; 8];
        raw[..size as usize].copy_from_slice(bytes);
        let old = u64::from_le_bytes(raw);
        let new = function([old, b, c]);
        bytes.copy_from_slice(&new.to_le_bytes()[..size as usize]);
        updated.note(old, new & u64::MAX >> (64 - 8 * size));
        give(context, i, lane, size, old);
    }
    if context.is_observed() {
        context.observe_access(flags, MemorySpace::Shared, addresses, mask, size, AccessKind::WasAtomic);
    }
    context.count_read(MemorySpace::Shared, mask, size);
    context.count_write(MemorySpace::Shared, mask, size);
    Ok(updated)
}

/// `fence`, `membar`: scope in the flags.
pub(crate) struct Fence;

impl Operation for Fence {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        fence(Ordering::SeqCst);
        if context.is_observed() {
            let at = context.at(mask);
            context.tell(|o| o.fence(at, scope(i.flags)));
        }
        context.weak_fence(scope(i.flags), i.has(FenceFlags::SEQUENTIAL));
        Flow::Next
    }
}

const _: () = assert!(AccessFlags::ACQUIRE.bits() < AtomicFlags::RETURNS.bits());
