//! Convolutions of images with one, two or three axes.
//!
//! All of them are one sum of products. An element of the image is read at `i·stride + r·dilation − padding`, and is 0
//! outside of the image. With groups, the sum has the group and the feature within it as separate axes, so that every
//! index is affine; a map then joins the two.

use super::contraction::Types;
use super::reductions::narrowed;
use super::{extents, map, misshapen, require_rank, require_shape};
use crate::te::arith::{equal, simplify};
use crate::te::error::{ExpressionError, TeError};
use crate::te::expr::axis::{Axis, reduce_axis};
use crate::te::expr::define::compute::compute_over;
use crate::te::expr::define::reducer::sum_reducer;
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;
use crate::te::text::expression;

/// How a filter moves over an image of `AXES` axes, and where the channels are.
///
/// ```
/// use epilogue::te::{self, ops::{self, Convolution}};
/// # fn main() -> Result<(), te::TeError> {
/// let (image, filter) = (te::placeholder([1, 4, 8, 8], "image"), te::placeholder([6, 2, 3, 3], "filter"));
/// let halved = ops::conv2d(&image, &filter, Convolution::new().stride([2, 2]).padding([1, 1]).groups(2))?;
/// assert_eq!(halved.rank(), 4); // [1, 6, 4, 4]
///
/// let (image, filter) = (te::placeholder([1, 8, 8, 4], "image"), te::placeholder([6, 3, 3, 4], "filter"));
/// let same = ops::conv2d(&image, &filter, Convolution::new().padding([1, 1]).channels_last())?; // [1, 8, 8, 6]
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convolution<const AXES: usize> {
    stride: [usize; AXES],
    padding: [(usize, usize); AXES],
    dilation: [usize; AXES],
    groups: usize,
    layout: Layout,
}

/// Where the channels of images and filters are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    First,
    Last,
}

impl<const AXES: usize> Convolution<AXES> {
    /// The filter moves by 1, there is no padding, and the channels come before the image's axes.
    #[must_use]
    pub const fn new() -> Self {
        let padding = [(0, 0); AXES];
        Self { stride: [1; AXES], padding, dilation: [1; AXES], groups: 1, layout: Layout::First }
    }

    /// How far the filter moves along each axis from one output to the next.
    #[must_use]
    pub const fn stride(self, stride: [usize; AXES]) -> Self {
        Self { stride, ..self }
    }

    /// Zeros on both sides of each axis: this many before it, and as many after it.
    #[must_use]
    pub fn padding(self, padding: [usize; AXES]) -> Self {
        Self { padding: padding.map(|zeros| (zeros, zeros)), ..self }
    }

    /// Zeros before and after each axis, in different numbers.
    #[must_use]
    pub const fn padding_around(self, padding: [(usize, usize); AXES]) -> Self {
        Self { padding, ..self }
    }

    /// How far neighbours in the filter are apart in the image.
    #[must_use]
    pub const fn dilation(self, dilation: [usize; AXES]) -> Self {
        Self { dilation, ..self }
    }

    /// The channels in this many groups, each with filters of its own. With as many groups as channels, the convolution
    /// is depthwise.
    #[must_use]
    pub const fn groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }

    /// The channels come after the image's axes, in images, filters and results: `[batch, height, width, channels]` and
    /// `[features, rows, columns, channels]`. Convolutions of [`gemm`](crate::gemm::Window) have these layouts.
    #[must_use]
    pub const fn channels_last(self) -> Self {
        Self { layout: Layout::Last, ..self }
    }
}

impl<const AXES: usize> Default for Convolution<AXES> {
    fn default() -> Self {
        Self::new()
    }
}

/// [`conv2d`] along one axis: images `[batch, channels, width]`, filters `[features, channels / groups, columns]`.
///
/// # Errors
/// The errors of [`conv2d`].
pub fn conv1d(image: &Tensor, filter: &Tensor, convolution: Convolution<1>) -> Result<Tensor, TeError> {
    convolution.of("conv1d", image, filter)
}

