//! One allocation on one device. Tensors share it; it is freed with the last of them.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::Device;
use crate::device::cuda::{Access, Allocation};
use crate::device::emulated::EmulatedMemory;
use crate::device::status::Seen;
use crate::error::Result;
use crate::error::exchange::ExchangeError;
use crate::memory::host_memory::HostMemory;

/// Memory of a device. Its bytes always hold values, because allocations start filled.
pub(crate) struct Buffer {
    device: Device,
    bytes: usize,
    memory: Memory,
    seen: Seen,
}

/// The memory, by kind of device.
pub(crate) enum Memory {
    Host(HostMemory),
    Cuda(Allocation),
    Emulated(EmulatedMemory),
    /// No memory, at an address that no other buffer without memory has.
    None {
        address: u64,
    },
}

impl Memory {
    /// The memory of a buffer of this many bytes without memory.
    pub(crate) fn none(bytes: usize) -> Self {
        /// Higher than the addresses that devices have.
        static NEXT: AtomicU64 = AtomicU64::new(1 << 62);
        let room = (bytes as u64).clamp(1, 1 << 56).next_multiple_of(256);
        Self::None { address: NEXT.fetch_add(room, Ordering::Relaxed) }
    }
}

impl Buffer {
    pub(crate) fn new(device: Device, bytes: usize, memory: Memory) -> Self {
        let seen = device.status().seen();
        Self { device, bytes, memory, seen }
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// On an emulated device: the memory, and whether it is written.
    pub(crate) fn emulated_use(&self, access: Access) -> Option<(&EmulatedMemory, bool)> {
        match &self.memory {
            Memory::Emulated(memory) => Some((memory, access == Access::Write)),
            Memory::Host(_) | Memory::Cuda(_) | Memory::None { .. } => None,
        }
    }

    /// The address of the first byte, as the device's kernels see it; on the CPU, the pointer.
    pub(crate) fn address(&self) -> u64 {
        match &self.memory {
            Memory::Host(memory) => memory.pointer() as u64,
            Memory::Cuda(allocation) => allocation.address(),
            Memory::Emulated(memory) => memory.address(),
            Memory::None { address } => *address,
        }
    }

    pub(crate) fn into_memory(self) -> Memory {
        self.memory
    }

    /// Number of bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the memory may be written.
    pub(crate) fn is_writable(&self) -> bool {
        match &self.memory {
            Memory::Host(memory) => memory.rights().write,
            Memory::Cuda(allocation) => allocation.is_writable(),
            Memory::Emulated(_) | Memory::None { .. } => true,
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
            Memory::Host(memory) => memory.read(offset, into)?,
            Memory::Cuda(allocation) => allocation.read(offset, into)?,
            Memory::Emulated(memory) => memory.read(offset, into)?,
            Memory::None { .. } => {
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
            Memory::Host(memory) => memory.write(offset, from)?,
            Memory::Cuda(allocation) => allocation.write(offset, from)?,
            Memory::Emulated(memory) => memory.write(offset, from)?,
            // Nobody can read it.
            Memory::None { .. } => {}
        }
        Ok(())
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes on {})", self.bytes, self.device)
    }
}
