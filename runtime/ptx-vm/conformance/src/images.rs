//! Images in the input buffer of a case, for tensor copies in im2col mode.

use ptx_vm::numerics::swizzle::Swizzle;

/// Images of 16-bit integers that start at the input buffer, and a copy of some pixels of them. Numbers of axes are those
/// of W, H, D.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageCase {
    /// The number of dimensions, 3 to 5.
    pub rank: usize,
    /// Channels, axes, images.
    pub sizes: [u64; 5],
    /// The first and the last place of the window: its base at index 0, and at the last index.
    pub corners: [(i32, i32); 3],
    /// How far the window moves.
    pub steps: [u32; 3],
    /// Channels of a pixel.
    pub channels: u32,
    /// The number of pixels.
    pub pixels: u32,
    /// The swizzle.
    pub swizzle: Swizzle,
}

impl ImageCase {
    /// The distance in bytes between successive indices of dimensions 1 and up.
    pub fn strides(&self) -> [u64; 4] {
        let mut stride = 2 * self.sizes[0];
        std::array::from_fn(|i| {
            let own = stride;
            stride *= self.sizes[i + 1];
            own
        })
    }

    /// Number of bytes of all images.
    pub fn bytes(&self) -> usize {
        2 * self.sizes[..self.rank].iter().product::<u64>() as usize
    }

    /// Number of bytes of the copy.
    pub fn box_bytes(&self) -> usize {
        (2 * self.channels * self.pixels) as usize
    }

    /// The lower or the upper corners.
    pub fn corner(&self, upper: bool) -> [i32; 3] {
        self.corners.map(|(first, last)| if upper { last } else { first })
    }

    /// The step of each dimension.
    pub fn element_strides(&self) -> [u32; 5] {
        let axes = self.rank - 2;
        std::array::from_fn(|d| if (1..=axes).contains(&d) { self.steps[d - 1] } else { 1 })
    }

    /// For each element of the copy in its plain order, its byte offset among the images; `None` outside. By the definition:
    /// the window goes over W, H, D and the images, and begins once in the middle.
    pub fn elements(&self, start: &[i64; 5], offsets: &[u16; 3]) -> Vec<Option<usize>> {
        let axes = self.rank - 2;
        let mut begun = false;
        let mut elements = vec![];
        for image in start[self.rank - 1].. {
            // Axes that there are not have one place.
            let places = |axis: usize, from_start: bool| {
                let there = axis < axes;
                let (first, last) = if there { self.corners[axis] } else { (0, 0) };
                let last = if there { self.sizes[axis + 1] as i64 - 1 + i64::from(last) } else { 0 };
                let first = if there && from_start { start[axis + 1] } else { first.into() };
                (first..=last).step_by(self.steps[axis] as usize)
            };
            for d in places(2, !begun) {
                for h in places(1, !begun) {
                    for w in places(0, !begun) {
                        begun = true;
                        let place = [w, h, d];
                        for channel in 0..i64::from(self.channels) {
                            let mut index = [start[0] + channel, 0, 0, 0, 0];
                            index[self.rank - 1] = image;
                            for axis in 0..axes {
                                index[axis + 1] = place[axis] + i64::from(offsets[axis]);
                            }
                            elements.push(self.offset(&index));
                        }
                        if elements.len() == (self.channels * self.pixels) as usize {
                            return elements;
                        }
                    }
                }
            }
        }
        elements
    }

    fn offset(&self, index: &[i64; 5]) -> Option<usize> {
        let inside = (0..self.rank).all(|d| (0..self.sizes[d] as i64).contains(&index[d]));
        let strides = self.strides();
        let further: i64 = (1..self.rank).map(|d| index[d] * strides[d - 1] as i64).sum();
        inside.then_some((2 * index[0] + further) as usize)
    }
}
