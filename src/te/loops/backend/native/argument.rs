//! Arguments of native kernels: host memory, checked against the program's arguments.

use std::collections::HashMap;
use std::marker::PhantomData;

use crate::te::bind::binding::GivenShape;
use crate::te::dtype::DType;
use crate::te::error::{RunError, TeError};
use crate::te::expr::buffer::Buffer;
use crate::te::expr::tensor::Tensor;
use crate::te::expr::var::Var;
use crate::{Element, PlainElement};

/// A tensor in host memory, which a kernel reads, or reads and writes.
#[derive(Debug)]
pub struct HostTensor<'a> {
    pointer: *mut u8,
    /// Number of elements that the memory holds.
    len: usize,
    writable: bool,
    dtype: DType,
    shape: Vec<usize>,
    strides: Vec<usize>,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> HostTensor<'a> {
    /// Row-major elements that are only read.
    ///
    /// # Errors
    /// [`RunError::Argument`] when there are not as many values as `shape` holds.
    pub fn read<T: Element>(values: &'a [T], shape: &[usize]) -> Result<Self, TeError> {
        // SAFETY: the slice is borrowed for as long as the tensor lives, and never written through it.
        let tensor =
            unsafe { Self::from_raw(values.as_ptr().cast_mut().cast(), values.len(), T::TYPE.into(), shape, false) };
        tensor.checked_len()
    }

    /// Row-major elements that are read and written.
    ///
    /// # Errors
    /// [`RunError::Argument`] when there are not as many values as `shape` holds.
    pub fn write<T: PlainElement>(values: &'a mut [T], shape: &[usize]) -> Result<Self, TeError> {
        // SAFETY: the slice is borrowed exclusively for as long as the tensor lives.
        let tensor = unsafe { Self::from_raw(values.as_mut_ptr().cast(), values.len(), T::TYPE.into(), shape, true) };
        tensor.checked_len()
    }

    /// Row-major elements of any type that are only read, as bytes in the host's order. A truth value is one byte.
    ///
    /// # Errors
    /// [`RunError::Argument`] when there are not as many bytes as `shape` needs.
    pub fn read_bytes(dtype: impl Into<DType>, bytes: &'a [u8], shape: &[usize]) -> Result<Self, TeError> {
        let dtype = DType::of(dtype);
        check_bytes(dtype, bytes.len())?;
        let len = bytes.len() / element_size(dtype);
        // SAFETY: the slice is borrowed for as long as the tensor lives, and never written through it.
        unsafe { Self::from_raw(bytes.as_ptr().cast_mut(), len, dtype, shape, false) }.checked_len()
    }

    /// Row-major elements of any type that are read and written, as bytes in the host's order.
    ///
    /// # Errors
    /// [`RunError::Argument`] when there are not as many bytes as `shape` needs.
    pub fn write_bytes(dtype: impl Into<DType>, bytes: &'a mut [u8], shape: &[usize]) -> Result<Self, TeError> {
        let dtype = DType::of(dtype);
        check_bytes(dtype, bytes.len())?;
        let len = bytes.len() / element_size(dtype);
        // SAFETY: the slice is borrowed exclusively for as long as the tensor lives.
        unsafe { Self::from_raw(bytes.as_mut_ptr(), len, dtype, shape, true) }.checked_len()
    }

    /// Row-major memory of `len` elements at `pointer`.
    ///
    /// # Safety
    /// The memory must be valid for reads of `len` elements for as long as the tensor lives, and for writes if it is
    /// `writable`. While a kernel runs on it, nobody else may write it; if it is `writable`, nobody else may read it
    /// either.
    pub unsafe fn from_raw(pointer: *mut u8, len: usize, dtype: DType, shape: &[usize], writable: bool) -> Self {
        let mut strides = vec![1usize; shape.len()];
        for d in (1..shape.len()).rev() {
            strides[d - 1] = strides[d].saturating_mul(shape[d]);
        }
        Self { pointer, len, writable, dtype, shape: shape.to_vec(), strides, memory: PhantomData }
    }

    /// Views the memory with other extents and strides, in elements. A stride of 0 repeats elements along an axis.
    ///
    /// # Errors
    /// [`RunError::Argument`] when the memory is too small for them, or when it is written and two indices share an
    /// element.
    pub fn with_strides(mut self, shape: &[usize], strides: &[usize]) -> Result<Self, TeError> {
        if shape.len() != strides.len() {
            return Err(refuse(
                "array",
                format!("{} strides were given for {} dimensions", strides.len(), shape.len()),
            ));
        }
        self.shape = shape.to_vec();
        self.strides = strides.to_vec();
        let span = self.span();
        if span.is_none_or(|span| span > self.len) {
            let reason = format!("the shape {shape:?} with strides {strides:?} reaches beyond {} elements", self.len);
            return Err(refuse("array", reason));
        }
        if self.writable && self.overlaps_itself() {
            let reason = format!("the shape {shape:?} with strides {strides:?} has two indices of one element");
            return Err(refuse("array", reason));
        }
        Ok(self)
    }

    fn given(&self) -> GivenShape<'_> {
        // Memory never has more bytes than the address range, so strides fit.
        let strides = self.strides.iter().map(|stride| i64::try_from(*stride).unwrap_or(i64::MAX)).collect();
        GivenShape { dtype: self.dtype, shape: &self.shape, strides }
    }

    fn checked_len(self) -> Result<Self, TeError> {
        let needed = self.shape.iter().try_fold(1usize, |n, extent| n.checked_mul(*extent));
        if needed == Some(self.len) {
            return Ok(self);
        }
        let needed = needed.map_or_else(|| "more elements than memory".to_owned(), |n| format!("{n} elements"));
        let reason = format!("the shape {:?} holds {needed}, {} were given", self.shape, self.len);
        Err(refuse("array", reason))
    }

    /// One more than the last element that an index reaches; `None` if it doesn't fit a `usize`.
    fn span(&self) -> Option<usize> {
        if self.shape.contains(&0) {
            return Some(0);
        }
        let reach =
            |sum: usize, (extent, stride): (&usize, &usize)| sum.checked_add((extent - 1).checked_mul(*stride)?);
        self.shape.iter().zip(&self.strides).try_fold(0, reach)?.checked_add(1)
    }

    /// Whether two indices may share an element. It is exact for slices and permutations of a matrix.
    fn overlaps_itself(&self) -> bool {
        if self.shape.contains(&0) {
            return false;
        }
        let mut axes: Vec<(usize, usize)> =
            self.strides.iter().copied().zip(self.shape.iter().copied()).filter(|(_, extent)| *extent > 1).collect();
        axes.sort_unstable();
        let mut reach = 0usize;
        for (stride, extent) in axes {
            if stride <= reach {
                return true;
            }
            reach = reach.saturating_add(stride.saturating_mul(extent - 1));
        }
        false
    }

    /// Whether it has no elements.
    pub(super) fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    pub(super) fn pointer(&self) -> *mut u8 {
        self.pointer
    }

    fn bytes(&self) -> std::ops::Range<usize> {
        let start = self.pointer as usize;
        start..start.saturating_add(self.len.saturating_mul(element_size(self.dtype)))
    }
}

