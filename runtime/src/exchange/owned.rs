//! Memory that a tensor takes from its owner and gives back, or that it shares.

use std::ptr::NonNull;
use std::sync::Arc;

use super::scope::{check_alignment, of_bytes, require_host};
use crate::device::Device;
use crate::error::exchange::ExchangeError;
use crate::error::{Error, Result};
use crate::layout::ViewLayout;
use crate::layout::element::{Element, ElementType, PlainElement};
use crate::memory::buffer::{Buffer, BufferMemory};
use crate::memory::host_memory::{HostMemory, Rights};
use crate::tensor::DeviceTensor;
use crate::tensor::create::check_length;
use crate::tensor::host_access::host_memory;

/// A tensor that could not be given away without a copy, and why. `?` drops the tensor if the function's error is an
/// [`Error`].
#[derive(thiserror::Error)]
#[error("{reason}")]
pub struct Kept {
    /// The tensor, unchanged.
    pub tensor: DeviceTensor,
    /// Why it was not given away.
    pub reason: Error,
}

crate::message::debug!(Kept);

impl From<Box<Kept>> for Error {
    fn from(kept: Box<Kept>) -> Self {
        kept.reason
    }
}

impl Device {
    /// A tensor of `values`, in row-major order, that takes their memory: nothing is copied.
    ///
    /// ```
    /// use epilogue_runtime::{Device, Error};
    ///
    /// let values = vec![1.0f32, 2.0, 3.0, 4.0];
    /// let place = values.as_ptr();
    /// let mut tensor = Device::cpu().take_vec(values, [2, 2])?;
    /// tensor.slice(1, 0..1)?.copy_from(&[10.0f32, 30.0])?;
    /// let values: Vec<f32> = tensor.into_vec()?; // the same memory
    /// assert_eq!((values.as_ptr(), values), (place, vec![10.0, 2.0, 30.0, 4.0]));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::DataLength`](crate::LayoutError::DataLength) if `shape` needs another number of values;
    /// [`Error::Unsupported`] on a device other than the CPU.
    pub fn take_vec<T: Element>(&self, values: Vec<T>, shape: impl AsRef<[usize]>) -> Result<DeviceTensor> {
        let shape = shape.as_ref();
        check_length(shape, values.len())?;
        let layout = ViewLayout::packed(shape, size_of::<T>())?;
        take(self, values, layout)
    }

    /// A read-only tensor in the memory of `owner`; the tensor keeps a share of it: nothing is copied. `values` finds
    /// the elements in it, in row-major order.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use epilogue_runtime::{Device, Error};
    ///
    /// let weights: Arc<[f32]> = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0].into();
    /// let second_row = Device::cpu().share(Arc::clone(&weights), |all| &all[3..], [1, 3])?;
    /// assert_eq!(second_row.device_address(), weights[3..].as_ptr() as u64);
    /// drop(weights); // the tensor has its share
    /// assert_eq!(second_row.to_vec::<f32>()?, [4.0, 5.0, 6.0]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`take_vec`](Self::take_vec). Writing to the tensor is [`ExchangeError::ReadOnly`].
    pub fn share<O, T>(
        &self,
        owner: Arc<O>,
        values: impl for<'a> FnOnce(&'a O) -> &'a [T],
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor>
    where
        O: ?Sized + Send + Sync + 'static,
        T: Element,
    {
        let shape = shape.as_ref();
        let found = values(&owner);
        check_length(shape, found.len())?;
        let (pointer, bytes) = (NonNull::from(found).cast::<u8>(), size_of_val(found));
        let layout = ViewLayout::packed(shape, size_of::<T>())?;
        // SAFETY: the slice was found through a reference to the `Arc`'s content. That stays shared and where it is for
        // as long as the `Arc` is kept; the slice's type is the element's.
        unsafe { share(self, owner, pointer, bytes, T::TYPE, layout) }
    }

