//! Tensors on a device: a shared buffer, an element type, a shape and strides.

pub(crate) mod as_matrix;
pub(crate) mod copy;
pub(crate) mod create;
pub(crate) mod host_access;
pub(crate) mod tensor_map;

use std::ops::Range;
use std::sync::Arc;

use crate::device::Device;
use crate::device::host;
use crate::error::{Error, LayoutError, Result};
use crate::layout::ViewLayout;
use crate::layout::axes::NamedAxes;
use crate::layout::element::{Element, ElementType};
use crate::layout::overlap;
use crate::layout::strided::Strided;
use crate::memory::buffer::{Buffer, BufferMemory};
use crate::memory::host_lock::HostUse;

/// A tensor on a device, which kernels read and write: a strided view of a buffer.
///
/// ```
/// use epilogue_runtime::{Device, ElementType, Error};
///
/// let device = Device::cpu();
/// let matrix = device.tensor(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
/// let transposed = matrix.transpose()?; // no copy
/// assert_eq!((transposed.shape(), transposed.strides()), (&[3, 2][..], &[1, 3][..]));
/// assert_eq!(transposed.to_vec::<f32>()?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
///
/// matrix.slice(0, 1..2)?.copy_from(&[0.0f32; 3])?; // the second row, seen by every view
/// assert_eq!(transposed.contiguous()?.to_vec::<f32>()?, [1.0, 0.0, 2.0, 0.0, 3.0, 0.0]);
/// assert!(matches!(matrix.to_vec::<f64>(), Err(Error::ElementType { held: ElementType::F32, .. })));
/// # Ok::<(), Error>(())
/// ```
///
/// Cloning and viewing are cheap and share the buffer. It is freed, in stream order, after the last view is dropped and
/// its last use is over. The element type is a value, which is checked when Rust types are used.
#[derive(Clone, Debug)]
pub struct DeviceTensor {
    buffer: Arc<Buffer>,
    element: ElementType,
    layout: ViewLayout,
    /// The axes of a view as a matrix or vector.
    axes: Option<Arc<NamedAxes>>,
}

impl DeviceTensor {
    pub(crate) fn new(buffer: Arc<Buffer>, element: ElementType, layout: ViewLayout) -> Self {
        Self { buffer, element, layout, axes: None }
    }

    pub(crate) fn into_buffer(self) -> Arc<Buffer> {
        self.buffer
    }

    pub(crate) fn layout(&self) -> &ViewLayout {
        &self.layout
    }

    pub(crate) fn buffer(&self) -> &Arc<Buffer> {
        &self.buffer
    }

    /// The type of every element.
    #[must_use]
    pub fn element_type(&self) -> ElementType {
        self.element
    }

