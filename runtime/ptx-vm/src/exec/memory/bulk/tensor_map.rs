//! Tensor maps in memory: copies read them, `tensormap.replace` changes them, and `tensormap.cp_fenceproxy` publishes
//! them (PTX ISA §9.7.9.28, §9.7.13.15).

use crate::error::MemorySpace;
use crate::exec::check::observe::AccessKind;
use crate::exec::context::{Context, Flow, lanes_of};
use crate::exec::lanes::Operation;
use crate::exec::memory::access::{Addresses, window_of};
use crate::exec::state::fault::FaultKind;
use crate::memory::window;
use crate::numerics::tensor_map::{MAP_BYTES, TensorMap};
use crate::numerics::tensor_replace;
use crate::program::Instruction;
use crate::program::flags::{AccessFlags, GENERIC, MapFlags, SHARED};
use crate::race::TensorMapFence;

const BYTES: u32 = MAP_BYTES as u32;
/// The alignment of a map's address, if a copy reads it.
const ALIGNMENT: u32 = 64;

/// `tensormap.replace`: sets field number `list` of the map at `a + imm` to row `b`.
pub(crate) struct ReplaceField<const SPACE: u8>;

impl<const SPACE: u8> Operation for ReplaceField<SPACE> {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let addresses = context.addresses(i, i.a, i.has(AccessFlags::WIDE_ADDRESS), i.imm);
        context.worker.writes += 1;
        for lane in lanes_of(mask) {
            let space = if SPACE == GENERIC { window_of(addresses[lane]) } else { SPACE };
            if let Err(flow) = replace(context, i, &addresses, lane, space == SHARED) {
                return flow;
            }
        }
        Flow::Next
    }
}

fn replace(
    context: &mut Context<'_>,
    i: &Instruction,
    addresses: &Addresses,
    lane: usize,
    shared: bool,
) -> Result<(), Flow> {
    let field = context.program.map_fields[i.list as usize];
    let value =
        if i.has(MapFlags::WIDE_VALUE) { context.get::<u64>(i.b, lane) } else { context.get::<u32>(i.b, lane).into() };
    let value = if i.has(MapFlags::SIXTEENTHS) { value << 4 } else { value };
    let space = if shared { MemorySpace::Shared } else { MemorySpace::Global };
    let mut bytes = [0; MAP_BYTES];
    if shared {
        let (block, offset) = context.shared_place(lane, addresses[lane], BYTES, ALIGNMENT)?;
        read_shared_map(context, lane, block, offset, &mut bytes)?;
    } else {
        aligned(context, lane, addresses[lane])?;
        context.read_global(lane, addresses[lane], &mut bytes)?;
    }
    if context.is_observed() {
        context.observe_access(0, space, addresses, 1 << lane, BYTES, AccessKind::Write);
    }
    tensor_replace::replace(&mut bytes, field, value).map_err(|e| context.invalid(Some(lane), e.to_string()))?;
    if shared {
        let (block, offset) = context.shared_place(lane, addresses[lane], BYTES, ALIGNMENT)?;
        context.cluster.blocks[block].shared.bytes_mut()[offset as usize..][..MAP_BYTES].copy_from_slice(&bytes);
    } else {
        write_global_map(context, lane, addresses[lane], &bytes)?;
    }
    Ok(())
}

fn aligned(context: &mut Context<'_>, lane: usize, address: u64) -> Result<(), Flow> {
    if address.is_multiple_of(ALIGNMENT.into()) {
        return Ok(());
    }
    let kind = FaultKind::Misaligned { space: MemorySpace::Global, address, alignment: ALIGNMENT };
    Err(context.fail(Some(lane), kind))
}

fn read_shared_map(
    context: &mut Context<'_>,
    lane: usize,
    block: usize,
    offset: u32,
    bytes: &mut [u8; MAP_BYTES],
) -> Result<(), Flow> {
    let shared = &mut context.cluster.blocks[block].shared;
    if !shared.is_written(offset, BYTES) {
        return Err(context.shared_uninitialised(lane, offset, BYTES));
    }
    bytes.copy_from_slice(&shared.bytes_mut()[offset as usize..][..MAP_BYTES]);
    Ok(())
}

