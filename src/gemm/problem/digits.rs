//! Arguments whose rows, columns or batches are counted by two digits, as [`DeviceTensor::as_matrix`] and its like give them.

use epilogue_runtime::{DeviceTensor, NamedAxes};
use smallvec::SmallVec;

use crate::Argument;

/// Whether it is a matrix with two axes for its rows, and two for its columns, or a vector with two.
pub(crate) fn has_digits(tensor: &DeviceTensor) -> bool {
    tensor.axes().is_some_and(NamedAxes::has_digits)
}

/// Whether it has two axes for its batches.
pub(crate) fn has_batch_digits(tensor: &DeviceTensor) -> bool {
    tensor.axes().is_some_and(|axes| axes.batch_axes() > 1)
}

/// Where the batches of an argument are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchAxes {
    /// A stride in elements; 0 if all batches share the argument.
    One(isize),
    /// Counted by two digits: how many values the lower one has, and the strides of the lower and the upper one.
    Digits {
        /// The extent of the lower one.
        extent: usize,
        /// In elements.
        strides: [isize; 2],
    },
}

impl BatchAxes {
    /// The batches of an argument with `own` axes behind the batch axes. Without a batch axis, or if it has one
    /// element, all batches share the argument.
    pub(crate) fn of(tensor: &DeviceTensor, own: usize) -> Self {
        let (shape, strides) = (tensor.shape(), tensor.strides());
        match tensor.rank().saturating_sub(own) {
            0 => Self::One(0),
            1 => Self::One(if shape[0] > 1 { strides[0] } else { 0 }),
            _ => Self::Digits { extent: shape[1], strides: [strides[1], strides[0]] },
        }
    }

    /// The strides of axes with more than one element.
    pub(crate) fn strides(self) -> impl Iterator<Item = isize> {
        let (first, second) = match self {
            Self::One(stride) => (stride, None),
            Self::Digits { strides: [lower, upper], .. } => (lower, Some(upper)),
        };
        std::iter::once(first).chain(second)
    }
}

/// The extents of an argument. If a view was told its axes, they are the matrix's or vector's.
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