    /// The extent of every axis.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.layout.shape
    }

    /// The stride of every axis, in elements; never negative, 0 along a broadcast axis.
    #[must_use]
    pub fn strides(&self) -> &[isize] {
        &self.layout.strides
    }

    /// Number of axes.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.layout.shape.len()
    }

    /// The index of the first element in its buffer.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.layout.offset
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// Whether some extent is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the elements are in memory. They are not on a bundle's target, and for [`Device::without_memory`].
    #[must_use]
    pub fn has_memory(&self) -> bool {
        !matches!(self.buffer.memory(), BufferMemory::None { .. })
    }

    /// The device that it is on.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.buffer.device()
    }

    /// Whether the elements are consecutive in row-major order.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        self.layout.is_packed()
    }

    /// The address of the first element, as kernels take it; on the CPU, a pointer.
    #[must_use]
    pub fn device_address(&self) -> u64 {
        self.buffer.address().wrapping_add((self.layout.offset * self.element.size()) as u64)
    }

    /// The largest power of two, at most 256, that divides the first element's address. (Rows may be aligned less:
    /// that depends on the strides.)
    #[must_use]
    pub fn alignment(&self) -> usize {
        1 << self.device_address().trailing_zeros().min(8)
    }

    /// The addresses from the first byte of the view to one past its last; empty for an empty view.
    #[must_use]
    pub fn byte_range(&self) -> Range<u64> {
        let start = self.device_address();
        start..start + (self.layout.span() * self.element.size()) as u64
    }

    /// Whether the views have a byte in common.
    ///
    /// The answer is exact for views whose strides come from slicing, permuting and reshaping matrices (disjoint
    /// columns of one matrix do not overlap). For complicated strides the search is stopped, and the answer is `true`.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.device() == other.device()
            && overlap::between(
                overlap::View { address: self.device_address(), element: self.element.size(), layout: &self.layout },
                overlap::View { address: other.device_address(), element: other.element.size(), layout: &other.layout },
            )
    }

    /// Whether two indices of this view have the same element, as in a broadcast: a view that has them can't be
    /// written.
    #[must_use]
    pub fn has_internal_overlap(&self) -> bool {
        overlap::within(&self.layout)
    }

    /// The lists of axes, if the tensor is a view made by [`as_matrix`](Self::as_matrix) or its like.
    #[must_use]
    pub fn axes(&self) -> Option<&NamedAxes> {
        self.axes.as_deref()
    }

    fn view(&self, layout: ViewLayout) -> Self {
        Self::new(Arc::clone(&self.buffer), self.element, layout)
    }

    pub(crate) fn named_view(&self, layout: ViewLayout, axes: NamedAxes) -> Self {
        Self { axes: Some(Arc::new(axes)), ..self.view(layout) }
    }

    /// The part `range` of `axis`.
    ///
    /// # Errors
    /// [`LayoutError::Axis`], [`LayoutError::Range`].
    pub fn slice(&self, axis: usize, range: Range<usize>) -> Result<Self> {
        Ok(self.view(self.layout.slice(axis, range)?))
    }

    /// Axes in another order: axis `i` of the result is axis `order[i]` of `self`.
    ///
    /// # Errors
    /// [`LayoutError::Permutation`] if `order` does not name every axis once.
    pub fn permute(&self, order: &[usize]) -> Result<Self> {
        Ok(self.view(self.layout.permute(order)?))
    }

    /// A view with the last two axes exchanged.
    ///
    /// # Errors
    /// [`LayoutError::Transpose`] if there are fewer than two.
    pub fn transpose(&self) -> Result<Self> {
        let rank = self.rank();
        if rank < 2 {
            return Err(LayoutError::Transpose { shape: self.shape().to_vec() }.into());
        }
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(rank - 1, rank - 2);
        self.permute(&order)
    }

    /// Gives the elements, in row-major order, another shape.
    ///
    /// # Errors
    /// [`LayoutError::ElementCount`]; [`LayoutError::Reshape`] if only a copy could have that shape.
    pub fn reshape(&self, shape: impl AsRef<[usize]>) -> Result<Self> {
        Ok(self.view(self.layout.reshape(shape.as_ref(), self.element.size())?))
    }

    /// Repeats axes of extent 1, and adds new axes in front, without a copy.
    ///
    /// # Errors
    /// [`LayoutError::Broadcast`].
    pub fn broadcast_to(&self, shape: impl AsRef<[usize]>) -> Result<Self> {
        Ok(self.view(self.layout.broadcast_to(shape.as_ref(), self.element.size())?))
    }

    /// A new axis of extent 1 in front of `axis`.
    ///
    /// # Errors
    /// [`LayoutError::Axis`] if `axis` is greater than the rank.
    pub fn unsqueeze(&self, axis: usize) -> Result<Self> {
        Ok(self.view(self.layout.unsqueeze(axis)?))
    }

    /// The elements in row-major order. Waits for the work that writes them.
    ///
    /// # Errors
    /// [`Error::ElementType`] if the tensor has another type; a fault of that work.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.check_element::<T>()?;
        let mut values = zeroed::<T::Memory>(self.len())?;
        self.gather(bytemuck::cast_slice_mut(&mut values))?;
        Ok(T::from_memory(values))
    }

    /// The elements' bytes in row-major order. Waits for the work that writes them.
    ///
    /// # Errors
    /// A fault of that work.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = zeroed::<u8>(self.len().saturating_mul(self.element.size()))?;
        self.gather(&mut bytes)?;
        Ok(bytes)
    }

    /// Overwrites the elements with `values`, in row-major order. Waits for the work that uses them.
    ///
    /// # Errors
    /// [`Error::ElementType`]; [`LayoutError::DataLength`]; [`LayoutError::WriteToRepeated`].
    pub fn copy_from<T: Element>(&mut self, values: &[T]) -> Result<()> {
        self.check_element::<T>()?;
        self.copy_from_bytes(T::bytes(values))
    }

    /// Overwrites the elements with those of the given bytes, in row-major order.
    ///
    /// # Errors
    /// [`LayoutError::DataLength`]; [`LayoutError::WriteToRepeated`].
    pub fn copy_from_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let (needed, size) = (self.len(), self.element.size());
        if bytes.len() != needed * size {
            let given = bytes.len() / size;
            return Err(LayoutError::DataLength { shape: self.shape().to_vec(), needed, given }.into());
        }
        if self.has_internal_overlap() {
            let (shape, strides) = (self.shape().to_vec(), self.strides().to_vec());
            return Err(LayoutError::WriteToRepeated { shape, strides }.into());
        }
        if needed == 0 {
            return Ok(());
        }
        let start = self.layout.offset * size;
        if self.is_contiguous() {
            return self.buffer.write(start, bytes);
        }
        if let BufferMemory::Host(memory) = self.buffer.memory() {
            let _lock = memory.hold(HostUse::Write)?;
            // SAFETY: the view lies in the buffer, and the lock keeps everyone else out of its elements. (What lies
            // between them may be somebody else's.)
            unsafe { self.scattering().copy(bytes.as_ptr(), memory.pointer().add(start)) };
            return Ok(());
        }
        if !self.has_memory() {
            return Ok(());
        }
        let mut span = zeroed::<u8>(self.span_bytes())?;
        self.buffer.read(start, &mut span)?;
        self.scatter_into(bytes, &mut span);
        self.buffer.write(start, &span)
    }

    fn span_bytes(&self) -> usize {
        self.layout.span() * self.element.size()
    }

    pub(crate) fn check_element<T: Element>(&self) -> Result<()> {
        if self.element == T::TYPE { Ok(()) } else { Err(Error::ElementType { held: self.element, asked: T::TYPE }) }
    }

    fn gather(&self, into: &mut [u8]) -> Result<()> {
        if into.is_empty() {
            return Ok(());
        }
        let start = self.layout.offset * self.element.size();
        if self.is_contiguous() {
            return self.buffer.read(start, into);
        }
        if let BufferMemory::Host(memory) = self.buffer.memory() {
            let _lock = memory.hold(HostUse::Read)?;
            debug_assert!(into.len() == self.len() * self.element.size());
            // SAFETY: the view lies in the buffer, and nobody writes its elements while the lock is held.
            unsafe { self.gathering().copy(memory.pointer().add(start), into.as_mut_ptr()) };
            return Ok(());
        }
        let mut span = zeroed::<u8>(self.span_bytes())?;
        self.buffer.read(start, &mut span)?;
        self.gather_from(&span, into);
        Ok(())
    }

    /// Copies the view's elements out of the bytes that it spans.
    fn gather_from(&self, span: &[u8], into: &mut [u8]) {
        debug_assert!(span.len() >= self.span_bytes() && into.len() == self.len() * self.element.size());
        // SAFETY: the view spans the one, and its elements fill the other.
        unsafe { self.gathering().copy(span.as_ptr(), into.as_mut_ptr()) };
    }

    /// Copies the view's elements into the bytes that it spans.
    fn scatter_into(&self, from: &[u8], span: &mut [u8]) {
        debug_assert!(span.len() >= self.span_bytes() && from.len() == self.len() * self.element.size());
        // SAFETY: as above.
        unsafe { self.scattering().copy(from.as_ptr(), span.as_mut_ptr()) };
    }

    /// The copy of the view's elements into a packed row.
    fn gathering(&self) -> Strided {
        let packed = self.layout.packed_strides();
        Strided::new(self.shape(), self.strides(), &packed, self.element.size(), usize::MAX)
    }

    /// The copy of a packed row into the view's elements.
    fn scattering(&self) -> Strided {
        let packed = self.layout.packed_strides();
        Strided::new(self.shape(), &packed, self.strides(), self.element.size(), usize::MAX)
    }
}

