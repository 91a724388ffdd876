//! ndarray's arrays as tensors, and tensors as ndarray's arrays.

use std::ptr::NonNull;

use ndarray::{
    Array, ArrayBase, ArrayD, ArrayView, ArrayViewD, ArrayViewMut, ArrayViewMutD, Dimension, IxDyn, RawData,
    ShapeBuilder as _, StrideShape,
};
use smallvec::SmallVec;

use super::owned::{Kept, take};
use super::scope::{Scope, require_host};
use crate::device::Device;
use crate::error::exchange::ExchangeError;
use crate::error::{LayoutError, Result};
use crate::layout::ViewLayout;
use crate::layout::element::{Element, PlainElement};
use crate::memory::host_memory::Rights;
use crate::tensor::DeviceTensor;
use crate::tensor::host_access::HostAccess;

impl<'env> Scope<'env> {
    /// A read-only tensor in the memory of an array view, with its strides (feature `ndarray`).
    ///
    /// ```
    /// use epilogue_runtime::{Device, Error};
    /// use ndarray::{Array2, array};
    ///
    /// let weights = array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
    /// let mut result = Array2::<f32>::zeros((3, 2));
    /// Device::cpu().scope(|scope| {
    ///     let x = scope.borrow_array(weights.t())?;
    ///     let mut y = scope.borrow_array_mut(result.view_mut())?;
    ///     assert_eq!((x.device_address(), x.strides()), (weights.as_ptr() as u64, &[1, 3][..]));
    ///     y.copy_from_tensor(&x)
    /// })?;
    /// assert_eq!(result, weights.t());
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::NegativeStride`] for an array with a negative stride;
    /// [`Error::Unsupported`](crate::Error::Unsupported) on a device other than the CPU.
    #[allow(clippy::needless_pass_by_value, reason = "a view is a reference")]
    pub fn borrow_array<T: Element, D: Dimension>(&self, array: ArrayView<'env, T, D>) -> Result<DeviceTensor> {
        let layout = layout(&array)?;
        let (pointer, bytes) = (start(array.as_ptr().cast_mut()), layout.span() * size_of::<T>());
        let rights = Rights { write: false, gaps: layout.is_packed() };
        // SAFETY: the elements are shared for 'env; without negative strides the first one has the lowest address.
        unsafe { self.lend(pointer, bytes, T::TYPE, layout, rights) }
    }

    /// [`borrow_array`](Self::borrow_array) for reading and writing.
    ///
    /// # Errors
    /// The errors of [`borrow_array`](Self::borrow_array).
    pub fn borrow_array_mut<T: PlainElement, D: Dimension>(
        &self,
        mut array: ArrayViewMut<'env, T, D>,
    ) -> Result<DeviceTensor> {
        let layout = layout(&array)?;
        let (pointer, bytes) = (start(array.as_mut_ptr()), layout.span() * size_of::<T>());
        let rights = Rights { write: true, gaps: layout.is_packed() };
        // SAFETY: the elements are this view's alone for 'env, what lies between them is not touched; as above.
        unsafe { self.lend(pointer, bytes, T::TYPE, layout, rights) }
    }
}

impl Device {
    /// A tensor that takes an array's memory, with its strides: nothing is copied (feature `ndarray`).
    ///
    /// ```
    /// use epilogue_runtime::{Device, Error};
    /// use ndarray::array;
    ///
    /// let mut x = Device::cpu().take_array(array![[1.0f64, 2.0], [3.0, 4.0]].reversed_axes())?;
    /// x.slice(0, 0..1)?.copy_from(&[10.0f64, 30.0])?;
    /// assert_eq!(x.into_array::<f64>()?, array![[10.0, 30.0], [2.0, 4.0]].into_dyn());
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::NegativeStride`] for an array with a negative stride;
    /// [`Error::Unsupported`](crate::Error::Unsupported) on a device other than the CPU.
    pub fn take_array<T: Element, D: Dimension>(&self, array: Array<T, D>) -> Result<DeviceTensor> {
        require_host(self)?;
        let mut layout = layout(&array)?;
        let (values, offset) = array.into_raw_vec_and_offset();
        layout.offset = offset.unwrap_or(0);
        take(self, values, layout)
    }
}

impl DeviceTensor {
    /// Calls `visit` with the tensor as an array view, with its strides, without a copy (feature `ndarray`). CPU
    /// tensors only. The memory is locked for reading meanwhile.
    ///
    /// # Errors
    /// [`Error::ElementType`](crate::Error::ElementType); those of [`HostAccess::lock`].
    pub fn with_array<T: PlainElement, R>(&self, visit: impl FnOnce(ArrayViewD<'_, T>) -> R) -> Result<R> {
        self.check_element::<T>()?;
        let access = HostAccess::lock(&[self], &[])?;
        let pointer = access.read_pointer(0).unwrap_or(std::ptr::null()).cast::<T>();
        // SAFETY: the view's elements lie in its memory, which is locked as long as the closure can hold the array;
        // strides are not negative, and extents and reach fit memory, as of every layout.
        Ok(visit(unsafe { ArrayViewD::from_shape_ptr(shape(self), pointer) }))
    }

    /// [`with_array`](Self::with_array) for writing.
    ///
    /// # Errors
    /// The errors of [`with_array`](Self::with_array); [`LayoutError::WriteToRepeated`].
    pub fn with_array_mut<T: PlainElement, R>(&mut self, visit: impl FnOnce(ArrayViewMutD<'_, T>) -> R) -> Result<R> {
        self.check_element::<T>()?;
        if self.has_internal_overlap() {
            let (shape, strides) = (self.shape().to_vec(), self.strides().to_vec());
            return Err(LayoutError::WriteToRepeated { shape, strides }.into());
        }
        let access = HostAccess::lock(&[], &[self])?;
        let pointer = access.write_pointer(0).unwrap_or(std::ptr::null_mut()).cast::<T>();
        // SAFETY: as above, locked for writing; no two indices reach one element.
        Ok(visit(unsafe { ArrayViewMutD::from_shape_ptr(shape(self), pointer) }))
    }

    /// The array that the tensor was made from ([`Device::take_array`], or [`Device::take_vec`]). It has the tensor's
    /// shape and order of axes, and everything that was written to it: nothing is copied (feature `ndarray`).
    ///
    /// # Errors
    /// The tensor and the reason, as for [`into_vec`](Self::into_vec); but the axes may be in any order.
    pub fn into_array<T: PlainElement>(self) -> Result<ArrayD<T>, Box<Kept>> {
        let count = self.len();
        let whole = self.offset() == 0 && count * self.element_type().size() == self.buffer().bytes();
        if !whole || self.layout().span() != count || self.has_internal_overlap() {
            let (shape, strides) = (self.shape().to_vec(), self.strides().to_vec());
            let reason = ExchangeError::PartialView { shape, strides, offset: self.offset() };
            return Err(Box::new(Kept { tensor: self, reason: reason.into() }));
        }
        let shape = shape(&self);
        let (values, _) = self.into_whole_vec::<T>("an array or a `Vec`")?;
        // SAFETY: every index has an element of its own, and they are all that the `Vec` has.
        Ok(unsafe { ArrayD::from_shape_vec_unchecked(shape, values) })
    }
}

/// An array's pointer, which is never null.
fn start<T>(pointer: *mut T) -> NonNull<u8> {
    NonNull::new(pointer.cast()).unwrap_or(NonNull::<u64>::dangling().cast())
}

/// The layout from the first element on.
fn layout<S: RawData<Elem = T>, T: Element, D: Dimension>(array: &ArrayBase<S, D>) -> Result<ViewLayout, LayoutError> {
    if array.is_empty() {
        return ViewLayout::packed(array.shape(), size_of::<T>());
    }
    // The stride of an axis with one element has no meaning.
    let step = |(&extent, &stride): (&usize, &isize)| if extent == 1 { stride.max(0) } else { stride };
    let strides: SmallVec<[isize; 4]> = array.shape().iter().zip(array.strides()).map(step).collect();
    ViewLayout::strided(array.shape(), &strides, size_of::<T>())
}

/// The shape and strides. Without elements, all strides are 0, as in ndarray.
fn shape(tensor: &DeviceTensor) -> StrideShape<IxDyn> {
    let step = |stride: &isize| if tensor.is_empty() { 0 } else { stride.unsigned_abs() };
    let strides: SmallVec<[usize; 4]> = tensor.strides().iter().map(step).collect();
    IxDyn(tensor.shape()).strides(IxDyn(&strides))
}

#[cfg(test)]
mod tests {
    use ndarray::{Array1, Array2, Array3, Axis, array, s};

    use super::*;
    use crate::{Arch, Error};

    fn counting(shape: (usize, usize, usize)) -> Array3<f32> {
        Array1::from_iter((0..shape.0 * shape.1 * shape.2).map(|i| i as f32)).into_shape_with_order(shape).unwrap()
    }

    #[test]
    fn every_view_of_an_array_is_the_same_tensor() {
        let a = counting((3, 4, 5));
        let row = a.slice(s![0, 0, ..]);
        let reversed = a.slice(s![.., ..;-1, ..]);
        let copied = reversed.as_standard_layout();
        let cpu = Device::cpu();
        cpu.scope(|scope| {
            let views = [
                a.view(),
                a.slice(s![1.., ..;2, 2..4]),
                a.view().permuted_axes([2, 0, 1]),
                a.slice(s![..1;-1, .., ..]),
                a.slice(s![..0, .., ..]),
            ];
            for view in views {
                let x = scope.borrow_array(view).unwrap();
                assert_eq!(x.shape(), view.shape());
                assert_eq!(x.to_vec::<f32>().unwrap(), view.iter().copied().collect::<Vec<_>>());
                if !view.is_empty() {
                    assert_eq!(x.device_address(), view.as_ptr() as u64);
                    x.with_array::<f32, _>(|again| {
                        assert_eq!((again.as_ptr(), again.strides()), (view.as_ptr(), x.strides()));
                        assert_eq!(again, view.into_dyn());
                    })
                    .unwrap();
                }
            }
            let repeated = scope.borrow_array(row.broadcast((2, 5)).unwrap()).unwrap();
            assert_eq!(repeated.strides(), [0, 1]);
            repeated.with_array::<f32, _>(|x| assert_eq!(x, row.broadcast([2, 5]).unwrap().into_dyn())).unwrap();
            let followed = scope.borrow_array(copied.view()).unwrap();
            assert_eq!(followed.to_vec::<f32>().unwrap(), reversed.iter().copied().collect::<Vec<_>>());
            let refused = scope.borrow_array(reversed).unwrap_err();
            assert_eq!(refused.to_string(), "strides [20, -5, 1] hold a negative one, as those of a reversed view do; strides are 0 or more: copy the view first \
                 (`as_standard_layout()` in ndarray, `ascontiguousarray` in numpy)");
        });
    }

    #[test]
    fn two_halves_of_an_array_are_written_apart() {
        let mut a = Array2::<f32>::zeros((4, 6));
        let (left, right) = a.view_mut().split_at(Axis(1), 2);
        Device::cpu().scope(|scope| {
            let mut left = scope.borrow_array_mut(left).unwrap();
            let mut right = scope.borrow_array_mut(right).unwrap();
            assert!(!left.overlaps(&right));
            left.copy_from(&[1.0f32; 8]).unwrap();
            // The rows of the two halves alternate in memory.
            assert!(matches!(left.with_bytes_mut(|_| ()), Err(Error::Exchange(ExchangeError::Gaps { .. }))));
            right.with_array_mut::<f32, _>(|mut right| right.fill(2.0)).unwrap();
            let mut wide = right.slice(1, 0..1).unwrap().broadcast_to([4, 2]).unwrap();
            let refused = wide.with_array_mut::<f32, _>(|_| ());
            assert!(matches!(refused, Err(Error::Layout(LayoutError::WriteToRepeated { .. }))));
            assert!(matches!(right.with_array::<f64, _>(|_| ()), Err(Error::ElementType { .. })));
        });
        assert_eq!(a.sum_axis(Axis(0)), array![4.0, 4.0, 8.0, 8.0, 8.0, 8.0]);
    }

    #[test]
    fn an_array_comes_back_in_any_order_of_its_axes() {
        let cpu = Device::cpu();
        let a = counting((2, 3, 4));
        let expected = a.view().permuted_axes([1, 2, 0]).to_owned().into_dyn();
        let place = a.as_ptr();
        let x = cpu.take_array(a).unwrap().permute(&[1, 2, 0]).unwrap();
        let back = x.into_array::<f32>().unwrap();
        assert_eq!((back.as_ptr(), &back), (place, &expected));
        assert_eq!(
            cpu.take_vec(vec![1u8, 2], [2, 1]).unwrap().into_array::<u8>().unwrap(),
            array![[1], [2]].into_dyn()
        );
        cpu.zeros::<f32>([0, 3]).unwrap().with_array::<f32, _>(|x| assert_eq!(x.shape(), [0, 3])).unwrap();
        let empty = cpu.take_array(Array2::<f32>::zeros((0, 3))).unwrap().into_array::<f32>().unwrap();
        assert_eq!(empty.shape(), [0, 3]);

        // A tensor of a part keeps the whole array, and is not given back as if it were the whole.
        let part = cpu.take_array(counting((1, 3, 4)).slice_move(s![0, 1.., 1..3])).unwrap();
        assert_eq!((part.offset(), part.to_vec::<f32>().unwrap()), (5, vec![5.0, 6.0, 9.0, 10.0]));
        let kept = part.into_array::<f32>().unwrap_err();
        assert!(matches!(kept.reason, Error::Exchange(ExchangeError::PartialView { offset: 5, .. })));
        let mut backwards = counting((1, 1, 3));
        backwards.invert_axis(Axis(2));
        assert!(matches!(cpu.take_array(backwards), Err(Error::Layout(LayoutError::NegativeStride { .. }))));
        let made = cpu.zeros::<f32>([2]).unwrap().into_array::<f32>().unwrap_err();
        assert!(matches!(made.reason, Error::Exchange(ExchangeError::NotTaken { .. })));
        let emulated = Device::emulated(Arch::SM_80).unwrap();
        assert!(matches!(emulated.take_array(array![1.0f32]), Err(Error::Unsupported { .. })));
        let away = emulated.zeros::<f32>([1]).unwrap();
        assert!(matches!(away.with_array::<f32, _>(|_| ()), Err(Error::Device { .. })));
    }
}
