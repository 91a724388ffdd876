//! New tensors on a device.

use std::sync::Arc;

use crate::device::cuda::{self, Allocation};
use crate::device::emulated::EmulatedMemory;
use crate::device::{Backend, Device};
use crate::error::{LayoutError, Result};
use crate::launch::stream::{Stream, StreamKind};
use crate::layout::ViewLayout;
use crate::layout::element::{Element, ElementType};
use crate::memory::buffer::{Buffer, BufferMemory};
use crate::memory::host_memory::HostMemory;
use crate::tensor::{DeviceTensor, filled};

impl Device {
    /// A tensor holding `values` in row-major order.
    ///
    /// # Errors
    /// [`LayoutError::DataLength`] if `shape` needs another number of values; out of memory.
    pub fn tensor<T: Element>(&self, values: &[T], shape: impl AsRef<[usize]>) -> Result<DeviceTensor> {
        let shape = shape.as_ref();
        check_length(shape, values.len())?;
        self.tensor_from_bytes(T::TYPE, T::bytes(values), shape)
    }

    /// A tensor holding the elements whose bytes are given, in row-major order and this machine's byte order.
    ///
    /// # Errors
    /// [`LayoutError::DataLength`] if `bytes` are not exactly the elements of `shape`; out of memory.
    pub fn tensor_from_bytes(
        &self,
        element: ElementType,
        bytes: &[u8],
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor> {
        let shape = shape.as_ref();
        let layout = ViewLayout::packed(shape, element.size())?;
        if bytes.len() != layout.len() * element.size() {
            let given = bytes.len() / element.size();
            return Err(LayoutError::DataLength { shape: shape.to_vec(), needed: layout.len(), given }.into());
        }
        let memory = match self.backend() {
            Backend::Host(_) => {
                let memory = HostMemory::zeroed(bytes.len())?;
                memory.write(0, bytes)?;
                BufferMemory::Host(memory)
            }
            Backend::Cuda { gpu, .. } => BufferMemory::Cuda(Allocation::holding(gpu, bytes)?),
            Backend::Emulated(emulator) => {
                BufferMemory::Emulated(EmulatedMemory::holding(emulator, bytes, &label(element, shape))?)
            }
            Backend::Target(_) => BufferMemory::none(bytes.len()),
        };
        let buffer = Buffer::new(self.clone(), bytes.len(), memory);
        Ok(DeviceTensor::new(Arc::new(buffer), element, layout))
    }

    /// A tensor of zeros.
    ///
    /// # Errors
    /// [`LayoutError::TooLarge`]; out of memory.
    pub fn zeros<T: Element>(&self, shape: impl AsRef<[usize]>) -> Result<DeviceTensor> {
        self.zeros_of(T::TYPE, shape)
    }

    /// A tensor of zeros, with the element type as a value.
    ///
    /// # Errors
    /// [`LayoutError::TooLarge`]; out of memory.
    pub fn zeros_of(&self, element: ElementType, shape: impl AsRef<[usize]>) -> Result<DeviceTensor> {
        let layout = ViewLayout::packed(shape.as_ref(), element.size())?;
        let bytes = layout.len() * element.size();
        let memory = match self.backend() {
            Backend::Host(_) => BufferMemory::Host(HostMemory::zeroed(bytes)?),
            Backend::Cuda { gpu, .. } => BufferMemory::Cuda(Allocation::zeroed(gpu, bytes)?),
            Backend::Emulated(emulator) => {
                BufferMemory::Emulated(EmulatedMemory::zeroed(emulator, bytes, &label(element, shape.as_ref()))?)
            }
            Backend::Target(_) => BufferMemory::none(bytes),
        };
        Ok(DeviceTensor::new(Arc::new(Buffer::new(self.clone(), bytes, memory)), element, layout))
    }

    /// A tensor that has a shape but no memory, for work on a [dry stream](Self::dry_stream). Its address is different
    /// from that of all other tensors, and is aligned like theirs.
    ///
    /// # Errors
    /// [`LayoutError::TooLarge`].
    pub fn without_memory(&self, element: ElementType, shape: impl AsRef<[usize]>) -> Result<DeviceTensor> {
        let layout = ViewLayout::packed(shape.as_ref(), element.size())?;
        let bytes = layout.len() * element.size();
        Ok(DeviceTensor::new(Arc::new(Buffer::new(self.clone(), bytes, BufferMemory::none(bytes))), element, layout))
    }

    /// A contiguous tensor whose creator writes it before anyone else can read it.
    pub(crate) fn unwritten(&self, element: ElementType, shape: &[usize]) -> Result<DeviceTensor> {
        let layout = ViewLayout::packed(shape, element.size())?;
        let bytes = layout.len() * element.size();
        let memory = match self.backend() {
            Backend::Host(_) => BufferMemory::Host(HostMemory::zeroed(bytes)?),
            Backend::Cuda { gpu, .. } => BufferMemory::Cuda(Allocation::uninitialised(gpu, bytes)?),
            Backend::Emulated(emulator) => {
                BufferMemory::Emulated(EmulatedMemory::uninitialised(emulator, bytes, &label(element, shape))?)
            }
            Backend::Target(_) => BufferMemory::none(bytes),
        };
        Ok(DeviceTensor::new(Arc::new(Buffer::new(self.clone(), bytes, memory)), element, layout))
    }

    /// A tensor whose elements are all `value`.
    ///
    /// # Errors
    /// [`LayoutError::TooLarge`]; out of memory.
    pub fn full<T: Element>(&self, shape: impl AsRef<[usize]>, value: T) -> Result<DeviceTensor> {
        let layout = ViewLayout::packed(shape.as_ref(), size_of::<T>())?;
        if T::bytes(&[value]).iter().all(|byte| *byte == 0) {
            return self.zeros::<T>(shape);
        }
        self.tensor(&filled(layout.len(), value)?, shape)
    }
}

impl Stream {
    /// A tensor of zeros for work on this stream; on a dry stream, without memory.
    ///
    /// # Errors
    /// The errors of [`Device::zeros_of`].
    pub fn zeros_of(&self, element: ElementType, shape: impl AsRef<[usize]>) -> Result<DeviceTensor> {
        match self.kind() {
            StreamKind::Dry => self.device().without_memory(element, shape),
            StreamKind::Cuda(stream) => cuda::beside(stream, || self.device().zeros_of(element, shape)),
            StreamKind::Immediate | StreamKind::Recording(_) => self.device().zeros_of(element, shape),
        }
    }
}

/// The name of a buffer in an emulated device's reports.
fn label(element: ElementType, shape: &[usize]) -> String {
    format!("the {element} tensor {shape:?}")
}

pub(crate) fn check_length(shape: &[usize], given: usize) -> Result<(), LayoutError> {
    let needed = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent));
    match needed {
        Some(needed) if needed == given => Ok(()),
        Some(needed) => Err(LayoutError::DataLength { shape: shape.to_vec(), needed, given }),
        None => Err(LayoutError::TooLarge { shape: shape.to_vec() }),
    }
}
