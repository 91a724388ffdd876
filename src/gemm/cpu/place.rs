//! Where the window of a row of patches is.

use std::ops::Range;

use crate::gemm::problem::patches::Patches;

/// Where the window of a row begins: the image, and the place along every axis.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) image: usize,
    pub(super) output: [usize; 3],
}

impl Place {
    pub(super) fn of(patches: &Patches, row: usize) -> Self {
        let [_, of_1, of_2] = patches.outputs;
        let (rest, last) = (row / of_2, row % of_2);
        let (rest, middle) = (rest / of_1, rest % of_1);
        Self { image: rest / patches.outputs[0], output: [rest % patches.outputs[0], middle, last] }
    }

    /// That of the next row.
    pub(super) fn next(mut self, patches: &Patches) -> Self {
        for axis in [2, 1, 0] {
            self.output[axis] += 1;
            if self.output[axis] < patches.outputs[axis] {
                return self;
            }
            self.output[axis] = 0;
        }
        Self { image: self.image + 1, ..self }
    }

    /// Where it begins along an axis; before 0 and after the end there is no image.
    #[inline(always)]
    fn along(&self, patches: &Patches, axis: usize) -> isize {
        let Patches { window, .. } = patches;
        (self.output[axis] * window.stride[axis]).cast_signed() - window.before[axis]
    }

    /// The window's elements along an axis that are inside of the image.
    #[inline(always)]
    pub(super) fn inside(&self, patches: &Patches, axis: usize) -> Range<usize> {
        let (extent, size) = (patches.inputs[axis].cast_signed(), patches.window.size[axis]);
        let (at, dilation) = (self.along(patches, axis), patches.window.dilation[axis].cast_signed());
        if at >= 0 && at + (size.cast_signed() - 1) * dilation < extent {
            return 0..size;
        }
        let end = if at < extent { ((extent - 1 - at) / dilation + 1).min(size.cast_signed()) } else { 0 };
        let first = if at < 0 { ((dilation - 1 - at) / dilation).min(end) } else { 0 };
        first.cast_unsigned()..end.max(0).cast_unsigned()
    }

    /// Where its first element is, or would be, in elements from the first one of all images.
    #[inline(always)]
    pub(super) fn begin(&self, patches: &Patches) -> isize {
        let along = |axis: usize| self.along(patches, axis) * patches.steps[axis];
        self.image.cast_signed() * patches.image + along(0) + along(1) + along(2)
    }
}
