//! Arguments whose rows or columns are several axes of a tensor, counted by two digits (CuTe: a nested mode), as
//! [`DeviceTensor::as_matrix`] gives them. `kernel/views.rs` says what kernels make of them.

use epilogue_runtime::{DeviceTensor, NamedAxes};
use smallvec::SmallVec;

use crate::Argument;

/// Whether it is a matrix with two axes for its rows, and two for its columns, or a vector with two.
pub(crate) fn has_digits(tensor: &DeviceTensor) -> bool {
    tensor.axes().is_some_and(NamedAxes::has_digits)
}

/// The extents of an argument: of a view that was told its axes, those of the matrix or vector.
pub(crate) fn shape_of(tensor: &DeviceTensor) -> SmallVec<[usize; 4]> {
    tensor.axes().map_or_else(|| tensor.shape().into(), |axes| axes.shape().into())
}

/// The tensor of an argument that has one.
pub(crate) fn tensor_of<'a>(argument: &'a Argument<'_>) -> Option<&'a DeviceTensor> {
    match argument {
        Argument::Scalar(_) | Argument::Seed(..) => None,
        Argument::Input(tensor) => Some(tensor),
        Argument::Output(tensor) => Some(tensor),
    }
}
