//! One allocation on one device. Tensors share it; it is freed with the last of them.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::Device;
use crate::device::cuda::{Allocation, AllocationAccess};
use crate::device::emulated::EmulatedMemory;
use crate::device::status::SeenFailures;
use crate::error::Result;
use crate::error::exchange::ExchangeError;
use crate::memory::host_memory::HostMemory;

/// Memory of a device. Its bytes always hold values, because allocations start filled.
pub(crate) struct Buffer {
    device: Device,
    bytes: usize,
    memory: BufferMemory,
    seen: SeenFailures,
}

/// The memory, by kind of device.
pub(crate) enum BufferMemory {
    Host(HostMemory),
    Cuda(Allocation),
    Emulated(EmulatedMemory),
    /// No memory, at an address that no other buffer without memory has.
    None {
        address: u64,
    },
}

impl BufferMemory {
    /// The memory of a buffer of this many bytes without memory.
    pub(crate) fn none(bytes: usize) -> Self {
        /// Higher than the addresses that devices have.
        static NEXT: AtomicU64 = AtomicU64::new(1 << 62);
        let room = (bytes as u64).clamp(1, 1 << 56).next_multiple_of(256);
        Self::None { address: NEXT.fetch_add(room, Ordering::Relaxed) }
    }
}

impl Buffer {
    pub(crate) fn new(device: Device, bytes: usize, memory: BufferMemory) -> Self {
        let seen = device.status().seen();
        Self { device, bytes, memory, seen }
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn memory(&self) -> &BufferMemory {
        &self.memory
    }

    /// On an emulated device: the memory, and whether it is written.
    pub(crate) fn emulated_use(&self, access: AllocationAccess) -> Option<(&EmulatedMemory, bool)> {
        match &self.memory {
            BufferMemory::Emulated(memory) => Some((memory, access == AllocationAccess::Write)),
            BufferMemory::Host(_) | BufferMemory::Cuda(_) | BufferMemory::None { .. } => None,
        }
    }

    /// The address of the first byte, as the device's kernels see it; on the CPU, the pointer.
    pub(crate) fn address(&self) -> u64 {
        match &self.memory {
            BufferMemory::Host(memory) => memory.pointer() as u64,
            BufferMemory::Cuda(allocation) => allocation.address(),
            BufferMemory::Emulated(memory) => memory.address(),
            BufferMemory::None { address } => *address,
        }
    }

    pub(crate) fn into_memory(self) -> BufferMemory {
        self.memory
    }

    /// Number of bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the memory may be written.
    pub(crate) fn is_writable(&self) -> bool {
        match &self.memory {
            BufferMemory::Host(memory) => memory.rights().write,
            BufferMemory::Cuda(allocation) => allocation.is_writable(),
            BufferMemory::Emulated(_) | BufferMemory::None { .. } => true,
        }
    }

    /// An error unless the memory may be written.
    pub(crate) fn require_writable(&self) -> Result<(), ExchangeError> {
        if self.is_writable() { Ok(()) } else { Err(ExchangeError::ReadOnly) }
    }

    /// Copies bytes out, after every earlier write on any stream. Fails if a kernel has reported a failure since the
    /// last read.
    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        debug_assert!(offset + into.len() <= self.bytes);
        match &self.memory {
            BufferMemory::Host(memory) => memory.read(offset, into)?,
            BufferMemory::Cuda(allocation) => allocation.read(offset, into)?,
            BufferMemory::Emulated(memory) => memory.read(offset, into)?,
            BufferMemory::None { .. } => {
                return Err(self.device.unsupported("read a tensor without memory", "run on a device that computes"));
            }
        }
        self.device.status().report(&self.seen)
    }

    /// Copies bytes in, after every earlier use on any stream.
    pub(crate) fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        debug_assert!(offset + from.len() <= self.bytes);
        self.require_writable()?;
        match &self.memory {
            BufferMemory::Host(memory) => memory.write(offset, from)?,
            BufferMemory::Cuda(allocation) => allocation.write(offset, from)?,
            BufferMemory::Emulated(memory) => memory.write(offset, from)?,
            // Nobody can read it.
            BufferMemory::None { .. } => {}
        }
        Ok(())
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes on {})", self.bytes, self.device)
    }
}
