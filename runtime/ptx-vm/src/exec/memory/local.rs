//! Loads and stores of a thread's own memory: local memory and, for loads, parameters.
//!
//! The generic address of a local variable has the number of its thread in its top bits. So an access by another thread
//! is noticed: on a GPU it would be to that thread's own memory.

use crate::error::MemorySpace;
use crate::exec::context::{Context, Flow, lanes_of};
use crate::exec::lane::Lane;
use crate::exec::lanes::Operation;
use crate::exec::memory::access::{Addresses, Values, element_row};
use crate::exec::state::fault::FaultKind;
use crate::exec::state::undefined::ReadFrom;
use crate::memory::global::Word;
use crate::memory::window;
use crate::program::Instruction;

impl Context<'_> {
    /// The top bits of the generic addresses of a lane's local memory. Threads of a block have different ones; so have the
    /// same threads of neighbouring blocks.
    fn owner(&self, lane: usize) -> u64 {
        /// 16 bits are left above addresses, and a block has up to 1024 threads.
        const BLOCKS: u64 = 63;
        let block = u64::from(self.worker.cluster) * u64::from(self.launch.cluster_size) + self.block as u64;
        let thread = u64::from(self.warp.index * 32) + lane as u64;
        (1 + thread + 1024 * (block % BLOCKS)) << window::OWNER_SHIFT
    }

    /// A lane's address of local memory without the number of its thread, which must be the lane's own.
    pub(in crate::exec) fn own_address(&mut self, lane: usize, address: u64) -> Result<u64, Flow> {
        let owner = address >> window::OWNER_SHIFT << window::OWNER_SHIFT;
        if owner == 0 || owner == self.owner(lane) {
            return Ok(address ^ owner);
        }
        let message = "the address is that of another thread's local memory: pass values on in shared or global memory";
        Err(self.invalid(Some(lane), message))
    }
}

/// `cvta.local d, a`, and with `imm` 1 `cvta.to.local d, a`.
pub(crate) struct ConvertLocal;

impl Operation for ConvertLocal {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        for lane in lanes_of(mask) {
            let (address, owner) = (context.get::<u64>(i.a, lane), context.owner(lane));
            // A foreign address stays one. So does what isn't an address, as where code is moved out of a condition.
            let converted = match (i.imm, address >> window::OWNER_SHIFT) {
                (0, 0) if (window::LOCAL..window::SHARED).contains(&address) => address | owner,
                (1, _) if address >> window::OWNER_SHIFT << window::OWNER_SHIFT == owner => address ^ owner,
                _ => address,
            };
            context.lanes_mut::<u64>(i.d)[lane] = converted;
        }
        Flow::Next
    }
}

/// Loads from local memory and parameters.
#[inline(never)]
pub(super) fn load_private<T: Lane + Word, const N: usize>(
    context: &mut Context<'_>,
    i: &Instruction,
    addresses: &Addresses,
    mask: u32,
    values: &mut Values<T, N>,
) -> Result<(), Flow> {
    let size = (size_of::<T>() * N) as u32;
    let past = context.lanes_past_local(addresses, mask, size);
    let mut unwritten = [0u32; N];
    for lane in lanes_of(mask) {
        let address = addresses[lane];
        let (bytes, start) = if address >= window::LOCAL {
            let (offset, start) = context.local_place(lane, address, size, size)?;
            for (n, lanes) in unwritten.iter_mut().enumerate() {
                let at = offset + (n * size_of::<T>()) as u32;
                *lanes |= u32::from(!context.warp.local_written.any(lane, at, size_of::<T>() as u32)) << lane;
            }
            (context.warp.local.as_slice(), start)
        } else {
            let parameters = context.launch.parameters.as_slice();
            let offset = address.wrapping_sub(window::PARAMETERS);
            if !address.is_multiple_of(u64::from(size)) {
                let kind = FaultKind::Misaligned { space: MemorySpace::Parameter, address, alignment: size };
                return Err(context.fail(Some(lane), kind));
            }
            if offset > parameters.len() as u64 || parameters.len() as u64 - offset < u64::from(size) {
                return Err(context.out_of_bounds(lane, MemorySpace::Parameter, address, size));
            }
            (parameters, offset as usize)
        };
        for (n, values) in values.iter_mut().enumerate() {
            let at = start + n * size_of::<T>();
            let mut raw = [0; 8];
            raw[..size_of::<T>()].copy_from_slice(&bytes[at..at + size_of::<T>()]);
            values[lane] = T::from_bits(u64::from_le_bytes(raw)).to_cell();
        }
    }
    for (n, lanes) in unwritten.iter().map(|lanes| lanes | past).enumerate().filter(|(_, lanes)| *lanes != 0) {
        let lane = lanes.trailing_zeros() as usize;
        let place = if past != 0 { 0 } else { n * size_of::<T>() };
        let bytes = if past != 0 { size } else { size_of::<T>() as u32 };
        // Without the number of the thread, too.
        let offset = (addresses[lane] - window::LOCAL) as u32 + place as u32;
        context.note_undefined_row(element_row(context, i, i.d, n, N), lanes, lane, ReadFrom::Local { offset, bytes });
    }
    let space = if addresses[mask.trailing_zeros() as usize] >= window::LOCAL {
        MemorySpace::Local
    } else {
        MemorySpace::Parameter
    };
    context.count_read(space, mask, size);
    Ok(())
}

/// Stores to local memory.
#[inline(never)]
pub(super) fn store_local<T: Lane + Word, const N: usize>(
    context: &mut Context<'_>,
    i: &Instruction,
    addresses: &Addresses,
    mask: u32,
) -> Result<(), Flow> {
    let size = (size_of::<T>() * N) as u32;
    let past = context.lanes_past_local(addresses, mask, size);
    for lane in lanes_of(mask) {
        let (offset, start) = context.local_place(lane, addresses[lane], size, size)?;
        if past >> lane & 1 != 0 {
            return Err(context.out_of_bounds(lane, MemorySpace::Local, addresses[lane], size));
        }
        for n in 0..N {
            let row = element_row(context, i, i.b, n, N);
            let value: T = context.get(row, lane);
            let is_defined = context.warp.undefined.get(row).0 >> lane & 1 == 0;
            let place = offset + (n * size_of::<T>()) as u32;
            context.warp.local_written.mark(lane, place, size_of::<T>() as u32, is_defined);
            let at = start + n * size_of::<T>();
            let bytes = value.into_bits().to_le_bytes();
            context.warp.local[at..at + size_of::<T>()].copy_from_slice(&bytes[..size_of::<T>()]);
        }
    }
    context.count_write(MemorySpace::Local, mask, size);
    Ok(())
}
