//! A GPU's raw streams and memory, as other libraries hand them out.

use std::sync::Arc;

use cudarc::driver::sys::{CUdeviceptr, CUstream};

use crate::device::cuda::{Allocation, CudaStream};
use crate::device::{Backend, Device};
use crate::error::{LayoutError, Result};
use crate::launch::stream::{Stream, StreamKind};
use crate::layout::ViewLayout;
use crate::layout::element::ElementType;
use crate::memory::buffer::{Buffer, BufferMemory};
use crate::tensor::DeviceTensor;

impl Stream {
    pub(crate) fn on_cuda(device: &Device, stream: CudaStream) -> Self {
        Self::new(device.clone(), StreamKind::Cuda(Arc::new(stream)), Arc::new(device.status().seen()))
    }

    /// Someone else's stream: PyTorch's `cuda_stream`, or null for the legacy default stream. (For cudarc's there is
    /// [`of_cudarc`](Self::of_cudarc).)
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) for a device that is not a GPU.
    ///
    /// # Safety
    /// `stream` is null or a live `CUstream` of this GPU's primary context, and stays so until the last handle of the
    /// result is dropped. (Tensors used on it may live longer.)
    pub unsafe fn borrow(device: &Device, stream: CUstream) -> Result<Self> {
        match device.backend() {
            Backend::Cuda { gpu, .. } => {
                // SAFETY: the caller's promise.
                let stream = unsafe { CudaStream::borrow(&gpu.context, stream) };
                Ok(Self::on_cuda(device, stream))
            }
            Backend::Host(_) | Backend::Emulated(_) | Backend::Target(_) => {
                Err(device.unsupported("borrow a CUDA stream", "use `default_stream` or `new_stream`"))
            }
        }
    }

    /// The driver's handle, for other libraries; `None` if the device has no CUDA streams. It is valid while this value
    /// lives.
    #[must_use]
    pub fn cuda_handle(&self) -> Option<CUstream> {
        match self.kind() {
            StreamKind::Cuda(stream) => Some(stream.handle()),
            StreamKind::Immediate | StreamKind::Dry | StreamKind::Recording(_) => None,
        }
    }
}

impl DeviceTensor {
    /// A view of someone else's GPU memory, such as candle's or cudarc's, without a copy. Strides are in elements.
    ///
    /// Work that its owner has put on other streams is not known here: launch on the owner's stream
    /// ([`Stream::borrow`](crate::Stream::borrow)) or synchronise first.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) for a device that is not a GPU; [`LayoutError`] for strides that are not possible, or an
    /// address that is not aligned to the element.
    ///
    /// # Safety
    /// Every element of the view is memory of this GPU that holds a value. It stays so until the last view of the
    /// result is dropped and the work that uses it is done. Nobody else writes it, or reads what is written here,
    /// without being ordered with that work.
    pub unsafe fn from_raw_cuda(
        device: &Device,
        address: CUdeviceptr,
        element: ElementType,
        shape: impl AsRef<[usize]>,
        strides: impl AsRef<[isize]>,
    ) -> Result<Self> {
        let Backend::Cuda { gpu, .. } = device.backend() else {
            return Err(device.unsupported("hold CUDA memory", "open the GPU with `Device::cuda`"));
        };
        let alignment = element.size();
        let layout = ViewLayout::strided(shape.as_ref(), strides.as_ref(), alignment)?;
        if !address.is_multiple_of(alignment as u64) {
            return Err(LayoutError::Misaligned { address, alignment, element }.into());
        }
        // SAFETY: the caller's promise.
        let allocation = unsafe { Allocation::borrow(gpu, address) };
        let buffer = Buffer::new(device.clone(), layout.span() * alignment, BufferMemory::Cuda(allocation));
        Ok(Self::new(Arc::new(buffer), element, layout))
    }
}
