//! Patches of images under a window: the A of a convolution, which is never stored as a matrix (im2col, implicit GEMM).
//!
//! Rows are outputs; columns are the window's elements, with the channels fastest. The code that loads A computes the
//! addresses, and nothing else knows that A is not a matrix. [`Groups of channels`](super::channels) make a batch of
//! convolutions, and [`gradients`](super::gradients) have the same form.

use epilogue_runtime::DeviceTensor;
use smallvec::SmallVec;

use super::channels::of_columns;
use super::error::Error;
use super::filter::FilterSize;
use super::layout::{Major, OperandLayout};
use super::patch_error::PatchError;
use super::sliding::{MOST_AXES, PatchMatrix, Sliding};
use crate::evt::MOST;

/// The images and the window, with three axes; an axis that the user's images lack has one element.
///
/// Row m of A is output `((image * outputs[0] + p0) * outputs[1] + p1) * outputs[2] + p2`. Column k is channel
/// `k % channels` of filter position `k / channels`, the last axis fastest. [Columns](Kind::Columns) exchange rows and
/// columns. Channels are those of one group: see [`channels`](super::channels). In a [gradient](Kind::Gradient), the
/// images are the outputs' gradient, and the window is mirrored. `outputs` are then the extents of the images whose
/// gradient is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patches {
    pub(crate) images: usize,
    pub(crate) inputs: [usize; MOST_AXES],
    pub(crate) outputs: [usize; MOST_AXES],
    /// Channels of one group.
    pub(crate) channels: usize,
    pub(crate) groups: usize,
    pub(crate) window: Sliding,
    /// Strides in elements: of images, of the axes, of channels.
    pub(crate) image: isize,
    pub(crate) steps: [isize; MOST_AXES],
    pub(crate) channel: isize,
}

/// The names of the axes.
pub(crate) const AXES: [&str; MOST_AXES] = ["D", "H", "W"];

impl Patches {
    /// # Errors
    /// [`PatchError`].
    pub(crate) fn of(x: &DeviceTensor, window: Sliding) -> Result<Self, Error> {
        let axes = window.axes;
        if !(1..=MOST_AXES).contains(&axes) {
            return Err(PatchError::Axes { axes }.into());
        }
        if x.rank() != axes + 2 {
            return Err(PatchError::Rank { given: x.shape().to_vec(), axes }.into());
        }
        for (what, numbers) in [("size", window.size), ("stride", window.stride), ("dilation", window.dilation)] {
            if numbers.contains(&0) {
                return Err(PatchError::Zero { what, given: window.own(&numbers) }.into());
            }
        }
        let (shape, strides) = (x.shape(), x.strides());
        let (mut inputs, mut steps) = ([1; MOST_AXES], [0; MOST_AXES]);
        inputs[MOST_AXES - axes..].copy_from_slice(&shape[1..=axes]);
        steps[MOST_AXES - axes..].copy_from_slice(&strides[1..=axes]);
        let (window, outputs) = match window.kind {
            PatchMatrix::Rows | PatchMatrix::Columns => (window, places(&window, &inputs)?),
            PatchMatrix::Gradient(images) => {
                let needed = places(&window, &images)?;
                if needed != inputs {
                    let (image, given, needed) = (window.own(&images), window.own(&inputs), window.own(&needed));
                    return Err(PatchError::GradientExtents { image, given, needed }.into());
                }
                (window.mirrored(&inputs, &images), images)
            }
        };
        let (images, channels, groups) = (shape[0], shape[axes + 1], window.groups);
        if groups == 0 || !channels.is_multiple_of(groups) {
            return Err(PatchError::ChannelGroups { given: shape.to_vec(), channels, groups }.into());
        }
        let channels = channels / groups;
        let (image, channel) = (strides[0], strides[axes + 1]);
        Ok(Self { images, inputs, outputs, channels, groups, window, image, steps, channel })
    }

    /// The stride from a group of channels to the next, in elements.
    pub(crate) const fn group(&self) -> isize {
        self.channels.cast_signed().saturating_mul(self.channel)
    }

