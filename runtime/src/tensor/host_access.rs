//! Access to the bytes of CPU tensors.
//!
//! Every CPU buffer has a lock. [`HostAccess::lock`] takes those of several tensors at once, always in the same order.
//! So two products on shared tensors can't wait for each other forever.

use smallvec::SmallVec;

use crate::device::Device;
use crate::error::Result;
use crate::error::exchange::ExchangeError;
use crate::memory::buffer::{Buffer, BufferMemory};
use crate::memory::host_lock::{Held, HostUse};
use crate::memory::host_memory::HostMemory;
use crate::tensor::DeviceTensor;

/// The tensors of most calls: lists of this length need no allocation.
const FEW: usize = 8;

/// Exclusive or shared use of the buffers of some CPU tensors, for as long as this value lives.
///
/// The locks are per buffer, not per view: while one view is written, no other view of its buffer can be locked. A
/// thread may lock again for reading what it has locked for reading. Locks for which threads would wait for each other
/// in a circle are refused; the library doesn't know what else threads wait for. An example are jobs of a thread pool,
/// which may be of another thread, or run on this one.
#[derive(Debug)]
pub struct HostAccess<'a> {
    _locks: SmallVec<[Held<'a>; FEW]>,
    reads: SmallVec<[*const u8; FEW]>,
    writes: SmallVec<[*mut u8; FEW]>,
}

impl<'a> HostAccess<'a> {
    /// Locks the buffers of `reads` for reading and of `writes` for writing, and waits until it has them. A buffer in
    /// both is locked for writing.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) for a tensor that is not on the CPU; [`ExchangeError::ReadOnly`] for one
    /// of `writes` in memory that may only be read; [`ExchangeError::Ended`] for one in memory borrowed by a scope that
    /// is over; [`ExchangeError::WaitsForItself`] for one that this thread, or one that waits for it, has locked.
    pub fn lock(reads: &[&'a DeviceTensor], writes: &[&'a DeviceTensor]) -> Result<Self> {
        let mut wanted: SmallVec<[(&'a HostMemory, HostUse); FEW]> = SmallVec::new();
        for (tensor, wants) in
            reads.iter().map(|t| (*t, HostUse::Read)).chain(writes.iter().map(|t| (*t, HostUse::Write)))
        {
            wanted.push((host_memory(tensor.buffer())?, wants));
        }
        // One order for all threads; writers first, so that the writer stays if a buffer is wanted both ways. (Two
        // buffers may be borrowed from the same memory, so their addresses can't decide.)
        wanted.sort_by_key(|&(memory, wants)| (std::ptr::from_ref(memory) as usize, wants == HostUse::Read));
        wanted.dedup_by_key(|(memory, _)| std::ptr::from_ref(*memory) as usize);
        let locks = wanted.into_iter().map(|(memory, wants)| memory.hold(wants)).collect::<Result<_>>()?;
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
        BufferMemory::Host(memory) => Ok(memory),
        BufferMemory::None { .. } => {
            Err(buffer.device().unsupported("use a tensor without memory", "it is for `Device::dry_stream` only"))
        }
        BufferMemory::Cuda(_) | BufferMemory::Emulated(_) => Err(Device::cpu().mismatch(buffer.device(), "a tensor")),
    }
}

impl DeviceTensor {
    /// Calls `visit` with the bytes from the view's first element to its last (including gaps between strided rows),
    /// without a copy. CPU tensors only. The buffer is locked for reading meanwhile: `visit` may read the tensor, and what
    /// would write it is [`ExchangeError::WaitsForItself`].
    ///
    /// # Errors
    /// The errors of [`HostAccess::lock`]; [`ExchangeError::Gaps`] for a view with gaps in borrowed memory.
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

    /// [`with_bytes`](Self::with_bytes) for writing: `visit` can use the tensor's buffer through the slice only.
    ///
    /// # Errors
    /// The errors of [`HostAccess::lock`]; [`ExchangeError::Gaps`] for a view with gaps in borrowed memory.
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
    /// The caller accesses only the view's elements, and only while a tensor of this buffer lives. (If its memory is
    /// borrowed, only while the scope lasts.) It writes only memory that may be written. Meanwhile no other code,
    /// including this crate's functions, writes memory that the caller reads, or accesses memory that the caller
    /// writes.
    pub unsafe fn host_pointer(&self) -> Result<*mut u8> {
        host_memory(self.buffer())?;
        Ok(self.device_address() as *mut u8)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::error::Error;

    const LONG: Duration = Duration::from_secs(60);

    fn waits_for_itself<T: std::fmt::Debug>(result: &Result<T>) {
        assert!(matches!(result, Err(Error::Exchange(ExchangeError::WaitsForItself))), "{result:?}");
    }

    /// A call that would wait forever is an error, with a text that says why; everything else goes on.
    #[test]
    fn a_function_that_has_the_bytes_may_use_what_does_not_wait_for_it() {
        let (done, is_done) = channel();
        std::thread::spawn(move || {
            let cpu = Device::cpu();
            let (mut x, mut other) = (cpu.tensor(&[1f32, 2.0], [2]).unwrap(), cpu.zeros::<f32>([2]).unwrap());
            let mut view = x.clone();
            x.with_bytes(|bytes| {
                assert_eq!(view.to_vec::<f32>().unwrap(), [1.0, 2.0]);
                other.copy_from_bytes(bytes).unwrap();
                waits_for_itself(&view.copy_from(&[0f32; 2]));
                waits_for_itself(&view.with_bytes_mut(|_| ()));
                waits_for_itself(&HostAccess::lock(&[&other], &[&view]).map(drop));
                assert!(HostAccess::lock(&[&view], &[&other]).is_ok());
            })
            .unwrap();
            x.with_bytes_mut(|_| {
                waits_for_itself(&view.to_vec::<f32>());
                waits_for_itself(&view.slice(0, 0..1).and_then(|view| view.to_vec::<f32>()));
            })
            .unwrap();
            view.copy_from(&[3f32, 4.0]).unwrap();
            done.send((x.to_vec::<f32>().unwrap(), other.to_vec::<f32>().unwrap())).unwrap();
        });
        assert_eq!(is_done.recv_timeout(LONG), Ok((vec![3.0, 4.0], vec![1.0, 2.0])));
    }

    /// Two threads that read one tensor each, and then write the other's.
    #[test]
    fn threads_do_not_wait_for_each_other_in_a_circle() {
        let (done, is_done) = channel();
        std::thread::spawn(move || {
            let tensors = [0, 1].map(|_| Device::cpu().zeros::<f32>([1]).unwrap());
            let both = std::sync::Barrier::new(2);
            let refused = std::thread::scope(|scope| {
                let each = [0, 1].map(|own: usize| {
                    let (read, mut written, both) = (tensors[own].clone(), tensors[1 - own].clone(), &both);
                    scope.spawn(move || {
                        read.with_bytes(|_| {
                            both.wait();
                            written.copy_from(&[1f32]).is_err()
                        })
                    })
                });
                each.map(|thread| thread.join().unwrap().unwrap())
            });
            done.send(refused).unwrap();
        });
        let refused = is_done.recv_timeout(LONG).expect("nobody waits forever");
        assert_eq!(refused.iter().filter(|refused| **refused).count(), 1);
    }
}
