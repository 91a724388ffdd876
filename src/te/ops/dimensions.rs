//! The dimensions over which an operation reduces, and the dimensions of its result.

use super::misshapen;
use crate::te::dtype::DType;
use crate::te::error::{ExpressionError, TeError};
use crate::te::expr::axis::{Axis, reduce_axis};
use crate::te::expr::define::compute::compute_over;
use crate::te::expr::dimension::Dimension;
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;

/// The dimensions that an operation reduces over: one by its number, several as an array or slice, or
/// [`Dimensions::all`]. Negative numbers count from the end: see [`Dimension`].
///
/// ```
/// use epilogue::te::{self, ops};
/// # fn main() -> Result<(), te::TeError> {
/// let x = te::placeholder([2, 3, 4], "x");
/// assert_eq!(ops::sum(&x, -1)?.rank(), 2);
/// assert_eq!(ops::sum(&x, [0, -1])?.rank(), 1);
/// assert_eq!(ops::sum(&x, ops::Dimensions::all())?.rank(), 0);
/// assert_eq!(ops::sum(&x, ops::Dimensions::from(1).kept())?.rank(), 3);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimensions {
    /// `None` means all dimensions of the tensor.
    places: Option<Vec<Dimension>>,
    kept: bool,
}

impl Dimensions {
    /// All dimensions of the tensor.
    #[must_use]
    pub const fn all() -> Self {
        Self { places: None, kept: false }
    }

    /// Keeps the dimensions in the result, with extent 1.
    #[must_use]
    pub fn kept(self) -> Self {
        Self { kept: true, ..self }
    }
}

macro_rules! from_one {
    ($($number:ty),*) => {$(
        impl From<$number> for Dimensions {
            fn from(dimension: $number) -> Self {
                Self { places: Some(vec![dimension.into()]), kept: false }
            }
        }
    )*};
}

from_one!(i32, i64, isize, u32, u64, usize, Dimension);

impl<D: Copy + Into<Dimension>> From<&[D]> for Dimensions {
    fn from(dimensions: &[D]) -> Self {
        Self { places: Some(dimensions.iter().copied().map(Into::into).collect()), kept: false }
    }
}

impl<D: Copy + Into<Dimension>, const N: usize> From<&[D; N]> for Dimensions {
    fn from(dimensions: &[D; N]) -> Self {
        Self::from(dimensions.as_slice())
    }
}

impl<D: Copy + Into<Dimension>, const N: usize> From<[D; N]> for Dimensions {
    fn from(dimensions: [D; N]) -> Self {
        Self::from(dimensions.as_slice())
    }
}

/// A reduction of a tensor over some of its dimensions.
pub(super) struct Over {
    /// The result's extents.
    result: Vec<Expr>,
    /// The dimensions that are reduced over, in order.
    pub(super) dimensions: Vec<usize>,
    pub(super) axes: Vec<Axis>,
    rank: usize,
    kept: bool,
}

impl Over {
    /// # Errors
    /// [`ExpressionError::NoSuchAxis`], [`ExpressionError::RepeatedAxis`].
    pub(super) fn new(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Self, TeError> {
        let (shape, Dimensions { places, kept }) = (a.shape(), dimensions.into());
        let count = shape.len();
        let of = |place: Dimension| place.among(count, "data", || a.name());
        let mut dimensions: Vec<usize> = match places {
            Some(places) => places.into_iter().map(of).collect::<Result<_, _>>()?,
            None => (0..count).collect(),
        };
        for (place, dimension) in dimensions.iter().enumerate() {
            if dimensions[..place].contains(dimension) {
                return Err(ExpressionError::RepeatedAxis { axis: format!("{dimension} of {}", a.name()) }.into());
            }
        }
        dimensions.sort_unstable();
        let axes = dimensions.iter().map(|d| reduce_axis((0, shape[*d].clone()), &format!("r{d}"))).collect();
        let rank = shape.len();
        let left = |(d, extent)| match dimensions.contains(&d) {
            false => Some(extent),
            true => kept.then(|| Expr::int(1)),
        };
        let result = shape.into_iter().enumerate().filter_map(left).collect();
        Ok(Self { result, dimensions, axes, rank, kept })
    }

    /// The indices of the element, from the axes of the result.
    fn indices(&self, outer: &[Axis]) -> Vec<Expr> {
        let (mut outer, mut inner) = (outer.iter(), self.axes.iter());
        let axis = |d| {
            if !self.dimensions.contains(&d) {
                return outer.next();
            }
            if self.kept {
                outer.next();
            }
            inner.next()
        };
        (0..self.rank).filter_map(axis).map(|axis| Expr::from(*axis)).collect()
    }

    /// The indices of the result, among those of an element.
    pub(super) fn row(&self, at: &[Expr]) -> Vec<Expr> {
        let index = |d: usize| match self.dimensions.contains(&d) {
            false => Some(at[d].clone()),
            true => self.kept.then(|| Expr::int(0)),
        };
        (0..self.rank).filter_map(index).collect()
    }

    /// The place of an element among those that are reduced to one value; the last dimension varies fastest.
    pub(super) fn place(&self, a: &Tensor) -> Expr {
        let shape = a.shape();
        let places = self.dimensions.iter().zip(&self.axes).map(|(d, axis)| (Expr::from(*axis), shape[*d].clone()));
        let place = places.reduce(|(place, _), (index, extent)| (place * &extent + index, extent));
        place.map_or_else(|| Expr::int(0), |(place, _)| place)
    }

    /// Whether the dimensions are the last ones, whose elements are usually neighbours in memory.
    pub(super) fn is_last(&self) -> bool {
        self.dimensions.iter().rev().zip((0..self.rank).rev()).all(|(dimension, last)| *dimension == last)
    }

    /// # Errors
    /// [`ExpressionError::Shape`] if more elements are reduced to one value than an i32 can count.
    pub(super) fn require_countable(&self, a: &Tensor, operation: &'static str) -> Result<(), TeError> {
        let counted = self.dimensions.iter().filter_map(|d| a.shape()[*d].as_int());
        if counted.fold(1_i64, |n, extent| n.saturating_mul(extent.max(1))) <= i64::from(i32::MAX) {
            return Ok(());
        }
        let needed = format!("of at most {} elements where it is reduced", i32::MAX);
        Err(misshapen(operation, ("the tensor", a), needed))
    }

    /// How many elements are reduced to one value, as a number of a type: as a product it could overflow 32-bit
    /// integers.
    pub(super) fn count(&self, a: &Tensor, dtype: DType) -> Expr {
        let shape = a.shape();
        let extents = self.dimensions.iter().map(|d| shape[*d].clone().cast(dtype));
        extents.reduce(|n, extent| n * extent).unwrap_or_else(|| Expr::constant(1.0, dtype))
    }

    /// The reductions of `body`, which is given the indices of an element.
    pub(super) fn reduce(
        &self,
        name: &str,
        body: impl FnOnce(&[Expr], &[Axis]) -> Vec<Expr>,
    ) -> Result<Vec<Tensor>, TeError> {
        compute_over(self.result.clone(), name, |outer| body(&self.indices(outer), &self.axes))
    }
}
