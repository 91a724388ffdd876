//! Pooling: the largest or the mean of each window that moves over the last axes.
//!
//! A window at `o` has its taps at `o·stride + t·dilation − padding` along each axis. Taps outside of the tensor count as
//! nothing.

use super::convolution::in_range;
use super::{map, misshapen, require_float, wide};
use crate::te::arith::simplify;
use crate::te::error::TeError;
use crate::te::expr::axis::{Axis, reduce_axis};
use crate::te::expr::define::compute::compute_over;
use crate::te::expr::define::reducer::{max_reducer, sum_reducer};
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;
use crate::te::text::expression;

/// A window over the last `AXES` axes of a tensor, and how it moves. Any number of axes may come before.
///
/// ```
/// use epilogue::te::{self, ops::{self, Pooling}};
/// # fn main() -> Result<(), te::TeError> {
/// let images = te::placeholder([2, 3, 8, 9], "images");
/// let halved = ops::max_pool(&images, Pooling::new([2, 2]))?; // [2, 3, 4, 4]
/// let all = ops::max_pool(&images, Pooling::new([2, 2]).ceil())?; // [2, 3, 4, 5]
/// let smooth = ops::average_pool(&images, Pooling::new([3, 3]).stride([1, 1]).padding([1, 1]))?; // [2, 3, 8, 9]
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pooling<const AXES: usize> {
    window: [usize; AXES],
    stride: [usize; AXES],
    padding: [(usize, usize); AXES],
    dilation: [usize; AXES],
    ceil: bool,
    padding_counts: bool,
}

impl<const AXES: usize> Pooling<AXES> {
    /// A window of this many taps along each axis. Windows lie side by side, and there is no padding.
    #[must_use]
    pub const fn new(window: [usize; AXES]) -> Self {
        let (padding, dilation) = ([(0, 0); AXES], [1; AXES]);
        Self { window, stride: window, padding, dilation, ceil: false, padding_counts: false }
    }

    /// How far the window moves along each axis from one output to the next.
    #[must_use]
    pub const fn stride(self, stride: [usize; AXES]) -> Self {
        Self { stride, ..self }
    }

    /// Places on both sides of each axis: this many before it, and as many after it.
    #[must_use]
    pub fn padding(self, padding: [usize; AXES]) -> Self {
        Self { padding: padding.map(|places| (places, places)), ..self }
    }

    /// Places before and after each axis, in different numbers.
    #[must_use]
    pub const fn padding_around(self, padding: [(usize, usize); AXES]) -> Self {
        Self { padding, ..self }
    }

    /// How far neighbouring taps are apart.
    #[must_use]
    pub const fn dilation(self, dilation: [usize; AXES]) -> Self {
        Self { dilation, ..self }
    }

    /// The last window may reach beyond the padding, if it starts before the padding after the tensor: PyTorch's
    /// `ceil_mode`.
    #[must_use]
    pub const fn ceil(self) -> Self {
        Self { ceil: true, ..self }
    }

    /// Averages count taps in the padding, as zeros: PyTorch's `count_include_pad=True`. Otherwise they count elements only.
    #[must_use]
    pub const fn padding_counts(self) -> Self {
        Self { padding_counts: true, ..self }
    }
}

/// The largest element of each window, and NaN if it has one. Along each axis the result has
/// `(before + extent + after − dilation·(taps − 1) − 1) / stride + 1` elements, rounded down, or up with
/// [`Pooling::ceil`].
///
/// A window without elements, which only large padding or dilation makes, gives the least value of the type: −∞ of floats.
///
/// ```
/// use epilogue::{Device, te::{self, ops::{self, Pooling}}};
///
/// let x = te::placeholder([te::var("n")], "x");
/// let largest = ops::max_pool(&x, Pooling::new([3]).stride([2]).padding([1]))?;
///
/// let device = Device::cpu();
/// let (xs, mut y) = (device.tensor(&[5f32, 1.0, 2.0, 3.0], [4])?, device.zeros::<f32>([2])?);
/// te::auto::build(&[&largest])?.build(&device)?.run_bound(&[(&x, (&xs).into()), (&largest, (&mut y).into())])?;
/// assert_eq!(y.to_vec::<f32>()?, [5.0, 3.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ExpressionError::Shape`](crate::te::ExpressionError::Shape) for fewer axes than the window has, and a window that
/// reaches beyond the tensor with its padding; [`ExpressionError::Sliding`](crate::te::ExpressionError::Sliding) for a
/// window, stride or dilation of 0, and numbers that no i32 holds.
pub fn max_pool<const AXES: usize>(a: &Tensor, pooling: Pooling<AXES>) -> Result<Tensor, TeError> {
    let least = Expr::constant(a.dtype().least(), a.dtype());
    pooling.reduced("max_pool", a, |element, inside, taps| {
        let element = inside.map_or_else(|| element.clone(), |inside| inside.select(&element, &least));
        max_reducer().over(element, taps)
    })
}

