//! Bulk and tensor copies (PTX ISA §9.7.9.25.4, §9.7.9.27), and the engine that completes them.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use super::access::Addresses;
use super::context::{Context, Flow, lanes_of};
use super::fault::FaultKind;
use super::lanes::Operation;
use crate::error::MemorySpace;
use crate::memory::shared::POISON;
use crate::memory::window;
use crate::numerics::tensor_map::{Fill, TensorMap};
use crate::options::Completion;
use crate::program::Instruction;
use crate::race::{self, Bulk, BulkWrite, Footprint, Space, shared_address};

/// The shape of a bulk copy, kept beside the program because it has more operands than an instruction has fields. The
/// rows are in the program's list: [`SHARED_ROW`], [`GLOBAL_ROW`], [`MBARRIER_ROW`], [`SIZE_ROW`], [`MULTICAST_ROW`], then
/// the coordinates.
#[derive(Clone, Debug)]
pub(crate) struct BulkForm {
    /// What is copied from where to where.
    pub(crate) direction: Direction,
    /// How many coordinates there are; 0 for copies without a tensor map.
    pub(crate) coordinates: usize,
    /// The shared address.
    pub(crate) shared: Operand,
    /// The other address: the source of a load, the destination of a store, or the tensor map's.
    pub(crate) global: Operand,
    /// The mbarrier of a load.
    pub(crate) mbarrier: Option<Operand>,
    pub(crate) multicast: bool,
    pub(crate) has_map: bool,
}

/// Places in the list of rows.
pub(crate) const SHARED_ROW: usize = 0;
pub(crate) const GLOBAL_ROW: usize = 1;
pub(crate) const MBARRIER_ROW: usize = 2;
pub(crate) const SIZE_ROW: usize = 3;
pub(crate) const MULTICAST_ROW: usize = 4;
pub(crate) const COORDINATE_ROW: usize = 5;

/// An address operand; its row is in the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub(crate) place: usize,
    pub(crate) wide: bool,
    pub(crate) offset: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Global to shared memory.
    Load,
    /// Shared to global memory.
    Store,
    /// This block's shared memory to another's.
    Share,
}

/// A copy that was issued and has not taken effect.
#[derive(Debug)]
pub(super) struct Pending {
    /// The issuing warp (in the unit) and lane, for bulk groups.
    owner: (usize, u32, usize),
    pc: u32,
    /// Bytes to put into blocks' shared memory.
    writes: Vec<(usize, u32, Rc<Vec<u8>>)>,
    /// Mbarriers and the bytes to complete on them.
    mbarriers: Vec<(usize, u32, u32)>,
    /// Bytes to store: block, shared offset, global address, length.
    stores: Vec<(usize, u32, u64, u32)>,
    group: u32,
}

impl Pending {
    pub(super) fn pc(&self) -> u32 {
        self.pc
    }

    /// Index of the issuing warp among the unit's warps.
    pub(super) fn warp(&self, warps: &[super::warp::Warp]) -> usize {
        warps.iter().position(|w| (w.block, w.index) == (self.owner.0, self.owner.1)).unwrap_or(0)
    }
}

/// A warp's bulk groups, by lane: how many groups it has committed.
#[derive(Debug, Default)]
pub(super) struct BulkGroups {
    committed: [u32; 32],
}

impl BulkGroups {
    pub(super) fn clear(&mut self) {
        self.committed = [0; 32];
    }
}

/// The copies of a cluster that are under way.
pub(super) type Engine = VecDeque<Pending>;

/// A bulk copy: the program's form number `imm`.
pub(crate) struct BulkCopy;

impl Operation for BulkCopy {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let program = context.program;
        let form = &program.bulk[i.imm as usize];
        for lane in lanes_of(mask) {
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

    /// The 128 bytes of a tensor map, in global memory or among the parameters.
    fn tensor_map(&mut self, lane: usize, address: u64) -> Result<TensorMap, Flow> {
        let mut bytes = [0; 128];
        if !address.is_multiple_of(64) {
            let kind = FaultKind::Misaligned { space: MemorySpace::Global, address, alignment: 64 };
            return Err(self.fail(Some(lane), kind));
        }
        if (window::PARAMETERS..window::LOCAL).contains(&address) {
            let start = (address - window::PARAMETERS) as usize;
            match self.launch.parameters.get(start..start + 128) {
                Some(found) => bytes.copy_from_slice(found),
                None => return Err(self.out_of_bounds(lane, MemorySpace::Parameter, address, 128)),
            }
        } else {
            match self.allocation(address) {
                Some(a) if a.size - (address - a.base) >= 128 => a.read(address - a.base, &mut bytes),
                _ => return Err(self.out_of_bounds(lane, MemorySpace::Global, address, 128)),
            }
        }
        TensorMap::decode(&bytes).map_err(|e| self.invalid(Some(lane), e.to_string()))
    }

    /// Reads checked global bytes.
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

fn issue(context: &mut Context<'_>, i: &Instruction, form: &BulkForm, lane: usize) -> Result<(), Flow> {
    let shared_operand = context.lane_address(i, form.shared, lane);
    let map = if form.has_map {
        let address = context.lane_address(i, form.global, lane);
        Some(context.tensor_map(lane, address)?)
    } else {
        None
    };
    let size = match &map {
        Some(map) => map.box_bytes(),
        None => context.lane_value(i, SIZE_ROW, lane),
    };
    if size == 0 || !size.is_multiple_of(16) {
        return Err(
            context.invalid(Some(lane), format!("a bulk copy of {size} bytes: a positive multiple of 16 is needed"))
        );
    }
    let alignment = map.as_ref().map_or(16, TensorMap::shared_alignment);
    let (block, offset) = context.shared_place(lane, shared_operand, size, alignment)?;
    let owner = (context.warp.block, context.warp.index, lane);
    let group = context.warp.bulk.committed[lane];
    let mut pending = Pending { owner, pc: context.pc, writes: vec![], mbarriers: vec![], stores: vec![], group };
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
            add_destinations(context, i, form, lane, (block, offset), data, &mut pending)?;
        }
    }
    observe(context, form, lane, (block, offset, size), &global_ranges, &pending);
    start(context, lane, pending)
}

