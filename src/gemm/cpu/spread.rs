//! Patches of images with zeros between their elements: the images' gradient of a convolution that moved by more than
//! 1.

use std::ops::Range;

use super::element::View;
use crate::gemm::problem::patches::Patches;

/// Calls `each` with the elements in `depth` of the patch at this place of an image, one element of the window after another:
/// which they are, counted from the first, and the address of the first of them; none where there is a zero.
#[inline(always)]
pub(super) fn spread_stretches(
    patches: &Patches,
    view: &View,
    (image, output): (usize, [usize; 3]),
    depth: &Range<usize>,
    mut each: impl FnMut(Range<usize>, Option<*const u8>),
) {
    let Patches { inputs, channels, window, steps, channel, .. } = patches;
    // How far the element of the images that the window has at `of` along an axis is from the first.
    let along = |axis: usize, of: usize| {
        let at = (output[axis] * window.stride[axis] + of * window.dilation[axis]).cast_signed() - window.before[axis];
        let (at, apart) = (usize::try_from(at).ok()?, window.input_dilation[axis]);
        let is_inside = at.is_multiple_of(apart) && at / apart < inputs[axis];
        is_inside.then(|| (at / apart).cast_signed() * steps[axis])
    };
    let size = view.element.size().cast_signed();
    let mut start = depth.start;
    while start < depth.end {
        let (tap, of_tap) = (start / channels, start % channels);
        let stop = depth.end.min((tap + 1) * channels);
        let (rest, of_2) = (tap / window.size[2], tap % window.size[2]);
        let (of_0, of_1) = (rest / window.size[1], rest % window.size[1]);
        let inside = along(0, of_0).zip(along(1, of_1)).zip(along(2, of_2));
        let from = inside.map(|((at_0, at_1), at_2)| {
            let elements = image.cast_signed() * patches.image + at_0 + at_1 + at_2 + of_tap.cast_signed() * channel;
            view.pointer.wrapping_offset(elements * size).cast_const()
        });
        each(start - depth.start..stop - depth.start, from);
        start = stop;
    }
}
