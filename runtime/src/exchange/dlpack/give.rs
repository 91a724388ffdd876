//! Gives tensors to other libraries.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use super::Owned;
use super::abi::{DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor};
use crate::device::DeviceKind;
use crate::error::Result;
use crate::error::exchange::ExchangeError;
use crate::memory::buffer::BufferMemory;
use crate::tensor::DeviceTensor;

/// The tensor and lists that a structure of ours keeps until its deleter is called.
struct Given {
    _tensor: DeviceTensor,
    shape: Box<[i64]>,
    strides: Box<[i64]>,
}

impl DeviceTensor {
    /// This view as a DLPack tensor of version 1, which keeps the memory alive: nothing is copied. On a GPU, this waits
    /// for the work that uses the tensor.
    ///
    /// Accesses of other libraries are not ordered with those of this one: while one side writes, the other must not
    /// touch the memory.
    ///
    /// # Errors
    /// [`ExchangeError::Borrowed`] for memory that a scope has borrowed, which a DLPack tensor may outlive;
    /// [`Error::Unsupported`](crate::Error::Unsupported) on an emulated device; on a GPU, a fault of that work.
    pub fn to_dlpack(&self) -> Result<Owned<DLManagedTensorVersioned>> {
        let (dl_tensor, context) = self.give()?;
        let flags = if self.buffer().is_writable() { 0 } else { DLManagedTensorVersioned::READ_ONLY };
        let managed = DLManagedTensorVersioned {
            version: DLPackVersion::OURS,
            manager_ctx: context,
            deleter: Some(delete_versioned),
            flags,
            dl_tensor,
        };
        // SAFETY: it is valid, nobody else has it, and what it keeps may be used and dropped on any thread.
        Ok(unsafe { Owned::from_raw(NonNull::from(Box::leak(Box::new(managed)))) })
    }

    /// [`to_dlpack`](Self::to_dlpack) in the layout from before version 1 (in Python a capsule named "dltensor").
    ///
    /// # Errors
    /// The errors of [`to_dlpack`](Self::to_dlpack); [`ExchangeError::ReadOnly`] for read-only memory, which that
    /// layout can't express.
    pub fn to_dlpack_unversioned(&self) -> Result<Owned<DLManagedTensor>> {
        self.buffer().require_writable()?;
        let (dl_tensor, context) = self.give()?;
        let managed = DLManagedTensor { dl_tensor, manager_ctx: context, deleter: Some(delete_unversioned) };
        // SAFETY: as above.
        Ok(unsafe { Owned::from_raw(NonNull::from(Box::leak(Box::new(managed)))) })
    }

    /// The tensor's description, and a [`Given`] that it points into.
    fn give(&self) -> Result<(DLTensor, *mut c_void)> {
        let (device_type, device_id) = match self.device().kind() {
            DeviceKind::Cpu => (DLDevice::CPU, 0),
            DeviceKind::Cuda { ordinal } => (DLDevice::CUDA, i32::try_from(ordinal).unwrap_or(i32::MAX)),
            DeviceKind::Emulated { .. } | DeviceKind::Target { .. } => {
                return Err(self
                    .device()
                    .unsupported("give memory to DLPack", "copy the tensor to the CPU (`copy_to`)"));
            }
        };
        match self.buffer().memory() {
            BufferMemory::Host(memory) if memory.is_of_scope() => return Err(ExchangeError::Borrowed.into()),
            BufferMemory::Cuda(allocation) if allocation.is_of_scope() => return Err(ExchangeError::Borrowed.into()),
            BufferMemory::Cuda(allocation) => allocation.wait()?,
            BufferMemory::None { .. } => {
                let advice = "give a tensor of a device that computes";
                return Err(self.device().unsupported("give a tensor without memory to DLPack", advice));
            }
            BufferMemory::Host(_) | BufferMemory::Emulated(_) => {}
        }
        let data = if self.is_empty() { ptr::null_mut() } else { self.device_address() as *mut c_void };
        let mut given = Box::new(Given {
            _tensor: self.clone(),
            shape: self.shape().iter().map(|&n| n as i64).collect(),
            strides: self.strides().iter().map(|&n| n as i64).collect(),
        });
        let dl_tensor = DLTensor {
            data,
            device: DLDevice { device_type, device_id },
            ndim: i32::try_from(self.rank()).unwrap_or(i32::MAX),
            dtype: DLDataType::of(self.element_type()),
            shape: given.shape.as_mut_ptr(),
            strides: given.strides.as_mut_ptr(),
            byte_offset: 0,
        };
        Ok((dl_tensor, Box::into_raw(given).cast()))
    }
}

/// # Safety
/// Called once, with a structure of [`DeviceTensor::to_dlpack`].
unsafe extern "C" fn delete_versioned(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: both were boxes.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.manager_ctx.cast::<Given>()));
    }
}

/// # Safety
/// Called once, with a structure of [`DeviceTensor::to_dlpack_unversioned`].
unsafe extern "C" fn delete_unversioned(managed: *mut DLManagedTensor) {
    // SAFETY: both were boxes.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.manager_ctx.cast::<Given>()));
    }
}
