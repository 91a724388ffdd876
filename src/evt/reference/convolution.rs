//! The products of a convolution and of its gradients, by plain loops over images, outputs, filters, the window and channels.

use epilogue_float_mode::in_default_mode;

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
    /// Channels of an image that a filter sees: those of a group.
    pub channels: usize,
    /// How many groups the channels are in, each with filters of its own; 1 if every filter sees all channels.
    pub groups: usize,
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
        (group, channel): (usize, usize),
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
        let channel = group * self.channels + channel;
        let element = images.get(place * self.groups * self.channels + channel).copied();
        element.ok_or(ReferenceError::Element { name: "a", index: [image, place, channel] })
    }

    /// The output at which the window's element `of` is at this place of an image; `None` if it is there at none.
    fn output(&self, at: [usize; 3], of: [usize; 3]) -> Option<[usize; 3]> {
        let mut output = [0; 3];
        for axis in 0..3 {
            let begin = (at[axis] + self.before[axis]).checked_sub(of[axis] * self.dilation[axis])?;
            output[axis] = begin / self.stride[axis];
            if begin % self.stride[axis] != 0 || output[axis] >= self.outputs[axis] {
                return None;
            }
        }
        Some(output)
    }
}

impl Product {
    /// The product of the patches of images (`[N, D, H, W, G·C]`, row-major) and B, summed in any order: one for each
    /// group of channels. B is `[T·R·S·C, N]`, or with G groups `[G, T·R·S·C, N]`. Elements outside of the images are
    /// 0.
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
        in_default_mode(|| {
            let Convolution { outputs, window, channels, groups, .. } = *convolution;
            let m = convolution.images * outputs.iter().product::<usize>();
            let mut this = Self { extent: Extent { m, n, l: groups }, values: Vec::new(), errors: Vec::new() };
            let k = window.iter().product::<usize>() * channels;
            for (group, image) in pairs(groups, convolution.images) {
                for output in places(outputs) {
                    for filter in 0..n {
                        let mut sum = Sum::of(types, multiplication);
                        for (number, of) in places(window).enumerate() {
                            for channel in 0..channels {
                                let x = convolution.element(images, image, output, of, (group, channel))?;
                                let y = b.get("b", [group, number * channels + channel, filter])?;
                                sum.add(multiplication.operand(x), multiplication.operand(y));
                            }
                        }
                        this.values.push(sum.value());
                        this.errors.push(sum.error(types, multiplication, k));
                    }
                }
            }
            Ok(this)
        })
    }
}

impl Product {
    /// The gradient of a convolution's images, with `n` channels in each of G groups: the product of the outputs'
    /// gradient and B. The outputs' gradient is `[N, P0, P1, P2, G·K]`, row-major, with `filters` filters K in each
    /// group. B is `[T·R·S·K, N]`, or with groups `[G, T·R·S·K, N]`, and mirrors the window's elements. Elements
    /// outside of the outputs are 0.
    ///
    /// # Errors
    /// [`ReferenceError::Element`] if the gradient or B have no element that is needed.
    pub fn of_input_gradient(
        types: Types,
        multiplication: Multiplication,
        convolution: &Convolution,
        (gradient, filters): (&[f64], usize),
        b: &Array<'_>,
        n: usize,
    ) -> Result<Self, ReferenceError> {
        in_default_mode(|| {
            let Convolution { inputs, outputs, window, groups, .. } = *convolution;
            let m = convolution.images * inputs.iter().product::<usize>();
            let mut this = Self { extent: Extent { m, n, l: groups }, values: Vec::new(), errors: Vec::new() };
            let taps = window.iter().product::<usize>();
            for (group, image) in pairs(groups, convolution.images) {
                for at in places(inputs) {
                    for channel in 0..n {
                        let mut sum = Sum::of(types, multiplication);
                        for (number, of) in places(window).enumerate() {
                            let output = convolution.output(at, of);
                            for filter in 0..filters {
                                let x = match output {
                                    None => 0.0,
                                    Some([p0, p1, p2]) => {
                                        let pixel = ((image * outputs[0] + p0) * outputs[1] + p1) * outputs[2] + p2;
                                        let element =
                                            gradient.get((pixel * groups + group) * filters + filter).copied();
                                        let index = [image, pixel, filter];
                                        element.ok_or(ReferenceError::Element { name: "a", index })?
                                    }
                                };
                                let y = b.get("b", [group, (taps - 1 - number) * filters + filter, channel])?;
                                sum.add(multiplication.operand(x), multiplication.operand(y));
                            }
                        }
                        this.values.push(sum.value());
                        this.errors.push(sum.error(types, multiplication, taps * filters));
                    }
                }
            }
            Ok(this)
        })
    }

    /// The gradient of a convolution's filters, `n` of each of G groups. Each element of each filter is a sum over all
    /// outputs: the image element that it met times the output's gradient. Images are `[N, D, H, W, G·C]`, row-major;
    /// the outputs' gradient is B (`[N·P·Q, K]`, or with groups `[G, N·P·Q, K]`).
    ///
    /// # Errors
    /// [`ReferenceError::Element`] if the images or B have no element that is needed.
    pub fn of_filter_gradient(
        types: Types,
        multiplication: Multiplication,
        convolution: &Convolution,
        images: &[f64],
        b: &Array<'_>,
        n: usize,
    ) -> Result<Self, ReferenceError> {
        in_default_mode(|| {
            let Convolution { outputs, window, channels, groups, .. } = *convolution;
            let m = window.iter().product::<usize>() * channels;
            let mut this = Self { extent: Extent { m, n, l: groups }, values: Vec::new(), errors: Vec::new() };
            let of_image = outputs.iter().product::<usize>();
            let taps: Vec<[usize; 3]> = places(window).collect();
            for (group, tap) in pairs(groups, taps.len()) {
                let of = taps[tap];
                for channel in 0..channels {
                    for filter in 0..n {
                        let mut sum = Sum::of(types, multiplication);
                        for image in 0..convolution.images {
                            for (number, output) in places(outputs).enumerate() {
                                let x = convolution.element(images, image, output, of, (group, channel))?;
                                let y = b.get("b", [group, image * of_image + number, filter])?;
                                sum.add(multiplication.operand(x), multiplication.operand(y));
                            }
                        }
                        this.values.push(sum.value());
                        this.errors.push(sum.error(types, multiplication, convolution.images * of_image));
                    }
                }
            }
            Ok(this)
        })
    }
}

/// All pairs of numbers below these, the second the faster.
fn pairs(first: usize, second: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..first).flat_map(move |i| (0..second).map(move |j| (i, j)))
}

/// All places within extents, the last axis the fastest.
fn places([depth, height, width]: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    (0..depth).flat_map(move |z| (0..height).flat_map(move |y| (0..width).map(move |x| [z, y, x])))
}
