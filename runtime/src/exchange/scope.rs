//! Memory of the caller that is borrowed until the end of a scope.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use crate::device::{Backend, Device};
use crate::error::{LayoutError, Result};
use crate::layout::ViewLayout;
use crate::layout::element::{Element, ElementType, PlainElement};
use crate::memory::buffer::{Buffer, BufferMemory};
use crate::memory::host_memory::{HostMemory, Rights};
use crate::tensor::DeviceTensor;
use crate::tensor::create::check_length;

/// Makes tensors in borrowed memory: see [`Device::scope`].
pub struct Scope<'env> {
    device: Device,
    lent: Mutex<Vec<Arc<Buffer>>>,
    /// Each gives a GPU's memory back to its owner.
    give_back: Mutex<Vec<Box<dyn FnOnce() + Send + 'env>>>,
    /// Exactly `'env`: with a shorter lifetime, the closure's own memory could be borrowed.
    env: PhantomData<&'env mut &'env ()>,
}

impl Device {
    /// Calls `work` with a scope, in which tensors can use the caller's memory without a copy: inputs are read and
    /// outputs are written in place.
    ///
    /// ```
    /// use epilogue_runtime::{Device, Error};
    ///
    /// let input = vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    /// let mut output = vec![0.0f32; 6];
    /// Device::cpu().scope(|scope| {
    ///     let x = scope.borrow(&input, [2, 3])?; // tensors as any
    ///     let mut y = scope.borrow_mut(&mut output, [3, 2])?;
    ///     y.copy_from_tensor(&x.transpose()?)
    /// })?;
    /// assert_eq!(output, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// The compiler checks that the memory outlives the call, and that nobody else uses what is borrowed for writing:
    ///
    /// ```compile_fail,E0597
    /// # use epilogue_runtime::Device;
    /// Device::cpu().scope(|scope| {
    ///     let inside = vec![1.0f32];
    ///     scope.borrow(&inside, [1]).map(drop) // `inside` does not live long enough
    /// });
    /// ```
    ///
    /// Clones and views of the tensors may leave the scope, but then have no memory: using one is
    /// [`ExchangeError::Ended`](crate::ExchangeError::Ended). At its end, even after a panic, the scope waits for work
    /// of other threads that uses the memory. (If a [`HostAccess`](crate::HostAccess) of the tensor is kept or
    /// forgotten, it waits forever.)
    ///
    /// Only the CPU works in this computer's memory: other devices refuse `borrow` and similar functions. On a GPU, tensors
    /// can use cudarc's memory so: [`Scope::borrow_cuda`].
    pub fn scope<'env, R>(&self, work: impl FnOnce(&Scope<'env>) -> R) -> R {
        // Dropped at the end of this function, whatever `work` does, since it only gets a reference.
        let (lent, give_back) = (Mutex::default(), Mutex::default());
        let scope = Scope { device: self.clone(), lent, give_back, env: PhantomData };
        work(&scope)
    }
}

impl<'env> Scope<'env> {
    /// The device that the scope belongs to.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// A read-only tensor with the elements `values`, in row-major order.
    ///
    /// # Errors
    /// [`LayoutError::DataLength`] if `shape` needs another number of values; [`Error::Unsupported`](crate::Error) on a
    /// device other than the CPU. Writing to the tensor is [`ExchangeError::ReadOnly`](crate::ExchangeError::ReadOnly).
    pub fn borrow<T: Element>(&self, values: &'env [T], shape: impl AsRef<[usize]>) -> Result<DeviceTensor> {
        check_length(shape.as_ref(), values.len())?;
        self.read(values, T::TYPE, ViewLayout::packed(shape.as_ref(), size_of::<T>())?)
    }