    /// [`share`](Self::share) for elements whose bytes `bytes` finds in `owner`, in this machine's byte order.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use epilogue_runtime::{Device, ElementType, Error};
    ///
    /// let file = Arc::new(vec![0u64, 0x3f80_0000_4000_0000]); // such as a mapped file
    /// let tensor = Device::cpu().share_bytes(file, ElementType::F32, |all| &bytemuck::cast_slice(all)[8..], [2])?;
    /// assert_eq!(tensor.to_vec::<f32>()?, [2.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`share`](Self::share); [`LayoutError::Misaligned`](crate::LayoutError::Misaligned) if the address
    /// of the first byte is not a multiple of an element's size.
    pub fn share_bytes<O>(
        &self,
        owner: Arc<O>,
        element: ElementType,
        bytes: impl for<'a> FnOnce(&'a O) -> &'a [u8],
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor>
    where
        O: ?Sized + Send + Sync + 'static,
    {
        let found = bytes(&owner);
        let layout = of_bytes(found.len(), element, shape.as_ref())?;
        let (pointer, bytes) = (NonNull::from(found).cast::<u8>(), found.len());
        // SAFETY: as in `share`; every pattern of bits is an element.
        unsafe { share(self, owner, pointer, bytes, element, layout) }
    }
}

/// A tensor in the memory of `values`, which the layout fits.
pub(super) fn take<T: Element>(device: &Device, values: Vec<T>, layout: ViewLayout) -> Result<DeviceTensor> {
    require_host(device)?;
    let memory = HostMemory::of_vec(values);
    let buffer = Buffer::new(device.clone(), memory.bytes(), BufferMemory::Host(memory));
    Ok(DeviceTensor::new(Arc::new(buffer), T::TYPE, layout))
}

/// # Safety
/// The memory has this many bytes as long as the `Arc` is kept, and nobody writes them; the layout stays within them.
pub(super) unsafe fn share<O: ?Sized + Send + Sync + 'static>(
    device: &Device,
    owner: Arc<O>,
    pointer: NonNull<u8>,
    bytes: usize,
    element: ElementType,
    layout: ViewLayout,
) -> Result<DeviceTensor> {
    require_host(device)?;
    check_alignment(pointer, element)?;
    let rights = Rights { write: false, gaps: true };
    // SAFETY: the caller's promise.
    let memory = unsafe { HostMemory::kept_by(Box::new(owner), pointer, bytes, rights) };
    let buffer = Buffer::new(device.clone(), bytes, BufferMemory::Host(memory));
    Ok(DeviceTensor::new(Arc::new(buffer), element, layout))
}

impl DeviceTensor {
    /// The `Vec` that the tensor was made from ([`Device::take_vec`]), with everything that was written to it: nothing
    /// is copied.
    ///
    /// # Errors
    /// The tensor and the reason: [`Error::ElementType`]; [`ExchangeError::NotTaken`] if it was not made from a `Vec`;
    /// [`ExchangeError::PartialView`] if it is not the whole `Vec` in order; [`ExchangeError::InUse`] if there are
    /// still clones or views.
    pub fn into_vec<T: PlainElement>(self) -> Result<Vec<T>, Box<Kept>> {
        if !(self.is_contiguous() && self.len() * self.element_type().size() == self.buffer().bytes()) {
            let (shape, strides) = (self.shape().to_vec(), self.strides().to_vec());
            let reason = ExchangeError::PartialView { shape, strides, offset: self.offset() };
            return Err(Box::new(Kept { tensor: self, reason: reason.into() }));
        }
        self.into_whole_vec("a `Vec`").map(|(values, _)| values)
    }

    /// The `Vec` that the tensor was made from, even if this view is a part of it, and the view's layout.
    pub(super) fn into_whole_vec<T: PlainElement>(
        self,
        asked: &'static str,
    ) -> Result<(Vec<T>, ViewLayout), Box<Kept>> {
        if let Err(reason) = self.check_vec::<T>(asked) {
            return Err(Box::new(Kept { tensor: self, reason }));
        }
        let (element, layout) = (self.element_type(), self.layout().clone());
        let buffer = Arc::try_unwrap(self.into_buffer()).map_err(|buffer| {
            let tensor = DeviceTensor::new(buffer, element, layout.clone());
            Box::new(Kept { tensor, reason: ExchangeError::InUse.into() })
        })?;
        let values = match buffer.into_memory() {
            BufferMemory::Host(memory) => memory.into_vec(),
            BufferMemory::Cuda(_) | BufferMemory::Emulated(_) | BufferMemory::None { .. } => None,
        };
        // `check_vec` has checked that it is one.
        Ok((values.unwrap_or_default(), layout))
    }

    fn check_vec<T: Element>(&self, asked: &'static str) -> Result<()> {
        self.check_element::<T>()?;
        let element = host_memory(self.buffer()).ok().and_then(HostMemory::vec_element);
        if element == Some(T::TYPE) { Ok(()) } else { Err(ExchangeError::NotTaken { asked }.into()) }
    }
}
