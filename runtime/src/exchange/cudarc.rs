//! cudarc's memory and streams. The caller need not promise what cudarc's types guarantee: a `CudaSlice` owns its
//! memory and knows the work that is pending on it, and an `Arc<CudaStream>` keeps the stream alive. (Without these
//! guarantees there are [`DeviceTensor::from_raw_cuda`] and [`Stream::borrow`].)

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtrMut as _};

use super::Kept;
use crate::buffer::{Buffer, Memory};
use crate::create::check_length;
use crate::cuda::{self, Allocation, Context};
use crate::device::{Backend, Device};
use crate::element::{Element, PlainElement};
use crate::error::{Error, LayoutError, Result};
use crate::exchange_error::ExchangeError;
use crate::layout::Layout;
use crate::stream::Stream;
use crate::tensor::DeviceTensor;

impl Stream {
    /// A cudarc stream, which this value keeps alive.
    ///
    /// ```no_run
    /// use cudarc::driver::CudaContext;
    /// use epilogue_runtime::{Device, Stream};
    ///
    /// let (device, context) = (Device::cuda(0)?, CudaContext::new(0)?);
    /// let values = context.default_stream().clone_htod(&[1.0f32, 2.0])?;
    /// let stream = Stream::of_cudarc(&device, &context.new_stream()?)?;
    /// let tensor = device.take_cuda_slice(values, [2])?; // in place
    /// // … launches on `stream` …
    /// let values = tensor.into_cuda_slice::<f32>()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a device that is not a GPU; [`Error::Device`] for a stream of another GPU, or of a
    /// context that is not the GPU's primary one.
    pub fn of_cudarc(device: &Device, stream: &Arc<CudaStream>) -> Result<Self> {
        let on = cuda::CudaStream::of_cudarc(gpu(device)?, stream);
        let on = on.ok_or_else(|| foreign(device, "the stream", stream))?;
        Ok(Self::on_cuda(device, on))
    }
}

impl Device {
    /// A tensor that takes the memory of a cudarc slice, with its elements in row-major order: nothing is copied. Work
    /// on the tensor comes after everything that cudarc has put on the slice, and the slice is dropped after the last
    /// use. [`Stream::of_cudarc`] has an example.
    ///
    /// # Errors
    /// [`LayoutError::DataLength`] if `shape` needs another number of elements; [`Error::Unsupported`] and
    /// [`Error::Device`] as for [`Stream::of_cudarc`]; the driver's errors. Then the slice is dropped.
    pub fn take_cuda_slice<T: Element>(
        &self,
        mut slice: CudaSlice<T>,
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor> {
        let (context, stream) = (gpu(self)?, Arc::clone(slice.stream()));
        let on = cuda::CudaStream::of_cudarc(context, &stream).ok_or_else(|| foreign(self, "a slice", &stream))?;
        check_length(shape.as_ref(), slice.len())?;
        let layout = Layout::packed(shape.as_ref(), size_of::<T>())?;
        let (bytes, alignment, element) = (slice.num_bytes(), size_of::<T>(), T::TYPE);
        let address = settle(&mut slice, &stream)?;
        if !address.is_multiple_of(alignment as u64) {
            return Err(LayoutError::Misaligned { address, alignment, element }.into());
        }
        // SAFETY: the slice owns the memory, of this context, and is kept.
        let allocation = unsafe { Allocation::kept_by(context, address, true, Box::new(slice)) };
        allocation.follow(&on)?;
        let buffer = Buffer::new(self.clone(), bytes, Memory::Cuda(allocation));
        Ok(DeviceTensor::new(Arc::new(buffer), element, layout))
    }
}

impl DeviceTensor {
    /// The cudarc slice that the tensor was made from ([`Device::take_cuda_slice`]), with everything that was written
    /// to it: nothing is copied. cudarc's later work on it comes after all work on the tensor.
    ///
    /// # Errors
    /// The tensor and the reason, as for [`into_vec`](Self::into_vec); the driver's errors.
    pub fn into_cuda_slice<T: PlainElement>(self) -> Result<CudaSlice<T>, Box<Kept>> {
        if let Err(reason) = self.check_slice::<T>() {
            return Err(Box::new(Kept { tensor: self, reason }));
        }
        let (device, element, layout) = (self.device().clone(), self.element_type(), self.layout().clone());
        let bytes = self.buffer().bytes();
        let kept = |buffer: Arc<Buffer>, reason: Error| {
            Box::new(Kept { tensor: DeviceTensor::new(buffer, element, layout.clone()), reason })
        };
        let buffer = Arc::try_unwrap(self.into_buffer()).map_err(|all| kept(all, ExchangeError::InUse.into()))?;
        let back = |memory, reason| kept(Arc::new(Buffer::new(device.clone(), bytes, memory)), reason);
        let allocation = match buffer.into_memory() {
            Memory::Cuda(allocation) => allocation,
            other => return Err(back(other, not_taken())),
        };
        if let Err(reason) = release::<T>(&device, &allocation) {
            return Err(back(Memory::Cuda(allocation), reason));
        }
        let Some(mut slice) = allocation.into_keeper().and_then(|keeper| keeper.downcast::<CudaSlice<T>>().ok()) else {
            unreachable!("`check_slice` has seen that it is one");
        };
        let stream = Arc::clone(slice.stream());
        // Tells cudarc's other streams to wait for this one. cudarc's next call reports an error.
        drop(slice.device_ptr_mut(&stream));
        Ok(*slice)
    }

