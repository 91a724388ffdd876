//! The record to which a GPU's kernels write failures. It is in the host's memory, so that the host can check it at no
//! cost.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::sys::CUdeviceptr;

use super::context::Context;
use super::driver::call;
use crate::compile::failure::RECORD_BYTES;
use crate::error::Result;

/// Memory that is visible in every context, and has an address on the GPU.
const FLAGS: u32 = cudarc::driver::sys::CU_MEMHOSTALLOC_PORTABLE | cudarc::driver::sys::CU_MEMHOSTALLOC_DEVICEMAP;

/// A record. Kernels write it with atomic operations, which are atomic among the threads of one GPU even in the host's
/// memory; the host reads it only when it is complete.
pub(crate) struct HostRecord {
    host: *mut c_void,
    device: CUdeviceptr,
}

// SAFETY: the memory belongs to nobody else on the host, and is accessed by atomic and volatile operations only.
unsafe impl Send for HostRecord {}
// SAFETY: as above; `take` is called under a lock.
unsafe impl Sync for HostRecord {}

impl HostRecord {
    /// A free record.
    pub(crate) fn new(context: &'static Context) -> Result<Self> {
        let _current = context.bind()?;
        let (mut host, mut device) = (ptr::null_mut(), 0);
        // SAFETY: valid places to write to; what is allocated is as large as is filled.
        unsafe {
            call!(cuMemHostAlloc(&raw mut host, RECORD_BYTES, FLAGS))?;
            host.cast::<u8>().write_bytes(0, RECORD_BYTES);
            call!(cuMemHostGetDevicePointer_v2(&raw mut device, host, 0))?;
        }
        Ok(Self { host, device })
    }

    pub(crate) fn device_address(&self) -> u64 {
        self.device
    }

    /// The record's bytes, if it is complete. Then it is free again.
    pub(crate) fn take(&self) -> Option<[u8; RECORD_BYTES]> {
        // SAFETY: the driver's memory is aligned, lives as long as the device, and its first word is only used so.
        let state = unsafe { AtomicU32::from_ptr(self.host.cast()) };
        if state.load(Ordering::Acquire) != 2 {
            return None;
        }
        // SAFETY: kernels write the rest only between taking a free record and completing it.
        let bytes = unsafe { self.host.cast::<[u8; RECORD_BYTES]>().read_volatile() };
        state.store(0, Ordering::Release);
        Some(bytes)
    }
}
