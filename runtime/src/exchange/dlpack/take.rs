//! Takes tensors from other libraries.

use std::ptr::NonNull;
use std::sync::Arc;

use smallvec::SmallVec;

use super::abi::{DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor};
use super::sealed::Layout as Structure;
use super::{Managed, Owned};
use crate::device::cuda::Allocation;
use crate::device::{Backend, Device, DeviceKind};
use crate::error::exchange::ExchangeError;
use crate::error::{LayoutError, Result};
use crate::layout::ViewLayout;
use crate::layout::element::ElementType;
use crate::memory::buffer::{Buffer, BufferMemory};
use crate::memory::host_memory::{HostMemory, Rights};
use crate::tensor::DeviceTensor;

impl Structure for DLManagedTensor {
    unsafe fn tensor(this: *const Self) -> Result<DLTensor> {
        // SAFETY: the caller's promise.
        Ok(unsafe { (*this).dl_tensor })
    }

    unsafe fn is_read_only(_: *const Self) -> bool {
        false
    }

    unsafe fn release(this: *mut Self) {
        // SAFETY: the structure is valid until its deleter is called.
        unsafe {
            if let Some(deleter) = (*this).deleter {
                deleter(this);
            }
        }
    }
}

impl Structure for DLManagedTensorVersioned {
    unsafe fn tensor(this: *const Self) -> Result<DLTensor> {
        // SAFETY: the caller's promise; the version's place is the same in every version.
        let DLPackVersion { major, minor } = unsafe { (*this).version };
        if major != DLPackVersion::OURS.major {
            return Err(ExchangeError::DlpackVersion { major, minor }.into());
        }
        // SAFETY: it is of this version.
        Ok(unsafe { (*this).dl_tensor })
    }

    unsafe fn is_read_only(this: *const Self) -> bool {
        // SAFETY: the caller's promise.
        unsafe { (*this).flags & Self::READ_ONLY != 0 }
    }

    unsafe fn release(this: *mut Self) {
        // SAFETY: the structure is valid until its deleter is called, and the deleter's place is the same in every
        // version.
        unsafe {
            if let Some(deleter) = (*this).deleter {
                deleter(this);
            }
        }
    }
}

impl Device {
    /// A tensor in the memory of a DLPack tensor, which it keeps: nothing is copied. Strides and the byte offset are
    /// preserved; memory that is marked read-only is not written. The deleter is called when the last view is dropped
    /// and the work that uses it is over; if this function fails, it is called before it returns.
    ///
    /// # Errors
    /// [`ExchangeError::DlpackVersion`]; [`ExchangeError::DlpackDevice`] for memory of another device;
    /// [`ExchangeError::ElementType`]; [`ExchangeError::DlpackTensor`] for a structure that contradicts itself;
    /// [`LayoutError::NegativeStride`], [`LayoutError::Misaligned`], [`LayoutError::TooLarge`].
    ///
    /// # Safety
    /// The structure is as it says: it has the given number of extents and strides, and memory for all elements. While
    /// the result and its views live, others order their work on that memory with this work: they do not write it, or
    /// read results of this work, without being ordered with it.
    pub unsafe fn take_dlpack<M: Managed>(&self, managed: Owned<M>) -> Result<DeviceTensor> {
        let tensor = managed.tensor()?;
        self.require_dlpack(tensor.device)?;
        let element = tensor.dtype.element();
        let element = element.ok_or_else(|| ExchangeError::ElementType { given: tensor.dtype.describe() })?;
        // SAFETY: the caller's promise.
        let layout = unsafe { layout(&tensor, element)? };
        let address = address(&tensor, element, layout.len())?;
        let bytes = layout.span() * element.size();
        // SAFETY: the structure is valid, and has been read.
        let write = !unsafe { M::is_read_only(managed.0.as_ptr()) };
        let rights = Rights { write, gaps: layout.is_packed() };
        let memory = match self.backend() {
            Backend::Cuda { gpu, .. } => {
                // SAFETY: the caller's promise; `managed` keeps the memory.
                BufferMemory::Cuda(unsafe { Allocation::kept_by(gpu, address, rights.write, Box::new(managed)) })
            }
            Backend::Host(_) | Backend::Emulated(_) | Backend::Target(_) => {
                let pointer = NonNull::new(address as *mut u8).unwrap_or(NonNull::<u64>::dangling().cast());
                // SAFETY: as above.
                BufferMemory::Host(unsafe { HostMemory::kept_by(Box::new(managed), pointer, bytes, rights) })
            }
        };
        Ok(DeviceTensor::new(Arc::new(Buffer::new(self.clone(), bytes, memory)), element, layout))
    }