/// The convolution (cross-correlation, as in PyTorch) of images `[batch, channels, height, width]` with filters
/// `[features, channels / groups, rows, columns]`. The result is `[batch, features, height, width]`, with an extent of
/// `(before + extent + after − dilation·(taps − 1) − 1) / stride + 1` along each axis, rounded down.
/// [`Convolution::channels_last`] has the other layout.
///
/// With groups, the first `features / groups` features see the first `channels / groups` channels, and so on. A size
/// variable may be any extent, but each number of channels must provably be that of the filter times the groups. Padding
/// is multiplied as 0, so a weight that is infinite or NaN gives NaN there.
///
/// Types are those of [`matmul`](super::matmul()).
///
/// ```
/// use epilogue::te::{self, ops::{self, Convolution}};
/// use epilogue::Device;
///
/// let (height, width) = (te::var("height"), te::var("width"));
/// let one = te::Expr::from(1);
/// let image = te::placeholder([one.clone(), one, height.into(), width.into()], "image");
/// let filter = te::placeholder([1, 1, 3, 3], "filter");
/// let sums = ops::conv2d(&image, &filter, Convolution::new().padding([1, 1]))?;
///
/// let device = Device::cpu();
/// let (pixels, ones) = (device.full::<f32>([1, 1, 3, 4], 1.0)?, device.full::<f32>([1, 1, 3, 3], 1.0)?);
/// let mut counts = device.zeros::<f32>([1, 1, 3, 4])?;
/// let kernel = te::auto::build(&[&sums])?.build(&device)?;
/// kernel.run_bound(&[(&image, (&pixels).into()), (&filter, (&ones).into()), (&sums, (&mut counts).into())])?;
/// assert_eq!(counts.to_vec::<f32>()?, [4.0, 6.0, 6.0, 4.0, 6.0, 9.0, 9.0, 6.0, 4.0, 6.0, 6.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ExpressionError::Shape`] for other ranks or numbers of channels, and a filter that is empty or reaches beyond the
/// image with its padding; [`ExpressionError::Sliding`] for a stride, dilation or number of groups of 0, and numbers that
/// no i32 holds; [`ExpressionError::MixedTypes`] as in [`matmul`](super::matmul()).
pub fn conv2d(image: &Tensor, filter: &Tensor, convolution: Convolution<2>) -> Result<Tensor, TeError> {
    convolution.of("conv2d", image, filter)
}

/// [`conv2d`] along three axes: images `[batch, channels, depth, height, width]`, filters
/// `[features, channels / groups, layers, rows, columns]`.
///
/// # Errors
/// The errors of [`conv2d`].
pub fn conv3d(image: &Tensor, filter: &Tensor, convolution: Convolution<3>) -> Result<Tensor, TeError> {
    convolution.of("conv3d", image, filter)
}

/// The names of the last axes of images and filters.
const OF_IMAGES: [&str; 3] = ["depth", "height", "width"];
const OF_FILTERS: [&str; 3] = ["layers", "rows", "columns"];

impl<const AXES: usize> Convolution<AXES> {
    fn of(self, operation: &'static str, image: &Tensor, filter: &Tensor) -> Result<Tensor, TeError> {
        let types = Types::of([image, filter])?;
        let extents = self.checked(operation, image, filter)?;
        let (kernel, groups) = (filter.shape(), self.groups);
        let features = simplify(&kernel[0].floor_div(groups));
        let channels = kernel[self.channel()].clone();
        // A group of one feature needs no axis for it.
        let apart = groups > 1 && features.as_int() != Some(1);
        let outer: Vec<Expr> = if apart { vec![groups.into(), features.clone()] } else { vec![kernel[0].clone()] };
        let channel = reduce_axis((0, channels.clone()), "c");
        let taps: Vec<Axis> =
            (0..AXES).map(|axis| reduce_axis((0, kernel[self.spatial(axis)].clone()), &format!("d{axis}"))).collect();
        let shape = self.arranged(image.shape()[0].clone(), outer, extents.clone());
        let mut made = compute_over(shape, operation, |axes| {
            let (n, outer, places) = self.parted(axes, if apart { 2 } else { 1 });
            let (group, feature) = match outer {
                [group, feature] => (Expr::from(*group), simplify(&(*group * &features + *feature))),
                _ => (outer[0].into(), outer[0].into()),
            };
            let from = if groups > 1 { simplify(&(group * &channels + channel)) } else { channel.into() };
            let (positions, inside) = self.positions(places, &taps, image);
            let element = image.at(self.arranged((*n).into(), vec![from], positions)).cast(types.sum);
            let element = match inside {
                Some(inside) => inside.select(element, Expr::constant(0.0, types.sum)),
                None => element,
            };
            let own = taps.iter().map(|tap| Expr::from(*tap)).collect();
            let weight = filter.at(self.arranged(feature, vec![channel.into()], own)).cast(types.sum);
            let reduced: Vec<Axis> = std::iter::once(channel).chain(taps.iter().copied()).collect();
            vec![sum_reducer().over(element * weight, reduced)]
        })?;
        let sums = made.swap_remove(0);
        if !apart {
            return narrowed(sums, types.result, operation);
        }
        map(self.arranged(image.shape()[0].clone(), vec![kernel[0].clone()], extents), operation, |at| {
            let (n, outer, places) = self.parted(at, 1);
            let (group, feature) = (outer[0].floor_div(&features), outer[0].floor_mod(&features));
            sums.at(self.arranged(n.clone(), vec![group, feature], places.to_vec())).cast(types.result)
        })
    }

    /// The dimension of the channels.
    const fn channel(self) -> usize {
        match self.layout {
            Layout::First => 1,
            Layout::Last => AXES + 1,
        }
    }

    /// The dimension of an axis of the image.
    const fn spatial(self, axis: usize) -> usize {
        match self.layout {
            Layout::First => axis + 2,
            Layout::Last => axis + 1,
        }
    }

