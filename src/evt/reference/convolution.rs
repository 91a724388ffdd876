//! The product of a convolution, by plain loops over images, outputs, filters, the window and channels.

use super::product::{Multiplication, Product, Sum};
use super::{Array, Extent, ReferenceError};
use crate::evt::Types;

/// Images and a window, of three axes each; of an axis that there is not, 1 (and no padding).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// The number of images.
    pub images: usize,
    /// The extents of an image.
    pub inputs: [usize; 3],
    /// How many outputs there are along each axis.
    pub outputs: [usize; 3],
    /// Channels of an image.
    pub channels: usize,
    /// Elements of the window.
    pub window: [usize; 3],
    /// How far the window moves.
    pub stride: [usize; 3],
    /// Zeros before an image.
    pub before: [usize; 3],
    /// How far the window's elements are apart.
    pub dilation: [usize; 3],
}

impl Convolution {
    /// An element of the images (`[N, D, H, W, C]`, row-major), or 0 outside of them.
    fn element(
        &self,
        images: &[f64],
        image: usize,
        output: [usize; 3],
        of: [usize; 3],
        channel: usize,
    ) -> Result<f64, ReferenceError> {
        let mut place = image;
        for axis in 0..3 {
            let from_padding = output[axis] * self.stride[axis] + of[axis] * self.dilation[axis];
            let Some(at) = from_padding.checked_sub(self.before[axis]) else { return Ok(0.0) };
            if at >= self.inputs[axis] {
                return Ok(0.0);
            }
            place = place * self.inputs[axis] + at;
        }
        let element = images.get(place * self.channels + channel).copied();
        element.ok_or(ReferenceError::Element { name: "a", index: [image, place, channel] })
    }
}

impl Product {
    /// The product of the patches of images (`[N, D, H, W, C]`, row-major) and B (`[T·R·S·C, N]`), summed in any order.
    /// What is outside of the images is 0.
    ///
    /// # Errors
    /// [`ReferenceError::Element`] if the images or B have no element that is needed.
    pub fn of_convolution(
        types: Types,
        multiplication: Multiplication,
        convolution: &Convolution,
        images: &[f64],
        b: &Array<'_>,
        n: usize,
    ) -> Result<Self, ReferenceError> {
        let Convolution { outputs, window, channels, .. } = *convolution;
        let m = convolution.images * outputs.iter().product::<usize>();
        let mut this = Self { extent: Extent { m, n, l: 1 }, values: Vec::new(), errors: Vec::new() };
        let k = window.iter().product::<usize>() * channels;
        for image in 0..convolution.images {
            for output in places(outputs) {
                for filter in 0..n {
                    let mut sum = Sum::of(types, multiplication);
                    for (number, of) in places(window).enumerate() {
                        for channel in 0..channels {
                            let x = convolution.element(images, image, output, of, channel)?;
                            let y = b.get("b", [0, number * channels + channel, filter])?;
                            sum.add(multiplication.operand(x), multiplication.operand(y));
                        }
                    }
                    this.values.push(sum.value());
                    this.errors.push(sum.error(types, multiplication, k));
                }
            }
        }
        Ok(this)
    }
}

/// All places within extents, the last axis the fastest.
fn places([depth, height, width]: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    (0..depth).flat_map(move |z| (0..height).flat_map(move |y| (0..width).map(move |x| [z, y, x])))
}
