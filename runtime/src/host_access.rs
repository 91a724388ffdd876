//! Access to the bytes of CPU tensors.
//!
//! Every CPU buffer has a lock. [`HostAccess::lock`] takes those of several tensors at once, always in the same order,
//! so that two products on shared tensors can't wait for each other forever.

use std::sync::{RwLockReadGuard, RwLockWriteGuard};

use smallvec::SmallVec;

use crate::buffer::{Buffer, Memory};
use crate::device::Device;
use crate::error::Result;
use crate::exchange_error::ExchangeError;
use crate::host_memory::{HostMemory, Life};
use crate::tensor::DeviceTensor;

/// The tensors of most calls: lists of this length need no allocation.
const FEW: usize = 8;

/// Exclusive or shared use of the buffers of some CPU tensors, for as long as this value lives.
///
/// The locks are per buffer, not per view: while one view is written, no other view of its buffer can be locked.
/// Locking again on the same thread, while holding a lock of the same buffer, may wait forever. So may waiting in a
/// thread pool whose other jobs lock it, because such a job may run on this thread.
#[derive(Debug)]
pub struct HostAccess<'a> {
    _locks: SmallVec<[Lock<'a>; FEW]>,
    reads: SmallVec<[*const u8; FEW]>,
    writes: SmallVec<[*mut u8; FEW]>,
}

#[derive(Debug)]
#[allow(dead_code, reason = "held for their Drop")]
enum Lock<'a> {
    Read(RwLockReadGuard<'a, Life>),
    Write(RwLockWriteGuard<'a, Life>),
}

impl<'a> HostAccess<'a> {
    /// Locks the buffers of `reads` for reading and of `writes` for writing, and waits until it has them. A buffer in
    /// both is locked for writing.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) for a tensor that is not on the CPU; [`ExchangeError::ReadOnly`] for one
    /// of `writes` in memory that may only be read; [`ExchangeError::Ended`] for one in memory borrowed by a scope that
    /// is over.
    pub fn lock(reads: &[&'a DeviceTensor], writes: &[&'a DeviceTensor]) -> Result<Self> {
        let mut wanted: SmallVec<[(&'a HostMemory, bool); FEW]> = SmallVec::new();
        for (tensor, write) in reads.iter().map(|t| (*t, false)).chain(writes.iter().map(|t| (*t, true))) {
            wanted.push((host_memory(tensor.buffer())?, write));
        }
        // The same order for all threads; writers first, so that the writer stays if a buffer is wanted both ways. (Two
        // buffers may be borrowed from the same memory, so their addresses can't decide.)
        wanted.sort_by_key(|&(memory, write)| (std::ptr::from_ref(memory) as usize, !write));
        wanted.dedup_by_key(|(memory, _)| std::ptr::from_ref(*memory) as usize);
        let locks = wanted
            .into_iter()
            .map(|(memory, write)| {
                Ok(if write { Lock::Write(memory.write_lock()?) } else { Lock::Read(memory.read_lock()?) })
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            _locks: locks,
            reads: reads.iter().map(|t| t.device_address() as *const u8).collect(),
            writes: writes.iter().map(|t| t.device_address() as *mut u8).collect(),
        })
    }

    /// The first element of the `i`-th tensor given for reading. Its elements may be read while `self` lives.
    #[must_use]
    pub fn read_pointer(&self, i: usize) -> Option<*const u8> {
        self.reads.get(i).copied()
    }

    /// The first element of the `i`-th tensor given for writing. Its elements may be read and written while `self`
    /// lives. The caller makes sure that no two of its threads use one element at once.
    #[must_use]
    pub fn write_pointer(&self, i: usize) -> Option<*mut u8> {
        self.writes.get(i).copied()
    }
}

pub(crate) fn host_memory(buffer: &Buffer) -> Result<&HostMemory> {
    match buffer.memory() {
        Memory::Host(memory) => Ok(memory),
        Memory::None { .. } => {
            Err(buffer.device().unsupported("use a tensor without memory", "it is for `Device::dry_stream` only"))
        }
        Memory::Cuda(_) | Memory::Emulated(_) => Err(Device::cpu().mismatch(buffer.device(), "a tensor")),
    }
}

impl DeviceTensor {
    /// Calls `visit` with the bytes from the view's first element to its last (including gaps between strided rows),
    /// without a copy. CPU tensors only. The buffer is locked for reading meanwhile.
    ///
    /// # Errors
    /// Those of [`HostAccess::lock`]; [`ExchangeError::Gaps`] for a view with gaps in borrowed memory.
    pub fn with_bytes<R>(&self, visit: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let access = HostAccess::lock(&[self], &[])?;
        self.require_gaps()?;
        let range = self.byte_range();
        let length = (range.end - range.start) as usize;
        if length == 0 {
            return Ok(visit(&[]));
        }
        // SAFETY: the view lies in its buffer, which holds initialised bytes; the lock keeps writers out.
        let bytes = unsafe { std::slice::from_raw_parts(access.reads[0], length) };
        Ok(visit(bytes))
    }

    /// [`with_bytes`](Self::with_bytes) for writing.
    ///
    /// # Errors
    /// Those of [`HostAccess::lock`]; [`ExchangeError::Gaps`] for a view with gaps in borrowed memory.
    pub fn with_bytes_mut<R>(&mut self, visit: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        let access = HostAccess::lock(&[], &[self])?;
        self.require_gaps()?;
        let range = self.byte_range();
        let length = (range.end - range.start) as usize;
        if length == 0 {
            return Ok(visit(&mut []));
        }
        // SAFETY: the view lies in its buffer, which holds initialised bytes; the lock keeps everyone else out.
        let bytes = unsafe { std::slice::from_raw_parts_mut(access.writes[0], length) };
        Ok(visit(bytes))
    }

    /// An error if the bytes between the elements may belong to others.
    fn require_gaps(&self) -> Result<()> {
        if self.is_contiguous() || host_memory(self.buffer())?.rights().gaps {
            return Ok(());
        }
        Err(ExchangeError::Gaps { shape: self.shape().to_vec(), strides: self.strides().to_vec() }.into())
    }

    /// The first element of a CPU tensor, without a lock.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) for a tensor that is not on the CPU.
    ///
    /// # Safety
    /// The caller accesses only the view's elements, and only while a tensor of this buffer lives (and, if its memory
    /// is borrowed, while the scope lasts). It writes only memory that may be written, and makes sure that meanwhile no
    /// other code, including this crate's functions, writes what it reads or accesses what it writes.
    pub unsafe fn host_pointer(&self) -> Result<*mut u8> {
        host_memory(self.buffer())?;
        Ok(self.device_address() as *mut u8)
    }
}
