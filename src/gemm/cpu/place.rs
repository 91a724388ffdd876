//! The place of a row of patches: where its window is in the images.

use std::ops::Range;

use crate::gemm::problem::patches::Patches;
use crate::gemm::problem::sliding::Sliding;

/// Where the window of a row begins: the image, and the place along every axis.
#[derive(Clone, Copy)]
pub(super) struct PatchPlace {
    pub(super) image: usize,
    pub(super) output: [usize; 3],
}

impl PatchPlace {
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
        let (extent, size) = (extent(patches, axis), patches.window.size[axis]);
        let (at, dilation) = (self.along(patches, axis), patches.window.dilation[axis].cast_signed());
        if at >= 0 && at + (size.cast_signed() - 1) * dilation < extent {
            return 0..size;
        }
        let end = if at < extent { ((extent - 1 - at) / dilation + 1).min(size.cast_signed()) } else { 0 };
        let first = if at < 0 { ((dilation - 1 - at) / dilation).min(end) } else { 0 };
        first.cast_unsigned()..end.max(0).cast_unsigned()
    }

    /// The window's elements that are inside the image along an axis.
    #[inline(always)]
    pub(super) fn reach(&self, patches: &Patches, axis: usize) -> Reach {
        let Range { start, end } = self.inside(patches, axis);
        let after = match patches.window.input_dilation[axis] {
            1 => 0,
            apart => self.along(patches, axis).rem_euclid(apart.cast_signed()).cast_unsigned(),
        };
        Reach { start, end, after }
    }

    /// How many rows, from this one on, are neighbours along the last axis with windows of the same reach. (At least this one.)
    pub(super) fn alike(&self, patches: &Patches) -> usize {
        let Patches { window, outputs, .. } = patches;
        let at = self.along(patches, 2);
        let room = extent(patches, 2) - window.reach(2).cast_signed() - at;
        if at < 0 || room < 0 || window.input_dilation[2] != 1 {
            return 1;
        }
        (room.cast_unsigned() / window.stride[2] + 1).min(outputs[2] - self.output[2])
    }

    /// Where its first element is, or would be, in elements from the first one of all images; if there are zeros between these, the
    /// last one that is not after it.
    #[inline(always)]
    pub(super) fn begin(&self, patches: &Patches) -> isize {
        let along = |axis: usize| match patches.window.input_dilation[axis] {
            1 => self.along(patches, axis) * patches.steps[axis],
            apart => self.along(patches, axis).div_euclid(apart.cast_signed()) * patches.steps[axis],
        };
        self.image.cast_signed() * patches.image + along(0) + along(1) + along(2)
    }
}

/// The range of the window's elements inside an image along one axis. With input dilation, only some of them are the
/// image's elements; the others are zeros between these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    pub(super) start: usize,
    pub(super) end: usize,
    /// How far the window begins after an element of the image, if these are further apart than 1.
    pub(super) after: usize,
}

impl Reach {
    /// The distance of the window's element from the window's start, in elements of the image; `None` for a zero.
    #[inline(always)]
    pub(super) fn tap(self, window: &Sliding, axis: usize, tap: usize) -> Option<isize> {
        let (at, apart) = (self.after + tap * window.dilation[axis], window.input_dilation[axis]);
        let is_inside = (self.start..self.end).contains(&tap) && at.is_multiple_of(apart);
        is_inside.then(|| (at / apart).cast_signed())
    }
}

/// The extent of an image along an axis, with the zeros between its elements.
#[inline(always)]
fn extent(patches: &Patches, axis: usize) -> isize {
    let last = patches.inputs[axis].cast_signed() - 1;
    (last * patches.window.input_dilation[axis].cast_signed() + 1).max(0)
}
