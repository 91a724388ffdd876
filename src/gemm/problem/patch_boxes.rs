//! Whether TMA can load patches: what a tensor map in im2col mode can describe of images and a window.
//!
//! If it cannot, kernels for sm_80 compute the convolution.

use epilogue_runtime::DeviceTensor;

use super::layout::Major;
use super::patches::Patches;
use super::sliding::{MOST_AXES, Sliding};
use crate::evt::MOST;

/// How tensor copies load an A that is patches, box by box: of one element of the window and some channels. Kernels for
/// sm_90a count K so (of transposed patches, M, which then is whole boxes), and are chosen and generated for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PatchBoxes {
    /// The axes that the window slides along: 1, 2 or 3.
    pub axes: usize,
    /// Elements of the window.
    pub taps: usize,
    /// Channels of the images; of a product with [groups](super::window::Window::groups), those of one.
    pub channels: usize,
}

impl PatchBoxes {
    /// Whether the channels fill whole boxes, for elements of `size` bytes: then a box has channels of one group.
    pub(crate) const fn are_whole(&self, size: usize) -> bool {
        self.channels.saturating_mul(size).is_multiple_of(BOX_BYTES)
    }

    /// Whether boxes can load patches with elements of `size` bytes in `groups` groups. The patches are rows of A, or
    /// columns if A's layout is contiguous along M.
    ///
    /// # Errors
    /// The reason why boxes cannot load them.
    pub(crate) const fn check(&self, a: Major, size: usize, groups: usize) -> Result<(), Unboxed> {
        match a {
            Major::Mn if size != 2 => Err(Unboxed::TRANSPOSED),
            Major::Mn if !self.are_whole(size) => Err(Unboxed::TRANSPOSED_CHANNELS),
            Major::K if groups > 1 && !self.are_whole(size) => Err(Unboxed::GROUPS),
            Major::K | Major::Mn => Ok(()),
        }
    }

    /// K with the channels of each element of the window in whole k-tiles.
    pub(crate) const fn depth(&self, tile_k: usize) -> usize {
        self.taps.saturating_mul(self.channels.next_multiple_of(tile_k))
    }
}

/// Why TMA does not load patches, and kernels for sm_80 serve sm_90a, too. Its text says when TMA would.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Unboxed {
    limit: &'static str,
    refusal: &'static str,
}

impl Unboxed {
    /// The refusal of a kernel for sm_90a.
    pub(crate) const fn refusal(&self) -> &'static str {
        self.refusal
    }
}

impl std::fmt::Display for Unboxed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.limit)
    }
}

macro_rules! only_where {
    ($limit:literal) => {
        Unboxed {
            limit: $limit,
            refusal: concat!(
                "those that load by TMA load patches only where ",
                $limit,
                ": leave the request for one out for a kernel for sm_80"
            ),
        }
    };
}

impl Unboxed {
    /// A plan by extents.
    pub(crate) const UNKNOWN: Self =
        only_where!("the window is known (plan with `.operands(…)`, or say `.patch_boxes(…)`)");
    pub(crate) const UNALIGNED: Self =
        only_where!("channels are contiguous, and pixels begin at multiples of 16 bytes and are whole ones");
    pub(crate) const SPREAD: Self = only_where!(
        "no zeros lie between the images' elements, as in the gradient of images over which a window moved by more than 1"
    );
    const TRANSPOSED: Self =
        only_where!("transposed ones are of 16 bits: no others are multiplied as they lie, contiguous along M");
    const TRANSPOSED_CHANNELS: Self = only_where!(
        "transposed ones have multiples of 64 channels (of each group), so that a box has those of one element of the window"
    );
    const BACKWARDS: Self = only_where!("images go forwards in memory, with strides below 2^40 bytes");
    const EMPTY: Self = only_where!("images have elements");
    const STEPS: Self = only_where!("the window moves by at most 8");
    const CORNERS: Self = only_where!(
        "the padding before each axis, and the window's reach less the padding after it, fit 16 bits (of one axis), 8 (of \
         two) or 5 (of three), signed; and the reach, unsigned"
    );
    pub(crate) const GROUPS: Self = only_where!(
        "groups of channels have whole k-tiles of 128 bytes (multiples of 64 channels of 16 bits, of 128 of 8, of 32 of f32)"
    );
    pub(crate) const GROUPS_OF_B: Self =
        only_where!("the filters of one group lie behind the last one's, as those of `filter(&w)` do");
    const LARGE: Self = only_where!("K, with the channels in whole k-tiles, and all channels are below 2^31");
}