/// The mean of each window's elements. Extents are those of [`max_pool`]. A window without elements gives NaN.
///
/// # Errors
/// The errors of [`max_pool`]; [`ExpressionError::OperandType`](crate::te::ExpressionError::OperandType) for integers.
pub fn average_pool<const AXES: usize>(a: &Tensor, pooling: Pooling<AXES>) -> Result<Tensor, TeError> {
    require_float(a, "average_pool")?;
    let wide = wide(a.dtype());
    let sums = pooling.reduced("average_pool", a, |element, inside, taps| {
        let element = element.cast(wide);
        let zero = Expr::constant(0.0, wide);
        sum_reducer().over(inside.map_or_else(|| element.clone(), |inside| inside.select(&element, zero)), taps)
    })?;
    let (shape, first) = (a.shape(), a.rank() - AXES);
    map(sums.shape(), "average_pool", |at| {
        let counts = (0..AXES).map(|axis| pooling.count(axis, &at[first + axis], &shape[first + axis]).cast(wide));
        let count = counts.reduce(|all, one| all * one).unwrap_or_else(|| Expr::constant(1.0, wide));
        (sums.at(at) / count).cast(a.dtype())
    })
}

impl<const AXES: usize> Pooling<AXES> {
    /// A reduction of each window. `reduce` gets the element at a tap, the condition that it exists, and the taps.
    fn reduced(
        &self,
        operation: &'static str,
        a: &Tensor,
        reduce: impl FnOnce(Expr, Option<Expr>, &[Axis]) -> Expr,
    ) -> Result<Tensor, TeError> {
        let (shape, extents) = (a.shape(), self.checked(operation, a)?);
        let first = shape.len() - AXES;
        let taps: Vec<Axis> = (0..AXES).map(|axis| reduce_axis((0, self.window[axis]), &format!("d{axis}"))).collect();
        let made = compute_over([&shape[..first], &extents].concat(), operation, |axes| {
            let mut at: Vec<Expr> = axes[..first].iter().map(Expr::from).collect();
            let mut inside = None::<Expr>;
            for (axis, tap) in taps.iter().enumerate() {
                let place = simplify(&(self.start(axis, &axes[first + axis].into()) + *tap * self.dilation[axis]));
                let (before, after) = self.padding[axis];
                let above = (before > 0).then(|| place.greater_equal(0));
                let below = (after > 0 || self.ceil).then(|| place.less(&shape[first + axis]));
                inside = inside.into_iter().chain(above).chain(below).reduce(|all, one| all.and(one));
                at.push(place);
            }
            vec![reduce(a.at(at), inside, &taps)]
        })?;
        Ok(made[0].clone())
    }

    /// The place of a window's first tap.
    fn start(&self, axis: usize, window: &Expr) -> Expr {
        window * self.stride[axis] - self.padding[axis].0
    }

    /// The number of a window's taps along an axis that an average counts.
    fn count(&self, axis: usize, window: &Expr, extent: &Expr) -> Expr {
        let (taps, dilation, (before, after)) = (self.window[axis], self.dilation[axis], self.padding[axis]);
        let start = self.start(axis, window);
        // The taps before a place.
        let up_to = |place: &Expr| (place - &start + (dilation - 1)).floor_div(dilation).max(0).min(taps);
        if self.padding_counts {
            return if self.ceil { up_to(&(extent + after)) } else { taps.into() };
        }
        let end = if after > 0 || self.ceil { up_to(extent) } else { taps.into() };
        if before > 0 { end - up_to(&Expr::int(0)) } else { end }
    }

    /// The extents of the result along the window's axes.
    fn checked(&self, operation: &'static str, a: &Tensor) -> Result<Vec<Expr>, TeError> {
        in_range(operation, "window", 1, &self.window)?;
        in_range(operation, "stride", 1, &self.stride)?;
        in_range(operation, "padding", 0, self.padding.map(|(before, after)| [before, after]).as_flattened())?;
        in_range(operation, "dilation", 1, &self.dilation)?;
        let reach = |axis: usize| (self.window[axis] - 1).saturating_mul(self.dilation[axis]).saturating_add(1);
        let reaches: [usize; AXES] = std::array::from_fn(reach);
        in_range(operation, "reach of the window", 1, &reaches)?;
        let Some(first) = a.rank().checked_sub(AXES) else {
            return Err(misshapen(
                operation,
                ("the tensor", a),
                format!("of {AXES} or more dimensions, as the window"),
            ));
        };
        let mut out = Vec::new();
        for (axis, extent) in a.shape()[first..].iter().enumerate() {
            let ((before, after), stride) = (self.padding[axis], self.stride[axis]);
            let left = extent + before + after - reaches[axis];
            let steps = if self.ceil {
                // It starts before the padding after the tensor.
                (left + (stride - 1)).floor_div(stride).min((extent + before - 1).floor_div(stride))
            } else {
                left.floor_div(stride)
            };
            let windows = simplify(&(steps + 1));
            if windows.as_int().is_some_and(|windows| windows < 1) {
                let padded = expression(&simplify(&(extent + before + after)));
                let needed = format!(
                    "at least {} along dimension {}, the reach of the window; with its padding it is {padded}",
                    reaches[axis],
                    first + axis
                );
                return Err(misshapen(operation, ("the tensor", a), needed));
            }
            out.push(windows);
        }
        Ok(out)
    }
}