fn write_global_map(context: &mut Context<'_>, lane: usize, address: u64, bytes: &[u8; MAP_BYTES]) -> Result<(), Flow> {
    let Some(allocation) = context.allocation(address).filter(|a| a.size - (address - a.base) >= BYTES.into()) else {
        return Err(context.out_of_bounds(lane, MemorySpace::Global, address, BYTES));
    };
    allocation.write(address - allocation.base, bytes);
    Ok(())
}

/// The copy of `tensormap.cp_fenceproxy`: the map at `b` (its offset is in `list`) in shared memory is copied to
/// `a + imm` in global memory. All lanes of the warp execute it together; lanes with the same addresses copy once.
pub(crate) struct PublishMap;

impl Operation for PublishMap {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        if mask != context.warp.living() {
            return context.invalid(None, format!("all lanes must execute it together, only {mask:#010x} do"));
        }
        match publish(context, i, mask) {
            Ok(()) => Flow::Next,
            Err(flow) => flow,
        }
    }
}

fn publish(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Result<(), Flow> {
    let to = context.addresses(i, i.a, i.has(AccessFlags::WIDE_ADDRESS), i.imm);
    let from = context.addresses(i, i.b, i.has(MapFlags::WIDE_SOURCE), i.list.cast_signed().into());
    context.worker.writes += 1;
    let first = |lane: usize| lanes_of(mask).find(|&l| (to[l], from[l]) == (to[lane], from[lane])) == Some(lane);
    for lane in lanes_of(mask).filter(|&lane| first(lane)) {
        let (block, offset) = context.shared_place(lane, from[lane], BYTES, ALIGNMENT)?;
        aligned(context, lane, to[lane])?;
        let mut bytes = [0; MAP_BYTES];
        read_shared_map(context, lane, block, offset, &mut bytes)?;
        if context.is_observed() {
            context.observe_access(0, MemorySpace::Shared, &from, 1 << lane, BYTES, AccessKind::Read);
            context.observe_access(0, MemorySpace::Global, &to, 1 << lane, BYTES, AccessKind::Write);
        }
        write_global_map(context, lane, to[lane], &bytes)?;
    }
    if context.is_observed() {
        // Each lane continues when all have executed it: all lanes have copied then.
        let at = context.at(mask);
        context.tell(|o| o.warp_sync(at));
    }
    Ok(())
}

/// `fence.proxy.tensormap::generic`, for the detector: the acquire of the maps at `a + imm`, or a release.
pub(crate) struct MapFence<const ACQUIRES: bool>;

impl<const ACQUIRES: bool> Operation for MapFence<ACQUIRES> {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        if context.is_observed() {
            let at = context.at(mask);
            if ACQUIRES {
                let maps = context.addresses(i, i.a, i.has(AccessFlags::WIDE_ADDRESS), i.imm);
                context.tell(|o| o.tensor_map_fence(at, TensorMapFence::Acquire(&maps)));
            } else {
                context.tell(|o| o.tensor_map_fence(at, TensorMapFence::Release));
            }
        }
        Flow::Next
    }
}

/// Whether the tensor map at an address is in global memory, not among the parameters, which nobody changes.
pub(super) fn is_in_memory(map: u64) -> bool {
    !(window::PARAMETERS..window::LOCAL).contains(&map)
}

impl Context<'_> {
    /// The tensor map that a copy names, in global memory or among the parameters.
    pub(in crate::exec) fn tensor_map(&mut self, lane: usize, address: u64) -> Result<TensorMap, Flow> {
        let mut bytes = [0; MAP_BYTES];
        aligned(self, lane, address)?;
        if !is_in_memory(address) {
            let start = (address - window::PARAMETERS) as usize;
            match self.launch.parameters.get(start..start + MAP_BYTES) {
                Some(found) => bytes.copy_from_slice(found),
                None => return Err(self.out_of_bounds(lane, MemorySpace::Parameter, address, BYTES)),
            }
        } else {
            self.read_global(lane, address, &mut bytes)?;
        }
        TensorMap::decode(&bytes).map_err(|e| self.invalid(Some(lane), e.to_string()))
    }
}
