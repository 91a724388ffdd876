//! Copies of tensors, on one device or to another.

mod kernel;
#[cfg(test)]
mod tests;

use crate::device::{Backend, Device};
use crate::error::{Absent, Error, LayoutError, Result};
use crate::launch::stream::Stream;
use crate::layout::strided::Strided;
use crate::tensor::DeviceTensor;
use crate::tensor::host_access::HostAccess;

impl DeviceTensor {
    /// This view if it is contiguous, else a contiguous copy on the same device.
    ///
    /// # Errors
    /// The errors of [`copy_to`](Self::copy_to).
    pub fn contiguous(&self) -> Result<Self> {
        if self.is_contiguous() { Ok(self.clone()) } else { self.copy_to(self.device()) }
    }

    /// A contiguous copy on `device`.
    ///
    /// On one GPU, this launches a kernel on the default stream and does not wait for it. It is in order with all other
    /// work on these tensors. The copy goes through the host, like one to another device, if no NVRTC compiles that
    /// kernel, or the device's bundles don't have it.
    ///
    /// # Errors
    /// Out of memory; for a copy through the host, the errors of reading back.
    pub fn copy_to(&self, device: &Device) -> Result<Self> {
        if device != self.device() {
            return device.tensor_from_bytes(self.element_type(), &self.to_bytes()?, self.shape());
        }
        let copy = device.unwritten(self.element_type(), self.shape())?;
        copy_within(self, &copy)?;
        Ok(copy)
    }

    /// Overwrites the elements with those of `source`, which is broadcast to this shape if it has another. The source
    /// may be a view of the same memory, and may be on any device; see [`copy_to`](Self::copy_to).
    ///
    /// # Errors
    /// [`Error::ElementType`]; [`LayoutError::Broadcast`]; [`LayoutError::WriteToRepeated`]; for a copy through the
    /// host, the errors of reading back.
    pub fn copy_from_tensor(&mut self, source: &Self) -> Result<()> {
        let (held, asked) = (source.element_type(), self.element_type());
        if held != asked {
            return Err(Error::ElementType { held, asked });
        }
        if self.has_internal_overlap() {
            let (shape, strides) = (self.shape().to_vec(), self.strides().to_vec());
            return Err(LayoutError::WriteToRepeated { shape, strides }.into());
        }
        let source = source.broadcast_to(self.shape())?;
        if source.device() != self.device() {
            return self.copy_from_bytes(&source.to_bytes()?);
        }
        if self.overlaps(&source) {
            return copy_within(&source.copy_to(self.device())?, self);
        }
        copy_within(&source, self)
    }

    /// [`copy_from_tensor`](Self::copy_from_tensor) on a stream: in order with its work, and recorded if the stream records. Nothing
    /// goes through the host, so the source is on the stream's device and shares no memory with this view.
    ///
    /// # Errors
    /// [`Error::ElementType`]; [`Error::Device`]; [`LayoutError::Broadcast`]; [`LayoutError::WriteToRepeated`];
    /// [`Error::Unsupported`] for views that share memory; on a GPU, NVRTC is absent or the device's bundles lack the kernel.
    pub fn copy_from_tensor_on(&mut self, source: &Self, stream: &Stream) -> Result<()> {
        let (held, asked) = (source.element_type(), self.element_type());
        if held != asked {
            return Err(Error::ElementType { held, asked });
        }
        for (what, tensor) in [("the source of a copy", source), ("the target of a copy", &*self)] {
            if tensor.device() != stream.device() {
                let (given, needed) = (tensor.device().to_string(), stream.device().to_string());
                return Err(Error::Device { what, given, needed });
            }
        }
        if self.has_internal_overlap() {
            let (shape, strides) = (self.shape().to_vec(), self.strides().to_vec());
            return Err(LayoutError::WriteToRepeated { shape, strides }.into());
        }
        let source = source.broadcast_to(self.shape())?;
        if self.overlaps(&source) {
            let advice = "copy to a tensor with memory of its own";
            return Err(self.device().unsupported("copy between views that share memory on a stream", advice));
        }
        match self.device().backend() {
            _ if source.is_empty() => Ok(()),
            Backend::Host(_) if stream.is_dry() => Ok(()),
            Backend::Host(_) => copy_on_host(&source, self),
            Backend::Emulated(_) | Backend::Cuda { .. } | Backend::Target(_) => kernel::launch(&source, self, stream),
        }
    }
}

/// Copies between views with the same shape, type and device, which have no byte in common.
fn copy_within(from: &DeviceTensor, to: &DeviceTensor) -> Result<()> {
    if from.is_empty() {
        return Ok(());
    }
    if !matches!(from.device().backend(), Backend::Host(_)) {
        return match kernel::launch(from, to, &from.device().default_stream()) {
            Err(Error::Absent(Absent::Nvrtc { .. }) | Error::NotInBundle { .. }) => {
                to.clone().copy_from_bytes(&from.to_bytes()?)
            }
            done => done,
        };
    }
    copy_on_host(from, to)
}

fn copy_on_host(from: &DeviceTensor, to: &DeviceTensor) -> Result<()> {
    let access = HostAccess::lock(&[from], &[to])?;
    let (Some(source), Some(target)) = (access.read_pointer(0), access.write_pointer(0)) else { return Ok(()) };
    let size = from.element_type().size();
    // SAFETY: the views lie in their buffers, have no byte in common, and are locked.
    unsafe { Strided::new(from.shape(), from.strides(), to.strides(), size, usize::MAX).copy(source, target) };
    Ok(())
}