    /// M and K, as far as they can be counted.
    pub(crate) fn extents(&self) -> [usize; 2] {
        let product = |first: usize, of: [usize; MOST_AXES]| of.into_iter().fold(first, usize::saturating_mul);
        let (outputs, elements) = (product(self.images, self.outputs), product(self.channels, self.window.size));
        if self.are_columns() { [elements, outputs] } else { [outputs, elements] }
    }

    /// Whether a patch is a column of A.
    pub(crate) fn are_columns(&self) -> bool {
        self.window.kind == PatchMatrix::Columns
    }

    /// Elements of all images, of a group's channels.
    pub(crate) fn elements(&self) -> usize {
        self.inputs.into_iter().fold(self.images.saturating_mul(self.channels), usize::saturating_mul)
    }

    /// The shape of the outputs without their channels.
    pub(crate) fn output_shape(&self) -> Vec<usize> {
        let mut shape = vec![self.images];
        shape.extend(self.window.own(&self.outputs));
        shape
    }

    /// The shape of a group's patch.
    pub(crate) fn patch_shape(&self) -> Vec<usize> {
        let mut shape = self.window.own(&self.window.size);
        shape.push(self.channels);
        shape
    }

    /// How kernels copy them: a copy is of neighbouring channels.
    pub(crate) fn layout(&self, address: u64, size: usize) -> OperandLayout {
        let extents = [self.images, self.inputs[0], self.inputs[1], self.inputs[2]];
        let strides = [self.image, self.steps[0], self.steps[1], self.steps[2]];
        let fits = |width: usize| {
            let aligned = |(extent, stride): (usize, isize)| {
                extent <= 1 || stride.unsigned_abs().wrapping_mul(size).is_multiple_of(width)
            };
            self.channel == 1
                && self.channels.wrapping_mul(size).is_multiple_of(width)
                && address.is_multiple_of(width as u64)
                && extents.into_iter().zip(strides).all(aligned)
        };
        let copy_bytes = [16, 8, 4].into_iter().find(|&width| width > size && fits(width)).unwrap_or(size);
        let major = if self.are_columns() { Major::Mn } else { Major::K };
        OperandLayout { major, copy_bytes }
    }

    /// Whether a filter is as large as the window, and what these patches are multiplied by.
    ///
    /// # Errors
    /// [`PatchError::FilterKind`], [`PatchError::FilterSize`], [`PatchError::GradientGroups`].
    pub(crate) fn check_filter(&self, filter: FilterSize) -> Result<(), Error> {
        let fits = match self.window.kind {
            PatchMatrix::Rows => filter.gradient_groups.is_none(),
            PatchMatrix::Gradient(_) => filter.gradient_groups.is_some(),
            PatchMatrix::Columns => false,
        };
        if !fits {
            return Err(PatchError::FilterKind { needed: self.multiplied_by() }.into());
        }
        let needed = self.window.own(&self.window.size);
        let given = filter.size[MOST_AXES - filter.axes.min(MOST_AXES)..].to_vec();
        if given != needed {
            return Err(PatchError::FilterSize { given, needed }.into());
        }
        match filter.gradient_groups {
            Some(given) if given != self.groups => {
                Err(PatchError::GradientGroups { given, needed: self.groups }.into())
            }
            _ => Ok(()),
        }
    }

    /// Why a B with this number of rows is not multiplied.
    pub(crate) fn refused(&self, x: &DeviceTensor, b: &DeviceTensor, rows: usize) -> Error {
        let ([_, elements], channels, groups) = (self.extents(), self.channels, self.groups);
        let (images, b) = (x.shape().to_vec(), b.shape().to_vec());
        match self.window.kind {
            PatchMatrix::Rows => PatchError::Channels { images, elements, channels, groups, b, rows },
            PatchMatrix::Gradient(_) => {
                PatchError::Filters { gradient: images, elements, filters: channels, groups, b, rows }
            }
            PatchMatrix::Columns => PatchError::Outputs { images, outputs: self.output_shape(), b },
        }
        .into()
    }