/// The bytes of an element.
pub(super) const fn element_size(dtype: DType) -> usize {
    dtype.in_memory().size()
}

fn check_bytes(dtype: DType, bytes: usize) -> Result<(), TeError> {
    let size = element_size(dtype);
    if bytes.is_multiple_of(size) {
        return Ok(());
    }
    Err(refuse("array", format!("{bytes} bytes are no whole number of elements of type {dtype}, {size} bytes each")))
}

fn refuse(tensor: &str, reason: String) -> TeError {
    RunError::Argument { tensor: tensor.to_owned(), reason }.into()
}

/// The sizes and spans that follow from a run's arguments.
#[derive(Debug)]
pub(super) struct BoundArguments {
    /// The values of the variables that are sizes and strides.
    pub(super) sizes: HashMap<Var, i64>,
    /// The number of elements that each argument spans.
    pub(super) spans: Vec<usize>,
}

/// Checks the arguments of a run against the program's, and finds the values of its sizes and strides.
pub(super) fn bind(
    parameters: &[(Tensor, Buffer)],
    written: &[bool],
    arguments: &[HostTensor<'_>],
) -> Result<BoundArguments, TeError> {
    let given: Vec<GivenShape<'_>> = arguments.iter().map(HostTensor::given).collect();
    let sizes = crate::te::bind::binding::bind(parameters, &given)?;
    for ((tensor, buffer), given) in parameters.iter().zip(&given) {
        for (d, (extent, given)) in buffer.shape().iter().zip(given.shape).enumerate() {
            let narrow = extent.as_var().filter(|var| var.dtype() == DType::I32 && i32::try_from(*given).is_err());
            if let Some(var) = narrow {
                let reason = format!("dimension {d} is {given}; {} is a variable of 32 bits", var.name());
                return Err(refuse(&tensor.name(), reason));
            }
        }
    }
    let mut spans = Vec::with_capacity(arguments.len());
    for (((tensor, _), argument), written) in parameters.iter().zip(arguments).zip(written) {
        if *written && !argument.writable {
            return Err(refuse(&tensor.name(), "the kernel writes it; pass it as `HostTensor::write`".to_owned()));
        }
        let span = argument.span().filter(|span| *span <= argument.len);
        spans.push(span.ok_or_else(|| refuse(&tensor.name(), "its memory is smaller than its shape".to_owned()))?);
    }
    Ok(BoundArguments { sizes, spans })
}

/// Checks that memory that is written is not shared with another argument.
pub(super) fn check_sharing(
    parameters: &[(Tensor, Buffer)],
    written: &[bool],
    arguments: &[HostTensor<'_>],
) -> Result<(), TeError> {
    for (i, argument) in arguments.iter().enumerate() {
        for (j, other) in arguments.iter().enumerate() {
            let (a, b) = (argument.bytes(), other.bytes());
            if i != j && written[i] && !a.is_empty() && !b.is_empty() && a.start < b.end && b.start < a.end {
                let reason = format!("the kernel writes it, and {} lies in the same memory", parameters[j].0.name());
                return Err(refuse(&parameters[i].0.name(), reason));
            }
        }
    }
    Ok(())
}
