//! Resolves an address operand to bytes: memory space, bounds, alignment, initialisation.

use crate::error::MemorySpace;
use crate::exec::context::{Context, Flow, lanes_of};
use crate::exec::lane::Lane;
use crate::exec::state::fault::FaultKind;
use crate::memory::global::{Allocation, nearest};
use crate::memory::window;
use crate::program::flags::{GLOBAL, LOCAL, PARAMETER, SHARED};
use crate::program::{Instruction, Row};

/// The addresses of 32 lanes.
pub(in crate::exec) type Addresses = [u64; 32];

/// The values of `N` registers.
pub(super) type Values<T, const N: usize> = [[<T as Lane>::Cell; 32]; N];

/// The register of element `n` of a vector of `length`.
#[inline(always)]
pub(super) fn element_row(context: &Context<'_>, i: &Instruction, single: Row, n: usize, length: usize) -> Row {
    if length == 1 { single } else { context.list(i.list, length)[n] }
}

impl<'a> Context<'a> {
    /// The address operand `row + imm` of every lane.
    #[inline(always)]
    pub(in crate::exec) fn addresses(&self, i: &Instruction, row: Row, wide: bool, offset: i64) -> Addresses {
        let _ = i;
        let mut addresses = [0; 32];
        if wide {
            let base = self.lanes::<u64>(row);
            for lane in 0..32 {
                addresses[lane] = base[lane].wrapping_add_signed(offset);
            }
        } else {
            let base = self.lanes::<u32>(row);
            for lane in 0..32 {
                addresses[lane] = u64::from(base[lane].wrapping_add(offset as u32));
            }
        }
        addresses
    }