    /// Names of these patches, and of their B.
    fn multiplied_by(&self) -> &'static str {
        match self.window.kind {
            PatchMatrix::Rows => "`patches(…)` by `filter(&w)?`",
            PatchMatrix::Gradient(_) => "`gradient_patches(…)` by `gradient_filter(&w)?`",
            PatchMatrix::Columns => "`transposed_patches(…)` by the gradient of the outputs, a tensor",
        }
    }

    /// Every B as a matrix, or as a batch of one for each group: what [columns](Kind::Columns) are multiplied by may be images,
    /// `[N, P, Q, K]`.
    ///
    /// # Errors
    /// [`PatchError::OutputStrides`], [`PatchError::Shares`].
    pub(crate) fn matrices(&self, all_b: &[&DeviceTensor]) -> Result<Matrices, Error> {
        let outputs = self.output_shape();
        let as_matrix = |b: &DeviceTensor| match b.shape().split_last() {
            Some((filters, rows)) if self.are_columns() && rows == outputs => {
                let matrix = b.reshape([rows.iter().product(), *filters]);
                let refused = || PatchError::OutputStrides { shape: b.shape().to_vec(), strides: b.strides().to_vec() };
                matrix.map_err(|_| Error::from(refused()))
            }
            _ => Ok(b.clone()),
        };
        let in_groups = |b: &&DeviceTensor| {
            let (matrix, groups) = (as_matrix(b)?, self.groups);
            if groups == 1 || matrix.rank() != 2 {
                return Ok(matrix);
            }
            let uneven =
                || PatchError::Shares { b: b.shape().to_vec(), count: matrix.shape()[1], what: "columns", groups };
            of_columns(&matrix, groups).ok_or_else(|| uneven().into())
        };
        all_b.iter().map(in_groups).collect()
    }

    /// Whether kernels for sm_80 can count the starts of windows. They have 16 bits for a start along all axes but the
    /// last.
    ///
    /// # Errors
    /// [`PatchError::Position`], [`PatchError::Strides`].
    pub(crate) fn check_positions(&self) -> Result<(), Error> {
        const LIMIT: usize = i16::MAX as usize;
        // Columns are counted as they are needed.
        if self.are_columns() {
            return Ok(());
        }
        let Sliding { stride, before, input_dilation, .. } = self.window;
        for (i, axis) in AXES.into_iter().enumerate().take(MOST_AXES - 1) {
            let last = self.outputs[i].saturating_sub(1).saturating_mul(stride[i]).cast_signed();
            let furthest = last.saturating_sub(before[i]).unsigned_abs().max(before[i].unsigned_abs());
            let given = furthest.div_ceil(input_dilation[i]);
            if given > LIMIT {
                return Err(PatchError::Position { axis, given, limit: LIMIT }.into());
            }
        }
        // The remainders of a position by the strides have 16 bits, too, for all axes together.
        let remainders = input_dilation.into_iter().fold(1, usize::saturating_mul);
        if remainders > MOST_REMAINDERS {
            let given = self.window.own(&input_dilation);
            return Err(PatchError::Strides { given, limit: MOST_REMAINDERS }.into());
        }
        Ok(())
    }
}

/// The most remainders of a position along all axes, divided by the strides.
const MOST_REMAINDERS: usize = 1 << 16;

/// Matrices of every accumulator.
pub(crate) type Matrices = SmallVec<[DeviceTensor; 2]>;

/// How many places a window has along each axis of images of these extents.
///
/// # Errors
/// [`PatchError::Padded`], [`PatchError::Beyond`].
fn places(window: &Sliding, inputs: &[usize; MOST_AXES]) -> Result<[usize; MOST_AXES], Error> {
    let mut outputs = [1; MOST_AXES];
    for (i, axis) in AXES.into_iter().enumerate() {
        let (extent, reach) = (inputs[i], window.reach(i));
        let (before, after) = (window.before[i].unsigned_abs(), window.after[i].unsigned_abs());
        let padded = extent.saturating_add(before).saturating_add(after);
        for counted in [padded, window.stride[i], window.size[i]] {
            if counted > MOST {
                return Err(PatchError::Padded { axis, extent: counted, limit: MOST }.into());
            }
        }
        let room = padded.checked_sub(reach);
        let room = room.ok_or(PatchError::Beyond { axis, reach, extent, before, after })?;
        outputs[i] = room / window.stride[i] + 1;
    }
    Ok(outputs)
}