/// The bytes of a pixel's channels in a box: a k-tile.
const BOX_BYTES: usize = 128;
/// The largest stride of a tensor map, in bytes, plus one.
const STRIDES: u64 = 1 << 40;
/// The largest step of a window in a tensor map.
const MOST_STEPS: usize = 8;
/// The deepest k-tile in elements.
const DEEPEST: usize = 128;

impl Patches {
    /// How tensor copies load them.
    ///
    /// # Errors
    /// Why they don't.
    pub(crate) fn boxes(&self, x: &DeviceTensor) -> Result<PatchBoxes, Unboxed> {
        // Every number counts: one that is new here must be in the map, or refused.
        let Self { images, inputs, outputs: _, channels, groups, window, image, steps, channel: _ } = self;
        let &Sliding { axes, size: taps, stride, before, after, dilation: _, input_dilation: _, groups: _, kind: _ } =
            window;
        if window.is_spread() {
            return Err(Unboxed::SPREAD);
        }
        let size = x.element_type().size();
        let layout = self.layout(x.device_address(), size);
        if layout.copy_bytes != 16 {
            return Err(Unboxed::UNALIGNED);
        }
        if inputs.contains(&0) {
            return Err(Unboxed::EMPTY);
        }
        let extents = [*images, inputs[0], inputs[1], inputs[2]];
        let strides = [*image, steps[0], steps[1], steps[2]];
        let forwards = |(extent, stride): (usize, isize)| {
            extent <= 1 || (stride >= 0 && (stride as u64).saturating_mul(size as u64) < STRIDES)
        };
        if !extents.into_iter().zip(strides).all(forwards) {
            return Err(Unboxed::BACKWARDS);
        }
        if stride.iter().any(|step| *step > MOST_STEPS) {
            return Err(Unboxed::STEPS);
        }
        let bits = [16, 8, 5][axes.clamp(1, MOST_AXES) - 1];
        let signed = 1 << (bits - 1);
        let fits = |i: usize| {
            let reach = window.reach(i).cast_signed() - 1;
            let corners = [-before[i], after[i] - reach];
            reach < 2 * signed && corners.iter().all(|corner| (-signed..signed).contains(corner))
        };
        if !(0..MOST_AXES).all(fits) {
            return Err(Unboxed::CORNERS);
        }
        let taps = taps.into_iter().fold(1, usize::saturating_mul);
        let boxes = PatchBoxes { axes, taps, channels: *channels };
        boxes.check(layout.major, size, *groups)?;
        let largest = boxes.depth(DEEPEST).max(channels.saturating_mul(*groups));
        if largest > MOST { Err(Unboxed::LARGE) } else { Ok(boxes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::problem::{Window, gradient_patches, patches, transposed_patches};
    use crate::{Arch, Device, ElementType};

    /// The boxes of images of f16 whose axes have 300 elements.
    fn of<const AXES: usize>(window: Window<AXES>) -> Result<PatchBoxes, Unboxed> {
        let device = Device::emulated(Arch::SM_90A).expect("a device");
        let mut shape = vec![1];
        shape.extend([300; AXES]);
        shape.push(8);
        let x = device.without_memory(ElementType::F16, shape).expect("a tensor");
        patches(&x, window).patches().expect("patches").expect("a window").boxes(&x)
    }

    /// The limits of PTX ISA 5.5.4, each and one beyond.
    #[test]
    fn windows_fit_to_the_last_bit() {
        assert_eq!(of(Window::of([3, 3])), Ok(PatchBoxes { axes: 2, taps: 9, channels: 8 }));
        assert!(of(Window::of([3, 3]).stride([8, 8])).is_ok());
        assert_eq!(of(Window::of([3, 3]).stride([1, 9])), Err(Unboxed::STEPS));
        // The lower corner, -before; the upper one, after - reach; the offset, up to reach.
        assert!(of(Window::of([1, 1]).padding_around([(128, 127), (0, 0)])).is_ok());
        assert_eq!(of(Window::of([1, 1]).padding_around([(129, 0), (0, 0)])), Err(Unboxed::CORNERS));
        assert_eq!(of(Window::of([1, 1]).padding_around([(0, 128), (0, 0)])), Err(Unboxed::CORNERS));
        assert!(of(Window::of([1, 129])).is_ok());
        assert_eq!(of(Window::of([1, 130])), Err(Unboxed::CORNERS));
        assert!(of(Window::of([1, 2]).dilation([1, 255]).padding([0, 127])).is_ok());
        assert_eq!(of(Window::of([1, 2]).dilation([1, 256]).padding([0, 128])), Err(Unboxed::CORNERS));
        assert!(of(Window::of([16, 1, 1]).dilation([2, 1, 1]).padding_around([(16, 15), (0, 0), (0, 0)])).is_ok());
        assert_eq!(of(Window::of([17, 1, 1]).dilation([2, 1, 1]).padding([16, 0, 0])), Err(Unboxed::CORNERS));
        assert!(of(Window::of([250]).dilation([1]).padding([20000])).is_ok());
        assert_eq!(of(Window::of([1]).padding([32769])), Err(Unboxed::CORNERS));
    }

    /// A mirrored window has the padding of its reach less the window's, which may be below 0.
    #[test]
    fn mirrored_windows_fit_to_the_last_bit() {
        let device = Device::emulated(Arch::SM_90A).expect("a device");
        let of = |window: Window<2>, image: [usize; 2], outputs: [usize; 2]| {
            let dy = device.without_memory(ElementType::F16, [1, outputs[0], outputs[1], 8]).expect("a tensor");
            gradient_patches(&dy, window, image).patches().expect("patches").expect("a window").boxes(&dy)
        };
        let large = [300; 2];
        assert_eq!(of(Window::of([3, 3]), large, [298; 2]), Ok(PatchBoxes { axes: 2, taps: 9, channels: 8 }));
        let beyond = |before, after| Window::of([1, 1]).padding_around([(before, after), (0, 0)]);
        assert!(of(beyond(127, 128), large, [555, 300]).is_ok());
        assert_eq!(of(beyond(128, 0), large, [428, 300]), Err(Unboxed::CORNERS));
        assert_eq!(of(beyond(0, 129), large, [429, 300]), Err(Unboxed::CORNERS));
        assert!(of(Window::of([129, 1]), large, [172, 300]).is_ok());
        assert_eq!(of(Window::of([130, 1]), large, [171, 300]), Err(Unboxed::CORNERS));
        let by_two = Window::of([3, 3]).stride([1, 2]);
        assert_eq!(of(by_two, large, [298, 149]), Err(Unboxed::SPREAD));
        // There is nothing between the elements of one.
        assert!(of(by_two, [7, 4], [5, 1]).is_ok());
    }

    #[test]
    fn transposed_boxes_are_of_16_bits_and_64_channels() {
        let device = Device::emulated(Arch::SM_90A).expect("a device");
        let of = |element, channels, groups| {
            let x = device.without_memory(element, [1, 9, 9, channels]).expect("a tensor");
            let window = Window::of([3, 3]).stride([8, 2]).groups(groups);
            transposed_patches(&x, window).patches().expect("patches").expect("a window").boxes(&x)
        };
        assert_eq!(of(ElementType::BF16, 192, 1), Ok(PatchBoxes { axes: 2, taps: 9, channels: 192 }));
        assert_eq!(of(ElementType::F16, 192, 3), Ok(PatchBoxes { axes: 2, taps: 9, channels: 64 }));
        assert_eq!(of(ElementType::F16, 192, 2), Err(Unboxed::TRANSPOSED_CHANNELS));
        assert_eq!(of(ElementType::F16, 96, 1), Err(Unboxed::TRANSPOSED_CHANNELS));
        assert_eq!(of(ElementType::F16, 60, 1), Err(Unboxed::UNALIGNED));
        assert_eq!(of(ElementType::F32, 64, 1), Err(Unboxed::TRANSPOSED));
        assert_eq!(of(ElementType::I8, 128, 1), Err(Unboxed::TRANSPOSED));
    }
}