    /// The allocation that contains an address. It is remembered for the next execution of the instruction.
    #[inline(always)]
    pub(in crate::exec) fn allocation(&mut self, address: u64) -> Option<&'a Allocation> {
        let launch = self.launch;
        let hint = self.worker.hints[self.pc as usize] as usize;
        if let Some(found) = launch.memory.get(hint)
            && address.wrapping_sub(found.base) < found.size
        {
            return Some(found);
        }
        self.find_allocation(address)
    }

    #[cold]
    fn find_allocation(&mut self, address: u64) -> Option<&'a Allocation> {
        let launch = self.launch;
        let index = launch.memory.partition_point(|a| a.base <= address).checked_sub(1)?;
        let found = &launch.memory[index];
        if address - found.base < found.size {
            self.worker.hints[self.pc as usize] = index as u32;
            return Some(found);
        }
        None
    }

    /// The offsets of all lanes in one allocation, 0 for inactive lanes. `None` unless all of them are in bounds and
    /// aligned there; each lane must then be checked separately.
    #[inline(always)]
    pub(in crate::exec) fn global_offsets(
        &mut self,
        addresses: &Addresses,
        mask: u32,
        bytes: u64,
        alignment: u64,
    ) -> Option<(&'a Allocation, Addresses)> {
        let allocation = self.allocation(addresses[mask.trailing_zeros() as usize])?;
        let limit = allocation.size.checked_sub(bytes)?;
        let mut offsets = [0; 32];
        // The top bit of `wrong` is set by an offset that is negative or above the limit. Sizes are far below 2^63.
        let (mut wrong, mut low) = (0, 0);
        if mask == u32::MAX {
            for lane in 0..32 {
                let offset = addresses[lane].wrapping_sub(allocation.base);
                offsets[lane] = offset;
                wrong |= limit.wrapping_sub(offset) | offset;
                low |= offset;
            }
        } else {
            for lane in 0..32 {
                let offset = addresses[lane].wrapping_sub(allocation.base);
                let offset = if mask >> lane & 1 != 0 { offset } else { 0 };
                offsets[lane] = offset;
                wrong |= limit.wrapping_sub(offset) | offset;
                low |= offset;
            }
        }
        (wrong >> 63 == 0 && low & (alignment - 1) == 0).then_some((allocation, offsets))
    }

    /// Checks each lane's global access separately. The first wrong one stops the launch.
    #[cold]
    pub(in crate::exec) fn check_global(
        &mut self,
        addresses: &Addresses,
        mask: u32,
        bytes: u32,
        alignment: u32,
    ) -> Result<(), Flow> {
        for lane in lanes_of(mask) {
            let address = addresses[lane];
            if !address.is_multiple_of(u64::from(alignment)) {
                let kind = FaultKind::Misaligned { space: MemorySpace::Global, address, alignment };
                return Err(self.fail(Some(lane), kind));
            }
            let found = self.find_allocation(address);
            if found.is_none_or(|a| a.size - (address - a.base) < u64::from(bytes)) {
                return Err(self.out_of_bounds(lane, MemorySpace::Global, address, bytes));
            }
        }
        Ok(())
    }

    #[cold]
    pub(in crate::exec) fn out_of_bounds(&mut self, lane: usize, space: MemorySpace, address: u64, bytes: u32) -> Flow {
        let nearest = match space {
            MemorySpace::Global => nearest(&self.launch.memory, address),
            MemorySpace::Shared | MemorySpace::DistributedShared => {
                let offset = (address & ((1 << window::CLUSTER_SHIFT) - 1)) as u32;
                self.past_variable(offset, bytes)
                    .unwrap_or_else(|| format!("the block has {} bytes of shared memory", self.shared_size))
            }
            MemorySpace::Local => {
                let past = address.checked_sub(window::LOCAL).and_then(|offset| self.past_local(offset as u32, bytes));
                past.unwrap_or_else(|| format!("a thread has {} bytes of local memory", self.program.local_declared))
            }
            MemorySpace::Parameter => format!("the kernel has {} bytes of parameters", self.program.parameter_bytes),
        };
        self.fail(Some(lane), FaultKind::OutOfBounds { space, address, bytes, nearest })
    }

    /// Checks that the bytes that a global load reads have been written.
    #[inline(always)]
    pub(in crate::exec) fn check_global_written(
        &mut self,
        allocation: &Allocation,
        offsets: &Addresses,
        mask: u32,
        bytes: u32,
    ) -> Result<(), Flow> {
        if !self.checked || allocation.is_all_written() {
            return Ok(());
        }
        self.check_global_lanes_written(allocation, offsets, mask, bytes)
    }

    #[inline(never)]
    fn check_global_lanes_written(
        &mut self,
        allocation: &Allocation,
        offsets: &Addresses,
        mask: u32,
        bytes: u32,
    ) -> Result<(), Flow> {
        let (low, high) = span(offsets, mask);
        let range = high - low + u64::from(bytes);
        if range <= 1024 && allocation.is_written(low, range) {
            return Ok(());
        }
        for lane in lanes_of(mask) {
            if !allocation.is_written(offsets[lane], u64::from(bytes)) {
                let kind = FaultKind::Uninitialised {
                    space: MemorySpace::Global,
                    address: allocation.base + offsets[lane],
                    bytes,
                    buffer: format!("byte {} of `{}`", offsets[lane], allocation.name),
                };
                return Err(self.fail(Some(lane), kind));
            }
        }
        Ok(())
    }

    /// Marks the bytes of a global store as written.
    #[inline(always)]
    pub(in crate::exec) fn mark_global_written(
        &self,
        allocation: &Allocation,
        offsets: &Addresses,
        mask: u32,
        bytes: u32,
    ) {
        if self.checked && !allocation.is_all_written() {
            mark_lanes_written(allocation, offsets, mask, bytes);
        }
    }

    /// The offsets of all lanes in the block's own shared memory, 0 for inactive lanes; `None` as in
    /// [`Context::global_offsets`].
    #[inline(always)]
    pub(in crate::exec) fn shared_offsets(
        &self,
        addresses: &Addresses,
        mask: u32,
        bytes: u32,
        alignment: u32,
    ) -> Option<[u32; 32]> {
        let limit = self.shared_size.checked_sub(bytes)?;
        let mut offsets = [0; 32];
        let (mut highest, mut low) = (0, 0);
        for lane in 0..32 {
            // Shared addresses have 32 bits.
            let offset = addresses[lane] as u32;
            let offset = if mask >> lane & 1 != 0 { offset } else { 0 };
            offsets[lane] = offset;
            highest = offset.max(highest);
            low |= offset;
        }
        (highest <= limit && low & (alignment - 1) == 0).then_some(offsets)
    }

    /// The block (its index in the cluster) and the offset of a lane's shared address, checked.
    #[cold]
    pub(in crate::exec) fn shared_place(
        &mut self,
        lane: usize,
        address: u64,
        bytes: u32,
        alignment: u32,
    ) -> Result<(usize, u32), Flow> {
        let address = u64::from(address as u32);
        let rank = (address >> window::CLUSTER_SHIFT) as usize;
        let (block, space) = match rank.checked_sub(1) {
            None => (self.block, MemorySpace::Shared),
            Some(other) => (other, MemorySpace::DistributedShared),
        };
        let offset = (address & ((1 << window::CLUSTER_SHIFT) - 1)) as u32;
        if !offset.is_multiple_of(alignment) {
            let kind = FaultKind::Misaligned { space, address, alignment };
            return Err(self.fail(Some(lane), kind));
        }
        let size = self.cluster.blocks.get(block).map_or(0, |b| b.shared.size());
        let past = self.checked && self.past_variable(offset, bytes).is_some();
        if past || size.checked_sub(bytes).is_none_or(|limit| offset > limit) {
            return Err(self.out_of_bounds(lane, space, address, bytes));
        }
        Ok((block, offset))
    }

    #[cold]
    pub(in crate::exec) fn shared_uninitialised(&mut self, lane: usize, offset: u32, bytes: u32) -> Flow {
        let kind = FaultKind::Uninitialised {
            space: MemorySpace::Shared,
            address: u64::from(offset),
            bytes,
            buffer: format!("byte {offset} of the block's shared memory"),
        };
        self.fail(Some(lane), kind)
    }

    /// Marks the bytes of a shared store as written.
    #[inline(always)]
    pub(in crate::exec) fn mark_shared_written(&mut self, offsets: &[u32; 32], mask: u32, bytes: u32) {
        if self.checked {
            let shared = &mut self.cluster.blocks[self.block].shared;
            if !shared.is_all_written() {
                for lane in lanes_of(mask) {
                    shared.mark_written(offsets[lane], bytes);
                }
            }
        }
    }

    /// The offset in local memory of a lane's local address, and that in the memory of all lanes.
    pub(in crate::exec) fn local_place(
        &mut self,
        lane: usize,
        address: u64,
        bytes: u32,
        alignment: u32,
    ) -> Result<(u32, usize), Flow> {
        let address = self.own_address(lane, address)?;
        let size = u64::from(self.program.local_bytes);
        let offset = address.wrapping_sub(window::LOCAL);
        if !address.is_multiple_of(u64::from(alignment)) {
            let kind = FaultKind::Misaligned { space: MemorySpace::Local, address, alignment };
            return Err(self.fail(Some(lane), kind));
        }
        if offset > size || size - offset < u64::from(bytes) {
            return Err(self.out_of_bounds(lane, MemorySpace::Local, address, bytes));
        }
        if !self.warp.ended_frames.is_empty() {
            self.check_frame(lane, offset as u32, bytes)?;
        }
        Ok((offset as u32, lane * size as usize + offset as usize))
    }

    /// The lanes of the mask whose generic address is in the same window as the first one's, and that window.
    pub(in crate::exec) fn same_window(&self, addresses: &Addresses, mask: u32) -> (u8, u32) {
        let first = window_of(addresses[mask.trailing_zeros() as usize]);
        let same = lanes_of(mask).filter(|&l| window_of(addresses[l]) == first).fold(0, |m, l| m | 1 << l);
        (first, same)
    }
}