    fn check_slice<T: Element>(&self) -> Result<()> {
        self.check_element::<T>()?;
        if !(self.is_contiguous() && self.len() * size_of::<T>() == self.buffer().bytes()) {
            let (shape, strides) = (self.shape().to_vec(), self.strides().to_vec());
            return Err(ExchangeError::PartialView { shape, strides, offset: self.offset() }.into());
        }
        match self.buffer().memory() {
            Memory::Cuda(allocation) if kept_slice::<T>(allocation).is_some() => Ok(()),
            Memory::Cuda(_) | Memory::Host(_) | Memory::Emulated(_) | Memory::None { .. } => Err(not_taken()),
        }
    }
}

fn kept_slice<T: Element>(allocation: &Allocation) -> Option<&CudaSlice<T>> {
    allocation.keeper()?.downcast_ref()
}

/// Makes cudarc's later work wait for all work on the memory.
fn release<T: Element>(device: &Device, allocation: &Allocation) -> Result<()> {
    let stream = kept_slice::<T>(allocation).ok_or_else(not_taken)?.stream();
    let on = cuda::CudaStream::of_cudarc(gpu(device)?, stream).ok_or_else(not_taken)?;
    allocation.precede(&Arc::new(on))
}

/// Makes the slice's stream wait for everything that cudarc has put on the slice, and cudarc's other streams for that.
/// Gives the address.
fn settle<T>(slice: &mut CudaSlice<T>, stream: &Arc<CudaStream>) -> Result<u64> {
    let (address, recorded) = slice.device_ptr_mut(stream);
    drop(recorded);
    stream.context().check_err().map_err(|error| match cuda::check("cuStreamWaitEvent", error.0) {
        Err(error) => error,
        Ok(()) => not_taken(),
    })?;
    Ok(address)
}

fn gpu(device: &Device) -> Result<&'static Context> {
    match device.backend() {
        Backend::Cuda { context, .. } => Ok(context),
        Backend::Host | Backend::Emulated(_) | Backend::Target(_) => {
            Err(device.unsupported("use cudarc's memory and streams", "open the GPU with `Device::cuda`"))
        }
    }
}

fn foreign(device: &Device, what: &'static str, stream: &CudaStream) -> Error {
    let context = stream.context();
    let which = if context.is_primary() { "" } else { ", in a context of its own" };
    Error::Device { what, given: format!("CUDA device {}{which}", context.ordinal()), needed: device.to_string() }
}

fn not_taken() -> Error {
    ExchangeError::NotTaken { asked: "a cudarc slice" }.into()
}