    /// An error unless a DLPack tensor's memory is this device's.
    fn require_dlpack(&self, given: DLDevice) -> Result<(), ExchangeError> {
        let fits = match self.kind() {
            DeviceKind::Cpu => given.device_type == DLDevice::CPU,
            DeviceKind::Cuda { ordinal } => {
                given.device_type == DLDevice::CUDA && usize::try_from(given.device_id) == Ok(ordinal)
            }
            DeviceKind::Emulated { .. } | DeviceKind::Target { .. } => false,
        };
        let DLDevice { device_type, device_id } = given;
        if fits {
            Ok(())
        } else {
            Err(ExchangeError::DlpackDevice { device_type, device_id, needed: self.to_string() })
        }
    }
}

fn contradiction(reason: String) -> ExchangeError {
    ExchangeError::DlpackTensor { reason }
}

/// The tensor's shape and strides.
///
/// # Safety
/// `shape` and `strides`, unless null, have `ndim` numbers.
unsafe fn layout(tensor: &DLTensor, element: ElementType) -> Result<ViewLayout> {
    let rank = usize::try_from(tensor.ndim).map_err(|_| contradiction(format!("it has {} axes", tensor.ndim)))?;
    if rank == 0 {
        return Ok(ViewLayout::packed(&[], element.size())?);
    }
    if tensor.shape.is_null() {
        return Err(contradiction(format!("it has {rank} axes, and no shape (its pointer is null)")).into());
    }
    // SAFETY: the caller's promise.
    let extents = unsafe { std::slice::from_raw_parts(tensor.shape, rank) };
    let shape = extents.iter().map(|&n| usize::try_from(n)).collect::<Result<SmallVec<[usize; 4]>, _>>();
    let shape = shape.map_err(|_| contradiction(format!("an extent of its shape {extents:?} can't be")))?;
    if tensor.strides.is_null() {
        return Ok(ViewLayout::packed(&shape, element.size())?);
    }
    // SAFETY: as above.
    let given = unsafe { std::slice::from_raw_parts(tensor.strides, rank) };
    let strides = given.iter().map(|&n| isize::try_from(n)).collect::<Result<SmallVec<[isize; 4]>, _>>();
    let strides = strides.map_err(|_| LayoutError::TooLarge { shape: shape.to_vec() })?;
    Ok(ViewLayout::strided(&shape, &strides, element.size())?)
}

/// The address of the first element; if there are no elements, an aligned one.
fn address(tensor: &DLTensor, element: ElementType, count: usize) -> Result<u64> {
    let alignment = element.size();
    if count == 0 {
        return Ok(alignment as u64);
    }
    if tensor.data.is_null() {
        return Err(contradiction("it has elements, and no memory (its pointer is null)".to_owned()).into());
    }
    let address = (tensor.data as u64).checked_add(tensor.byte_offset);
    let address = address.ok_or_else(|| contradiction(format!("its byte offset {} can't be", tensor.byte_offset)))?;
    if address.is_multiple_of(alignment as u64) {
        return Ok(address);
    }
    Err(LayoutError::Misaligned { address, alignment, element }.into())
}