    /// A tensor with the elements `values`, in row-major order, for reading and writing.
    ///
    /// # Errors
    /// The errors of [`borrow`](Self::borrow).
    pub fn borrow_mut<T: PlainElement>(
        &self,
        values: &'env mut [T],
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor> {
        check_length(shape.as_ref(), values.len())?;
        self.write(values, T::TYPE, ViewLayout::packed(shape.as_ref(), size_of::<T>())?)
    }

    /// A read-only tensor with the given strides, in elements, that begins at the first of `values`.
    ///
    /// # Errors
    /// The errors of [`borrow`](Self::borrow), but [`LayoutError::TooShort`] if the view reaches beyond `values`;
    /// [`LayoutError::StrideCount`], [`LayoutError::NegativeStride`].
    pub fn borrow_strided<T: Element>(
        &self,
        values: &'env [T],
        shape: impl AsRef<[usize]>,
        strides: impl AsRef<[isize]>,
    ) -> Result<DeviceTensor> {
        self.read(values, T::TYPE, strided::<T>(values.len(), shape.as_ref(), strides.as_ref())?)
    }

    /// [`borrow_strided`](Self::borrow_strided) for reading and writing.
    ///
    /// # Errors
    /// The errors of [`borrow_strided`](Self::borrow_strided).
    pub fn borrow_strided_mut<T: PlainElement>(
        &self,
        values: &'env mut [T],
        shape: impl AsRef<[usize]>,
        strides: impl AsRef<[isize]>,
    ) -> Result<DeviceTensor> {
        let layout = strided::<T>(values.len(), shape.as_ref(), strides.as_ref())?;
        self.write(values, T::TYPE, layout)
    }

    /// A read-only tensor of the elements with these bytes, in row-major order and this machine's byte order: for
    /// example those of a mapped file.
    ///
    /// # Errors
    /// The errors of [`borrow`](Self::borrow); [`LayoutError::Misaligned`] if the address of the first byte is not a
    /// multiple of an element's size.
    pub fn borrow_bytes(
        &self,
        element: ElementType,
        bytes: &'env [u8],
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor> {
        let layout = of_bytes(bytes.len(), element, shape.as_ref())?;
        self.read(bytes, element, layout)
    }

    /// [`borrow_bytes`](Self::borrow_bytes) for reading and writing.
    ///
    /// # Errors
    /// The errors of [`borrow_bytes`](Self::borrow_bytes).
    pub fn borrow_bytes_mut(
        &self,
        element: ElementType,
        bytes: &'env mut [u8],
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor> {
        let layout = of_bytes(bytes.len(), element, shape.as_ref())?;
        self.write(bytes, element, layout)
    }

    fn read<T>(&self, memory: &'env [T], element: ElementType, layout: ViewLayout) -> Result<DeviceTensor> {
        let bytes = size_of_val(memory);
        // SAFETY: the slice is shared for 'env, holds elements or bytes, and is at least as long as the layout.
        unsafe { self.lend(NonNull::from(memory).cast(), bytes, element, layout, Rights { write: false, gaps: true }) }
    }

    fn write<T>(&self, memory: &'env mut [T], element: ElementType, layout: ViewLayout) -> Result<DeviceTensor> {
        let bytes = size_of_val(memory);
        // SAFETY: the slice is this scope's alone for 'env, holds elements or bytes, and is at least as long as the
        // layout.
        unsafe { self.lend(NonNull::from(memory).cast(), bytes, element, layout, Rights { write: true, gaps: true }) }
    }

    /// A tensor in memory that is given back when the scope is dropped.
    ///
    /// # Safety
    /// For 'env, the memory has values of the element type, as far as the layout reaches and, with `gaps`, in between.
    /// Nobody else writes them meanwhile. If they are to be written, nobody else reads them either.
    pub(super) unsafe fn lend(
        &self,
        pointer: NonNull<u8>,
        bytes: usize,
        element: ElementType,
        layout: ViewLayout,
        rights: Rights,
    ) -> Result<DeviceTensor> {
        require_host(&self.device)?;
        check_alignment(pointer, element)?;
        // SAFETY: 'env outlives this scope (nobody can have a `Scope<'env>` otherwise: it is invariant, and made in
        // `Device::scope`, whose caller names 'env), and dropping the scope ends the memory.
        let memory = unsafe { HostMemory::of_scope(pointer, bytes, rights) };
        let buffer = Arc::new(Buffer::new(self.device.clone(), bytes, BufferMemory::Host(memory)));
        self.lent.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&buffer));
        Ok(DeviceTensor::new(buffer, element, layout))
    }

    /// Calls this when the scope is over.
    #[cfg(feature = "cuda")]
    pub(super) fn at_end(&self, give_back: impl FnOnce() + Send + 'env) {
        self.give_back.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(give_back));
    }
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        for buffer in self.lent.get_mut().unwrap_or_else(PoisonError::into_inner) {
            if let BufferMemory::Host(memory) = buffer.memory() {
                memory.end();
            }
        }
        for give_back in self.give_back.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            give_back();
        }
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope(on {})", self.device)
    }
}

/// An error unless the device works in this computer's memory.
pub(super) fn require_host(device: &Device) -> Result<()> {
    match device.backend() {
        Backend::Host(_) => Ok(()),
        Backend::Cuda { .. } | Backend::Emulated(_) | Backend::Target(_) => Err(device.unsupported(
            "work in this computer's memory",
            "copy the values there with `Device::tensor`, and back with `to_vec`",
        )),
    }
}

pub(super) fn check_alignment(pointer: NonNull<u8>, element: ElementType) -> Result<(), LayoutError> {
    let (address, alignment) = (pointer.as_ptr() as u64, element.size());
    if address.is_multiple_of(alignment as u64) {
        return Ok(());
    }
    Err(LayoutError::Misaligned { address, alignment, element })
}

/// The layout of elements that have this many bytes.
pub(super) fn of_bytes(bytes: usize, element: ElementType, shape: &[usize]) -> Result<ViewLayout, LayoutError> {
    let layout = ViewLayout::packed(shape, element.size())?;
    if bytes != layout.len() * element.size() {
        let given = bytes / element.size();
        return Err(LayoutError::DataLength { shape: shape.to_vec(), needed: layout.len(), given });
    }
    Ok(layout)
}

/// A layout with the caller's strides, within `given` elements.
pub(super) fn strided<T: Element>(given: usize, shape: &[usize], strides: &[isize]) -> Result<ViewLayout, LayoutError> {
    let layout = ViewLayout::strided(shape, strides, size_of::<T>())?;
    let needed = layout.span();
    if needed > given {
        return Err(LayoutError::TooShort { shape: shape.to_vec(), strides: strides.to_vec(), needed, given });
    }
    Ok(layout)
}