/// The state space of a generic address.
pub(in crate::exec) fn window_of(address: u64) -> u8 {
    match address {
        window::PARAMETERS..window::LOCAL => PARAMETER,
        window::LOCAL..window::SHARED => LOCAL,
        window::SHARED..window::SHARED_END => SHARED,
        _ if address >> window::OWNER_SHIFT != 0 => LOCAL,
        _ => GLOBAL,
    }
}

/// The lowest and highest offset of the active lanes.
fn span(offsets: &Addresses, mask: u32) -> (u64, u64) {
    lanes_of(mask).fold((u64::MAX, 0), |(low, high), l| (low.min(offsets[l]), high.max(offsets[l])))
}

#[inline(never)]
fn mark_lanes_written(allocation: &Allocation, offsets: &Addresses, mask: u32, bytes: u32) {
    let step = u64::from(bytes);
    let mut lanes = lanes_of(mask);
    let Some(first) = lanes.next() else { return };
    let (mut start, mut end) = (offsets[first], offsets[first] + step);
    // Neighbouring lanes usually write neighbouring bytes, so runs are marked.
    for lane in lanes {
        if offsets[lane] == end {
            end += step;
        } else {
            allocation.mark_written(start, end - start);
            (start, end) = (offsets[lane], offsets[lane] + step);
        }
    }
    allocation.mark_written(start, end - start);
}