/// The bytes that a load brings, in the order of shared memory.
#[allow(clippy::too_many_arguments)]
fn load_image(
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
    let fill = map.element().fill_bytes(map.fill());
    let element = map.element().bytes();
    let mut image = vec![0; size as usize];
    let mut bytes = vec![];
    for row in map.rows(&coordinates) {
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
            // The destination is aligned to the swizzle's period, so the box's image stays in its place.
            let plain = offset + row.shared_offset + 16 * n as u32;
            let at = (map.swizzle().apply(plain) - offset) as usize;
            image[at..at + chunk.len()].copy_from_slice(chunk);
        }
    }
    Ok(image)
}

/// Addresses a load's bytes to the destination block, or to every block of a multicast.
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
    let data = Rc::new(data);
    for &to in &blocks {
        if to >= context.cluster.blocks.len() {
            return Err(context.invalid(Some(lane), format!("the multicast mask names block {to}, beyond the cluster")));
        }
        // A multicast signals the mbarrier at the same offset in each destination block.
        let at = if form.multicast { to } else { barrier_block };
        pending.mbarriers.push((at, barrier_offset, data.len() as u32));
        pending.writes.push((to, offset, Rc::clone(&data)));
    }
    Ok(())
}

/// The pieces that a store takes, with bounds checked; bytes outside the tensor are left out.
fn store_pieces(
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
        let inside = context.allocation(to).is_some_and(|a| a.size - (to - a.base) >= u64::from(length));
        if !inside {
            return Err(context.out_of_bounds(lane, MemorySpace::Global, to, length));
        }
        pending.stores.push((block, from, to, length));
    }
    Ok(())
}

/// Ranges without gaps between neighbours.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|r| r.start);
    let mut result: Vec<Range<u64>> = vec![];
    for range in ranges {
        match result.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => result.push(range),
        }
    }
    result
}

fn observe(
    context: &mut Context<'_>,
    form: &BulkForm,
    lane: usize,
    (block, offset, size): (usize, u32, u32),
    global: &[Range<u64>],
    pending: &Pending,
) {
    if !context.is_observed() {
        return;
    }
    let at = context.at(1 << lane);
    let own = shared_address(block as u32, offset);
    let in_shared = |to: usize| {
        merged(
            pending
                .writes
                .iter()
                .filter(|w| w.0 == to)
                .map(|w| {
                    let start = shared_address(to as u32, w.1);
                    start..start + w.2.len() as u64
                })
                .collect(),
        )
    };
    if form.direction == Direction::Store {
        let range = own..own + u64::from(size);
        let writes = merged(pending.stores.iter().map(|s| s.2..s.2 + u64::from(s.3)).collect());
        let write = [BulkWrite { bytes: Footprint { space: Space::Global, ranges: &writes }, mbarrier: None }];
        let copy = Bulk {
            reads: Footprint { space: Space::Shared, ranges: std::slice::from_ref(&range) },
            writes: &write,
            reduces: false,
        };
        context.tell(|o| o.bulk(at, &copy));
        return;
    }
    let reads = merged(global.to_vec());
    let destinations: Vec<(Vec<Range<u64>>, u64)> = pending
        .mbarriers
        .iter()
        .enumerate()
        .map(|(n, barrier)| {
            let to = if form.multicast { barrier.0 } else { pending.writes.first().map_or(n, |w| w.0) };
            (in_shared(to), shared_address(barrier.0 as u32, barrier.1))
        })
        .collect();
    let writes: Vec<BulkWrite<'_>> = destinations
        .iter()
        .map(|(ranges, mbarrier)| BulkWrite {
            bytes: Footprint { space: Space::Shared, ranges },
            mbarrier: Some(*mbarrier),
        })
        .collect();
    let space = if form.direction == Direction::Share { Space::Shared } else { Space::Global };
    let copy = Bulk { reads: Footprint { space, ranges: &reads }, writes: &writes, reduces: false };
    context.tell(|o| o.bulk(at, &copy));
}