    /// Indices or extents in the order of the layout.
    fn arranged(self, first: Expr, channels: Vec<Expr>, spatial: Vec<Expr>) -> Vec<Expr> {
        let parts = match self.layout {
            Layout::First => [channels, spatial],
            Layout::Last => [spatial, channels],
        };
        std::iter::once(first).chain(parts.into_iter().flatten()).collect()
    }

    /// The first index, those of channels and those of the image's axes, from the order of the layout.
    fn parted<T>(self, all: &[T], channels: usize) -> (&T, &[T], &[T]) {
        let (first, rest) = (&all[0], &all[1..]);
        match self.layout {
            Layout::First => (first, &rest[..channels], &rest[channels..]),
            Layout::Last => (first, &rest[AXES..], &rest[..AXES]),
        }
    }

    /// The indices of an element of the image, and the condition that it is inside.
    fn positions(self, places: &[Axis], taps: &[Axis], image: &Tensor) -> (Vec<Expr>, Option<Expr>) {
        let (shape, mut inside) = (image.shape(), None::<Expr>);
        let mut positions = Vec::new();
        for axis in 0..AXES {
            let (before, after) = self.padding[axis];
            let position = simplify(&(places[axis] * self.stride[axis] + taps[axis] * self.dilation[axis] - before));
            let above = (before > 0).then(|| position.greater_equal(0));
            // The last output ends with the padding after the image.
            let below = (after > 0).then(|| position.less(&shape[self.spatial(axis)]));
            inside = inside.into_iter().chain(above).chain(below).reduce(|all, one| all.and(one));
            positions.push(position);
        }
        (positions, inside)
    }

    /// The extents of the result along the image's axes.
    ///
    /// # Errors
    /// The errors of [`conv2d`], but for types.
    fn checked(self, operation: &'static str, image: &Tensor, filter: &Tensor) -> Result<Vec<Expr>, TeError> {
        in_range(operation, "stride", 1, &self.stride)?;
        in_range(operation, "padding", 0, self.padding.map(|(before, after)| [before, after]).as_flattened())?;
        in_range(operation, "dilation", 1, &self.dilation)?;
        in_range(operation, "number of groups", 1, &[self.groups])?;
        let names = |first, axes: [&str; 3]| {
            let axes = axes[3 - AXES..].join(", ");
            match self.layout {
                Layout::First => format!("[{first}, channels, {axes}]"),
                Layout::Last => format!("[{first}, {axes}, channels]"),
            }
        };
        let (image, filter) = (("the image", image), ("the filter", filter));
        require_rank(operation, image, AXES + 2, &names("batch", OF_IMAGES))?;
        require_rank(operation, filter, AXES + 2, &names("features", OF_FILTERS))?;
        let (pixels, kernel, channel, groups) = (image.1.shape(), filter.1.shape(), self.channel(), self.groups);
        if groups == 1 {
            let mut wanted = kernel.clone();
            wanted[channel] = pixels[channel].clone();
            require_shape(operation, filter, &wanted, "with as many channels as the image")?;
        } else if !equal(&(&kernel[channel] * groups), &pixels[channel]) {
            let needed = format!("with the channels of one of {groups} groups, for the image's {}", extents(&pixels));
            return Err(misshapen(operation, filter, needed));
        }
        if simplify(&kernel[0].floor_mod(groups)).as_int() != Some(0) {
            return Err(misshapen(
                operation,
                filter,
                format!("with a multiple of {groups} features, for as many groups"),
            ));
        }
        let mut out = Vec::new();
        for axis in 0..AXES {
            let (before, after) = self.padding[axis];
            let (extent, taps) = (&pixels[self.spatial(axis)], &kernel[self.spatial(axis)]);
            let padded = simplify(&(extent + before + after));
            let left = simplify(&(&padded - (taps - 1) * self.dilation[axis] - 1));
            let is_negative = |x: &Expr| x.as_int().is_some_and(|x| x < 0);
            if is_negative(&(taps - 1)) || is_negative(&left) {
                let what = OF_FILTERS[3 - AXES + axis];
                let reach = format!("reach over no more than the image's {}", expression(&padded));
                let reach = if before + after > 0 { format!("{reach} with its padding") } else { reach };
                return Err(misshapen(operation, filter, format!("of 1 or more {what}, and {reach}")));
            }
            out.push(simplify(&(left.floor_div(self.stride[axis]) + 1)));
        }
        Ok(out)
    }
}

/// # Errors
/// [`ExpressionError::Sliding`] for a number below the least, or one that no index holds: indices are i32s, and no sum or
/// product of a few of them overflows an i64.
pub(super) fn in_range(
    operation: &'static str,
    option: &'static str,
    least: usize,
    numbers: &[usize],
) -> Result<(), TeError> {
    let is_refused = |given: &&usize| **given < least || i32::try_from(**given).is_err();
    match numbers.iter().find(is_refused) {
        Some(given) => Err(ExpressionError::Sliding { operation, option, given: *given, least }.into()),
        None => Ok(()),
    }
}