/// A vector of zeros. A view with repeated elements may need more of them than there is memory for: then this fails.
pub(crate) fn zeroed<T: bytemuck::Zeroable + Clone>(len: usize) -> Result<Vec<T>> {
    filled(len, T::zeroed())
}

/// A vector that repeats a value.
pub(crate) fn filled<T: Clone>(len: usize, value: T) -> Result<Vec<T>> {
    let bytes = len.saturating_mul(size_of::<T>());
    let fail = || Error::OutOfMemory { device: "this computer".to_owned(), bytes };
    if !host::has_room(bytes) {
        return Err(fail());
    }
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| fail())?;
    values.resize(len, value);
    Ok(values)
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;
    use crate::HostAccess;

    fn counting(shape: [usize; 2]) -> DeviceTensor {
        let values: Vec<f32> = (0..shape[0] * shape[1]).map(|i| i as f32).collect();
        Device::cpu().tensor(&values, shape).unwrap()
    }

    #[test]
    fn values_come_back() {
        let m = counting([2, 3]);
        assert_eq!(m.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(m.transpose().unwrap().to_vec::<f32>().unwrap(), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        assert_eq!(m.slice(1, 1..2).unwrap().to_vec::<f32>().unwrap(), [1.0, 4.0]);
        let refused = m.to_vec::<f16>();
        assert!(matches!(refused, Err(Error::ElementType { held: ElementType::F32, asked: ElementType::F16 })));
        assert_eq!(m.copy_to(&Device::cpu()).unwrap().to_bytes().unwrap(), m.to_bytes().unwrap());
    }

    #[test]
    fn a_view_of_more_elements_than_memory_is_an_error() {
        for device in [Device::cpu(), Device::emulated(crate::Arch::SM_80).unwrap()] {
            let one = device.tensor(&[1f32], [1]).unwrap();
            for extent in [1usize << 45, 1 << 60] {
                let wide = one.broadcast_to([extent]).unwrap();
                assert!(matches!(wide.to_vec::<f32>(), Err(Error::OutOfMemory { .. })), "{extent}");
                assert!(matches!(wide.to_bytes(), Err(Error::OutOfMemory { .. })), "{extent}");
                assert!(wide.copy_to(&device).is_err() && wide.contiguous().is_err());
                assert!(device.full([extent], 1f32).is_err());
            }
        }
    }

    #[test]
    fn fills() {
        let cpu = Device::cpu();
        assert_eq!(cpu.zeros::<i8>([3]).unwrap().to_vec::<i8>().unwrap(), [0; 3]);
        assert_eq!(cpu.full::<f32>([2], -0.0).unwrap().to_vec::<f32>().unwrap()[0].to_bits(), (-0.0f32).to_bits());
        assert_eq!(cpu.full::<f16>([2, 2], f16::ONE).unwrap().to_vec::<f16>().unwrap(), [f16::ONE; 4]);
        assert_eq!(cpu.zeros_of(ElementType::F8E4M3, [5]).unwrap().to_bytes().unwrap(), [0; 5]);
        assert!(cpu.zeros::<f32>([0, 7]).unwrap().to_vec::<f32>().unwrap().is_empty());
        assert!(matches!(
            cpu.tensor(&[1.0f32; 5], [2, 3]),
            Err(Error::Layout(LayoutError::DataLength { needed: 6, given: 5, .. }))
        ));
        assert!(cpu.tensor_from_bytes(ElementType::F32, &[0; 25], [6]).is_err());
        assert!(matches!(cpu.zeros::<f32>([usize::MAX, 2]), Err(Error::Layout(LayoutError::TooLarge { .. }))));
    }

    #[test]
    fn writes_go_through_views() {
        let m = counting([2, 3]);
        let mut column = m.slice(1, 1..2).unwrap();
        column.copy_from(&[10.0f32, 20.0]).unwrap();
        let mut row = m.slice(0, 1..2).unwrap();
        assert_eq!(row.to_vec::<f32>().unwrap(), [3.0, 20.0, 5.0]);
        row.copy_from(&[7.0f32, 8.0, 9.0]).unwrap();
        assert_eq!(m.to_vec::<f32>().unwrap(), [0.0, 10.0, 2.0, 7.0, 8.0, 9.0]);
        let mut repeated = m.slice(0, 0..1).unwrap().broadcast_to([2, 3]).unwrap();
        assert!(repeated.has_internal_overlap());
        assert!(matches!(repeated.copy_from(&[0.0f32; 6]), Err(Error::Layout(LayoutError::WriteToRepeated { .. }))));
    }

    #[test]
    fn overlap_of_views() {
        let m = counting([4, 6]);
        let (left, right) = (m.slice(1, 0..3).unwrap(), m.slice(1, 3..6).unwrap());
        assert!(!left.overlaps(&right));
        assert!(left.overlaps(&m) && m.transpose().unwrap().overlaps(&right));
        assert!(!m.overlaps(&counting([4, 6])));
        assert_eq!(m.byte_range().end - m.byte_range().start, 96);
        assert_eq!(right.alignment(), 4);
        assert!(m.alignment() >= 64);
    }

    #[test]
    fn host_access_gives_every_view_its_pointer() {
        let m = counting([2, 3]);
        let (a, b) = (m.slice(1, 0..1).unwrap(), m.slice(1, 2..3).unwrap());
        let other = counting([1, 1]);
        {
            let access = HostAccess::lock(&[&a, &other], &[&b]).unwrap();
            let (read, write) = (access.read_pointer(0).unwrap(), access.write_pointer(0).unwrap());
            assert!(access.read_pointer(2).is_none());
            // SAFETY: both elements lie in `m`, whose lock `access` holds for writing.
            unsafe { write.cast::<f32>().write(read.cast::<f32>().read() - 1.0) };
        }
        assert_eq!(m.to_vec::<f32>().unwrap(), [0.0, 1.0, -1.0, 3.0, 4.0, 5.0]);
        let mut m = m;
        m.with_bytes_mut(|bytes| bytes[..4].copy_from_slice(&5.0f32.to_ne_bytes())).unwrap();
        assert_eq!(m.with_bytes(<[u8]>::len).unwrap(), 24);
        assert_eq!(m.slice(1, 0..1).unwrap().to_vec::<f32>().unwrap(), [5.0, 3.0]);
    }
}
