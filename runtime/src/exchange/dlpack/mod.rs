//! DLPack: tensors of other libraries in one process (PyTorch, JAX, NumPy, TVM, …), in both directions, without a copy.
//!
//! A DLPack tensor is a structure with a function `deleter`, which must be called once; then its maker frees it.
//! [`Owned`] is the structure as a value: dropping it calls the deleter.
//! [`Device::take_dlpack`](crate::Device::take_dlpack) makes a tensor that keeps the structure;
//! [`DeviceTensor::to_dlpack`](crate::DeviceTensor::to_dlpack) makes a structure that keeps the tensor. The structure
//! has two layouts, that of version 1 and an older one; both are read and written.
//!
//! ```
//! use epilogue_runtime::{Device, Error};
//!
//! let device = Device::cpu();
//! let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
//! let exported = x.transpose()?.to_dlpack()?.into_raw(); // for another library, in Python as a capsule "dltensor_versioned"
//!
//! // What another library does with it, this one can do as well.
//! // SAFETY: the structure is valid, and nobody else uses it; while `y` lives, `x` is not written.
//! let y = unsafe { device.take_dlpack(epilogue_runtime::dlpack::Owned::from_raw(exported))? };
//! assert_eq!((y.device_address(), y.shape(), y.strides()), (x.device_address(), &[3, 2][..], &[1, 3][..]));
//! # Ok::<(), Error>(())
//! ```
//!
//! Only `kDLCPU` and `kDLCUDA` are taken, each only by that device. On a GPU, tensors that are taken or given are not
//! ordered with other libraries' streams: `to_dlpack` waits for the work that uses the tensor. Before `take_dlpack` the
//! caller must wait, or make the stream on which the tensor will be used wait.

mod abi;
mod give;
mod take;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ptr::NonNull;

use crate::error::Result;

pub use abi::{DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor};

mod sealed {
    use super::DLTensor;
    use crate::error::Result;

    /// The common part of both layouts of the structure. Fields are read through pointers, since a structure of another
    /// version may be shorter.
    pub trait Layout: 'static {
        /// The tensor, or why it can't be read.
        ///
        /// # Safety
        /// The structure is valid.
        unsafe fn tensor(this: *const Self) -> Result<DLTensor>;
        /// Whether the memory must not be written.
        ///
        /// # Safety
        /// The structure is valid, and `tensor` has read it.
        unsafe fn is_read_only(this: *const Self) -> bool;
        /// Calls the deleter.
        ///
        /// # Safety
        /// The structure is valid, and nobody uses it any more.
        unsafe fn release(this: *mut Self);
    }
}

/// One of the two layouts of DLPack's structure.
pub trait Managed: sealed::Layout {}

impl Managed for DLManagedTensor {}
impl Managed for DLManagedTensorVersioned {}

/// An owned DLPack tensor. Dropping it calls its deleter.
pub struct Owned<M: Managed>(NonNull<M>);

impl<M: Managed> Owned<M> {
    /// Takes ownership of a structure from another library.
    ///
    /// # Safety
    /// `managed` is a valid structure of this layout (or of a later one, if its version says so). Nobody else uses or
    /// releases it from now on. Its memory stays valid until the deleter is called. The deleter may be called on any
    /// thread, and other threads may read the structure.
    #[must_use]
    pub unsafe fn from_raw(managed: NonNull<M>) -> Self {
        Self(managed)
    }

    /// The structure, for another library, which must release it.
    #[must_use]
    pub fn into_raw(self) -> NonNull<M> {
        let raw = self.0;
        std::mem::forget(self);
        raw
    }

    fn tensor(&self) -> Result<DLTensor> {
        // SAFETY: valid, as `from_raw` asks, until this value is dropped.
        unsafe { M::tensor(self.0.as_ptr()) }
    }
}

impl<M: Managed> Drop for Owned<M> {
    fn drop(&mut self) {
        // SAFETY: valid, and nobody else uses it; this is the only call.
        unsafe { M::release(self.0.as_ptr()) }
    }
}

// SAFETY: the structure is this value's alone, and may be used on any thread (`from_raw`).
unsafe impl<M: Managed> Send for Owned<M> {}
// SAFETY: as above.
unsafe impl<M: Managed> Sync for Owned<M> {}

impl<M: Managed> fmt::Debug for Owned<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owned({:?})", self.0)
    }
}