/// Completes a copy at once, or poisons its destination and queues it.
fn start(context: &mut Context<'_>, lane: usize, pending: Pending) -> Result<(), Flow> {
    context.worker.writes += 1;
    for (block, offset, bytes) in &pending.writes {
        context.cluster.blocks[*block].shared.mark_written(*offset, bytes.len() as u32);
    }
    for (.., to, length) in &pending.stores {
        if let Some(allocation) = context.allocation(*to) {
            allocation.mark_written(to - allocation.base, (*length).into());
        }
    }
    if context.launch.completion == Completion::Eager {
        let launch = context.launch;
        return complete(context.cluster, launch, &pending).map_err(|m| context.invalid(Some(lane), m));
    }
    for (block, offset, bytes) in &pending.writes {
        let at = *offset as usize;
        context.cluster.blocks[*block].shared.bytes_mut()[at..at + bytes.len()].fill(POISON);
    }
    context.cluster.engine.push_back(pending);
    Ok(())
}

/// Lets a copy take effect.
pub(super) fn complete(
    cluster: &mut super::block::Cluster,
    launch: &super::launch::LaunchState<'_>,
    pending: &Pending,
) -> Result<(), String> {
    for (block, offset, bytes) in &pending.writes {
        let at = *offset as usize;
        cluster.blocks[*block].shared.bytes_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }
    for &(block, from, to, length) in &pending.stores {
        let bytes = cluster.blocks[block].shared.bytes_mut()[from as usize..(from + length) as usize].to_vec();
        let index = launch.memory.partition_point(|a| a.base <= to);
        if let Some(allocation) = index.checked_sub(1).and_then(|i| launch.memory.get(i)) {
            allocation.write(to - allocation.base, &bytes);
        }
    }
    for &(block, offset, bytes) in &pending.mbarriers {
        let address = shared_address(block as u32, offset);
        if let Some(observer) = &mut cluster.observer {
            observer.mbarrier_transaction(address, bytes, pending.pc);
        }
        if cluster.complete_transactions(block, offset, bytes)?
            && let Some(observer) = &mut cluster.observer
        {
            observer.mbarrier_phase(address);
        }
    }
    Ok(())
}

/// `cp.async.bulk.commit_group`.
pub(crate) struct BulkCommit;

impl Operation for BulkCommit {
    fn run(context: &mut Context<'_>, _: &Instruction, mask: u32) -> Flow {
        for lane in lanes_of(mask) {
            context.warp.bulk.committed[lane] += 1;
        }
        if context.is_observed() {
            let at = context.at(mask);
            context.tell(|o| o.bulk_commit(at));
        }
        Flow::Next
    }
}

/// The wait is only for the sources to be read.
pub(crate) const READ_ONLY: u32 = 1;

/// `cp.async.bulk.wait_group imm`.
pub(crate) struct BulkWait;

impl Operation for BulkWait {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        for lane in lanes_of(mask) {
            let owner = (context.warp.block, context.warp.index, lane);
            let done = context.warp.bulk.committed[lane].saturating_sub(i.imm as u32);
            let (ready, rest): (Vec<_>, Vec<_>) = context
                .cluster
                .engine
                .drain(..)
                .partition(|p| p.owner == owner && p.group < done && p.mbarriers.is_empty());
            context.cluster.engine.extend(rest);
            for pending in ready {
                let launch = context.launch;
                if let Err(message) = complete(context.cluster, launch, &pending) {
                    return context.invalid(Some(lane), message);
                }
            }
        }
        if context.is_observed() {
            let at = context.at(mask);
            context.tell(|o| o.bulk_wait(at, i.imm as u32, i.flags & READ_ONLY != 0));
        }
        Flow::Next
    }
}

/// `fence.proxy.async`: which memory in the flags.
pub(crate) struct ProxyFence;
pub(crate) const PROXY_ALL: u32 = 0;
pub(crate) const PROXY_SHARED: u32 = 1;

impl Operation for ProxyFence {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        if context.is_observed() {
            let at = context.at(mask);
            let fence = match i.flags {
                PROXY_ALL => race::ProxyFence::All,
                PROXY_SHARED => race::ProxyFence::Shared,
                _ => race::ProxyFence::Global,
            };
            context.tell(|o| o.proxy_fence(at, fence));
        }
        Flow::Next
    }
}

/// `fence.mbarrier_init.release.cluster`.
pub(crate) struct InitFence;

impl Operation for InitFence {
    fn run(context: &mut Context<'_>, _: &Instruction, mask: u32) -> Flow {
        if context.is_observed() {
            let at = context.at(mask);
            context.tell(|o| o.mbarrier_init_fence(at));
        }
        Flow::Next
    }
}

/// `griddepcontrol.wait`: launches never overlap, so there is nothing to wait for.
pub(crate) struct DependencyWait;

impl Operation for DependencyWait {
    fn run(context: &mut Context<'_>, _: &Instruction, mask: u32) -> Flow {
        if context.is_observed() {
            let at = context.at(mask);
            context.tell(|o| o.dependency_wait(at));
        }
        Flow::Next
    }
}
