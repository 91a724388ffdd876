//! cudarc's memory and streams. The caller need not promise what cudarc's types guarantee: a `CudaSlice` owns its
//! memory and knows the work that is pending on it, and an `Arc<CudaStream>` keeps the stream alive. (Without these
//! guarantees there are [`DeviceTensor::from_raw_cuda`] and [`Stream::borrow`].)

use std::sync::Arc;

use cudarc::driver::{
    CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr as _, DevicePtrMut as _, DeviceSlice as _,
};

use super::Kept;
use super::scope::{Scope, strided};
use crate::device::cuda::{self, Allocation, Gpu};
use crate::device::{Backend, Device};
use crate::error::exchange::ExchangeError;
use crate::error::{Error, LayoutError, Result};
use crate::launch::stream::Stream;
use crate::layout::ViewLayout;
use crate::layout::element::{Element, PlainElement};
use crate::memory::buffer::{Buffer, BufferMemory};
use crate::tensor::DeviceTensor;
use crate::tensor::create::check_length;

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
        let on = cuda::CudaStream::of_cudarc(&gpu(device)?.context, stream);
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
        let (gpu, stream) = (gpu(self)?, Arc::clone(slice.stream()));
        let on = cuda::CudaStream::of_cudarc(&gpu.context, &stream).ok_or_else(|| foreign(self, "a slice", &stream))?;
        check_length(shape.as_ref(), slice.len())?;
        let layout = ViewLayout::packed(shape.as_ref(), size_of::<T>())?;
        let (bytes, alignment, element) = (slice.num_bytes(), size_of::<T>(), T::TYPE);
        let address = settle(&mut slice, &stream)?;
        if !address.is_multiple_of(alignment as u64) {
            return Err(LayoutError::Misaligned { address, alignment, element }.into());
        }
        // SAFETY: the slice owns the memory, of this context, and is kept.
        let allocation = unsafe { Allocation::kept_by(gpu, address, true, Box::new(slice)) };
        allocation.follow(&on)?;
        let buffer = Buffer::new(self.clone(), bytes, BufferMemory::Cuda(allocation));
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
            BufferMemory::Cuda(allocation) => allocation,
            other => return Err(back(other, not_taken())),
        };
        if let Err(reason) = release::<T>(&device, &allocation) {
            return Err(back(BufferMemory::Cuda(allocation), reason));
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
            BufferMemory::Cuda(allocation) if kept_slice::<T>(allocation).is_some() => Ok(()),
            BufferMemory::Cuda(_) | BufferMemory::Host(_) | BufferMemory::Emulated(_) | BufferMemory::None { .. } => {
                Err(not_taken())
            }
        }
    }
}

impl<'env> Scope<'env> {
    /// A read-only tensor in the memory of a cudarc view, in row-major order. Work on the tensor comes after everything
    /// that cudarc has put on the slice, and cudarc's later work on the slice comes after that.
    ///
    /// ```no_run
    /// use cudarc::driver::CudaContext;
    /// use epilogue_runtime::Device;
    ///
    /// let (device, context) = (Device::cuda(0)?, CudaContext::new(0)?);
    /// let stream = context.default_stream();
    /// let (input, mut output) = (stream.clone_htod(&[1.0f32, 2.0])?, stream.alloc_zeros::<f32>(2)?);
    /// device.scope(|scope| {
    ///     let x = scope.borrow_cuda(input.as_view(), [2])?; // tensors as any
    ///     let mut y = scope.borrow_cuda_mut(output.as_view_mut(), [2])?;
    ///     y.copy_from_tensor(&x)
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Borrowed memory can't be part of a graph: the graph may be launched after the scope.
    ///
    /// # Errors
    /// [`LayoutError::DataLength`] if `shape` needs another number of elements; [`Error::Unsupported`] and
    /// [`Error::Device`] as for [`Stream::of_cudarc`]; [`Error::Capture`] while the slice's stream is captured; the
    /// driver's errors.
    pub fn borrow_cuda<T: Element>(&self, view: CudaView<'env, T>, shape: impl AsRef<[usize]>) -> Result<DeviceTensor> {
        check_length(shape.as_ref(), view.len())?;
        self.read_cuda(view, ViewLayout::packed(shape.as_ref(), size_of::<T>())?)
    }

    /// A read-only tensor with the given strides, in elements, that begins at the first element of a cudarc view.
    ///
    /// # Errors
    /// The errors of [`borrow_cuda`](Self::borrow_cuda), but [`LayoutError::TooShort`] if the tensor reaches beyond the
    /// view; [`LayoutError::StrideCount`], [`LayoutError::NegativeStride`].
    pub fn borrow_cuda_strided<T: Element>(
        &self,
        view: CudaView<'env, T>,
        shape: impl AsRef<[usize]>,
        strides: impl AsRef<[isize]>,
    ) -> Result<DeviceTensor> {
        let layout = strided::<T>(view.len(), shape.as_ref(), strides.as_ref())?;
        self.read_cuda(view, layout)
    }

