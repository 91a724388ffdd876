//! Patches of images: where the elements of a convolution's A are.

use epilogue_runtime::DeviceTensor;

use super::error::Error;
use super::filter::FilterSize;
use super::layout::{Major, OperandLayout};
use super::patch_error::PatchError;
use super::sliding::{MOST_AXES, Sliding};
use crate::evt::MOST;

/// The images and the window, of three axes: those that there are not have one element.
///
/// Row m of A is output `((image * outputs[0] + p0) * outputs[1] + p1) * outputs[2] + p2`. Column k is channel
/// `k % channels` of the window's element `k / channels`, the last axis fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patches {
    pub(crate) images: usize,
    pub(crate) inputs: [usize; MOST_AXES],
    pub(crate) outputs: [usize; MOST_AXES],
    pub(crate) channels: usize,
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
        let mut outputs = [1; MOST_AXES];
        for (i, axis) in AXES.into_iter().enumerate() {
            let (extent, before, after) = (inputs[i], window.before[i], window.after[i]);
            let reach = (window.size[i] - 1).saturating_mul(window.dilation[i]).saturating_add(1);
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
        let (images, channels) = (shape[0], shape[axes + 1]);
        let (image, channel) = (strides[0], strides[axes + 1]);
        Ok(Self { images, inputs, outputs, channels, window, image, steps, channel })
    }

    /// M and K, as far as they can be counted.
    pub(crate) fn extents(&self) -> [usize; 2] {
        let product = |first: usize, of: [usize; MOST_AXES]| of.into_iter().fold(first, usize::saturating_mul);
        [product(self.images, self.outputs), product(self.channels, self.window.size)]
    }

    /// Elements of all images.
    pub(crate) fn elements(&self) -> usize {
        self.inputs.into_iter().fold(self.images.saturating_mul(self.channels), usize::saturating_mul)
    }

    /// The shape of the outputs without their channels.
    pub(crate) fn output_shape(&self) -> Vec<usize> {
        let mut shape = vec![self.images];
        shape.extend(self.window.own(&self.outputs));
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
        OperandLayout { major: Major::K, copy_bytes }
    }

    /// Whether a filter is as large as the window.
    ///
    /// # Errors
    /// [`PatchError::FilterSize`].
    pub(crate) fn check_filter(&self, (axes, size): FilterSize) -> Result<(), Error> {
        let needed = self.window.own(&self.window.size);
        let given = size[MOST_AXES - axes.min(MOST_AXES)..].to_vec();
        if given == needed { Ok(()) } else { Err(PatchError::FilterSize { given, needed }.into()) }
    }

    /// Whether kernels for sm_80, which have 16 bits for where a window begins along all axes but the last, can count that.
    ///
    /// # Errors
    /// [`PatchError::Position`].
    pub(crate) fn check_positions(&self) -> Result<(), Error> {
        const LIMIT: usize = i16::MAX as usize;
        for (i, axis) in AXES.into_iter().enumerate().take(MOST_AXES - 1) {
            let last = self.outputs[i].saturating_sub(1).saturating_mul(self.window.stride[i]);
            let given = last.saturating_sub(self.window.before[i]).max(self.window.before[i]);
            if given > LIMIT {
                return Err(PatchError::Position { axis, given, limit: LIMIT }.into());
            }
        }
        Ok(())
    }
}