    /// [`borrow_cuda`](Self::borrow_cuda) for reading and writing.
    ///
    /// # Errors
    /// The errors of [`borrow_cuda`](Self::borrow_cuda).
    pub fn borrow_cuda_mut<T: PlainElement>(
        &self,
        mut view: CudaViewMut<'env, T>,
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor> {
        check_length(shape.as_ref(), view.len())?;
        let layout = ViewLayout::packed(shape.as_ref(), size_of::<T>())?;
        let lender = Lender::new(self.device(), view.stream())?;
        let (address, recorded) = view.device_ptr_mut(&lender.stream);
        drop(recorded);
        let (bytes, stream) = (view.len() * size_of::<T>(), Arc::clone(&lender.stream));
        // SAFETY: for 'env the view is this scope's alone, and has values of this type.
        unsafe { self.lend_cuda::<T>(lender, address, bytes, layout, true, move || drop(view.device_ptr_mut(&stream))) }
    }

    fn read_cuda<T: Element>(&self, view: CudaView<'env, T>, layout: ViewLayout) -> Result<DeviceTensor> {
        let lender = Lender::new(self.device(), view.stream())?;
        let (address, recorded) = view.device_ptr(&lender.stream);
        drop(recorded);
        let (bytes, stream) = (view.len() * size_of::<T>(), Arc::clone(&lender.stream));
        // SAFETY: for 'env the view is shared, and has values of this type.
        unsafe { self.lend_cuda::<T>(lender, address, bytes, layout, false, move || drop(view.device_ptr(&stream))) }
    }

    /// A tensor in memory that is given back when the scope is dropped: `note` then tells cudarc that the memory was used.
    ///
    /// # Safety
    /// For 'env the memory, of the lender's GPU, has as many bytes with values of the type `T` as the layout needs.
    /// Nobody else writes them meanwhile. If they are to be written, nobody else reads them either.
    unsafe fn lend_cuda<T: Element>(
        &self,
        lender: Lender,
        address: u64,
        bytes: usize,
        layout: ViewLayout,
        writable: bool,
        note: impl FnOnce() + Send + 'env,
    ) -> Result<DeviceTensor> {
        check_recorded(&lender.stream)?;
        let (alignment, element) = (size_of::<T>(), T::TYPE);
        if !address.is_multiple_of(alignment as u64) {
            return Err(LayoutError::Misaligned { address, alignment, element }.into());
        }
        // SAFETY: 'env outlives this scope, which ends the use of the memory when it is dropped.
        let allocation = unsafe { Allocation::lent(lender.gpu, address, writable) };
        allocation.follow(&lender.on)?;
        let buffer = Arc::new(Buffer::new(self.device().clone(), bytes, BufferMemory::Cuda(allocation)));
        let lent = Arc::clone(&buffer);
        self.at_end(move || {
            if let BufferMemory::Cuda(allocation) = lent.memory() {
                allocation.end(&lender.on);
            }
            note();
        });
        Ok(DeviceTensor::new(buffer, element, layout))
    }
}

/// Whose memory is lent: the stream that its owner orders it by.
struct Lender {
    gpu: &'static Gpu,
    stream: Arc<CudaStream>,
    on: Arc<cuda::CudaStream>,
}

impl Lender {
    fn new(device: &Device, stream: &Arc<CudaStream>) -> Result<Self> {
        let gpu = gpu(device)?;
        let on = cuda::CudaStream::of_cudarc(&gpu.context, stream).ok_or_else(|| foreign(device, "a slice", stream))?;
        if on.capture_id()?.is_some() {
            return Err(cuda::lent_only());
        }
        Ok(Self { gpu, stream: Arc::clone(stream), on: Arc::new(on) })
    }
}

fn kept_slice<T: Element>(allocation: &Allocation) -> Option<&CudaSlice<T>> {
    allocation.keeper()?.downcast_ref()
}

/// Makes cudarc's later work wait for all work on the memory.
fn release<T: Element>(device: &Device, allocation: &Allocation) -> Result<()> {
    let stream = kept_slice::<T>(allocation).ok_or_else(not_taken)?.stream();
    let on = cuda::CudaStream::of_cudarc(&gpu(device)?.context, stream).ok_or_else(not_taken)?;
    allocation.precede(&Arc::new(on))
}

/// Makes the slice's stream wait for everything that cudarc has put on the slice, and cudarc's other streams for that.
/// Gives the address.
fn settle<T>(slice: &mut CudaSlice<T>, stream: &Arc<CudaStream>) -> Result<u64> {
    let (address, recorded) = slice.device_ptr_mut(stream);
    drop(recorded);
    check_recorded(stream)?;
    Ok(address)
}

/// The error of what cudarc has just put on a stream, which it keeps for its next call.
fn check_recorded(stream: &CudaStream) -> Result<()> {
    stream.context().check_err().map_err(|error| match cuda::check("cuStreamWaitEvent", error.0) {
        Err(error) => error,
        Ok(()) => not_taken(),
    })
}

fn gpu(device: &Device) -> Result<&'static Gpu> {
    match device.backend() {
        Backend::Cuda { gpu, .. } => Ok(gpu),
        Backend::Host(_) | Backend::Emulated(_) | Backend::Target(_) => {
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
