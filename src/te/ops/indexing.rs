//! Elements by index: gathers, one-hot vectors, and padding.

use super::{map, misshapen, require_shape};
use crate::te::dtype::DType;
use crate::te::error::{ExpressionError, TeError};
use crate::te::expr::dimension::Dimension;
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;

/// The elements of `a` at `indices` along a dimension: `result[i, j] = a[i, indices[i, j]]` for dimension 1 of 2. It is
/// numpy's `take_along_axis` and PyTorch's `gather`.
///
/// `indices` has as many dimensions as `a`, and its extents but for this dimension. The result has its shape. An index
/// that is negative or too large fails the run ([`DataError`](crate::DataError)).
///
/// ```
/// use epilogue::{Device, ElementType, te};
///
/// let (rows, columns) = (te::var("rows"), te::var("columns"));
/// let x = te::placeholder([rows, columns], "x");
/// let places = te::placeholder_of(ElementType::I32, [rows.into(), te::Expr::from(1)], "places");
/// let chosen = te::ops::take_along(&x, &places, 1)?;
///
/// let device = Device::cpu();
/// let (xs, at) = (device.tensor(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?, device.tensor(&[2i32, 0], [2, 1])?);
/// let mut y = device.zeros::<f32>([2, 1])?;
/// let kernel = te::auto::build(&[&chosen])?.build(&device)?;
/// kernel.run_bound(&[(&x, (&xs).into()), (&places, (&at).into()), (&chosen, (&mut y).into())])?;
/// assert_eq!(y.to_vec::<f32>()?, [3.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ExpressionError::NoSuchAxis`]; [`ExpressionError::Shape`] for indices of other extents;
/// [`ExpressionError::IndexType`] for indices that are no integers.
pub fn take_along(a: &Tensor, indices: &Tensor, dimension: impl Into<Dimension>) -> Result<Tensor, TeError> {
    let mut wanted = a.shape();
    let dimension = dimension.into().among(wanted.len(), "data", || a.name())?;
    if let Some(own) = indices.shape().get(dimension) {
        wanted[dimension] = own.clone();
    }
    require_shape("take_along", ("the indices", indices), &wanted, "as the tensor but along the dimension")?;
    map(indices.shape(), "take_along", |at| {
        let mut place = at.to_vec();
        place[dimension] = indices.at(at);
        a.at(place)
    })
}

/// Whole parts of `a` along a dimension, chosen by indices of any shape: `result[…, i…, …] = a[…, indices[i…], …]`. The
/// dimensions of the indices take the place of this one. For a matrix and dimension 0 it looks up rows, as an embedding
/// does. It is numpy's `take`, ONNX's `Gather` and PyTorch's `index_select`; PyTorch's `gather` is [`take_along`].
///
/// An index that is negative or too large fails the run ([`DataError`](crate::DataError)).
///
/// ```
/// use epilogue::{Device, ElementType, te};
///
/// let x = te::placeholder([te::var("rows"), te::var("columns")], "x");
/// let places = te::placeholder_of(ElementType::I32, [te::var("n")], "places");
/// let rows = te::ops::gather(&x, &places, 0)?;
///
/// let device = Device::cpu();
/// let (xs, at) = (device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1i32, 0, 1], [3])?);
/// let mut y = device.zeros::<f32>([3, 2])?;
/// let kernel = te::auto::build(&[&rows])?.build(&device)?;
/// kernel.run_bound(&[(&x, (&xs).into()), (&places, (&at).into()), (&rows, (&mut y).into())])?;
/// assert_eq!(y.to_vec::<f32>()?, [3.0, 4.0, 1.0, 2.0, 3.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ExpressionError::NoSuchAxis`]; [`ExpressionError::IndexType`] for indices that are no integers.
pub fn gather(a: &Tensor, indices: &Tensor, dimension: impl Into<Dimension>) -> Result<Tensor, TeError> {
    let (mut shape, rank) = (a.shape(), indices.rank());
    let dimension = dimension.into().among(shape.len(), "data", || a.name())?;
    shape.splice(dimension..=dimension, indices.shape());
    map(shape, "gather", |at| {
        let (before, rest) = at.split_at(dimension);
        let (chosen, after) = rest.split_at(rank);
        a.at([before, &[indices.at(chosen)], after].concat())
    })
}

/// One-hot vectors of a type: `result[…, class]` is 1 if the index is `class`, and 0 otherwise. The result has one more
/// dimension than the indices, of extent `classes`. An index that is no class, for example −1, gives zeros only.
///
/// # Errors
/// [`ExpressionError::OperandType`] for indices that are no integers; [`ExpressionError::Extent`] for a number of
/// classes that is no extent.
pub fn one_hot(indices: &Tensor, classes: impl Into<Expr>, dtype: impl Into<DType>) -> Result<Tensor, TeError> {
    if !indices.dtype().is_integer() {
        return Err(ExpressionError::OperandType { operation: "one_hot".to_owned(), given: indices.dtype() }.into());
    }
    let dtype = DType::of(dtype);
    let mut shape = indices.shape();
    shape.push(classes.into());
    map(shape, "one_hot", |at| {
        let (class, place) = (&at[at.len() - 1], &at[..at.len() - 1]);
        // Compared in 64 bits: a class need not fit the indices' type.
        let is_class = indices.at(place).cast(DType::I64).equal(class.cast(DType::I64));
        is_class.select(Expr::constant(1.0, dtype), Expr::constant(0.0, dtype))
    })
}

/// The new elements of a tensor that is padded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Padding {
    /// A number.
    Constant(f64),
    /// The nearest element.
    Edge,
    /// The elements mirrored at the first and the last one, which are not repeated. More elements than the dimension has
    /// are mirrored again, as in numpy.
    Reflect,
}

/// The tensor with new elements on both sides of each dimension: `widths[d]` has their numbers before and after.
///
/// ```
/// use epilogue::te::ops::{self, Padding};
/// use epilogue::{Device, te};
///
/// let x = te::placeholder([te::var("n")], "x");
/// let padded = ops::pad(&x, &[(2, 1)], Padding::Reflect)?;
///
/// let device = Device::cpu();
/// let (xs, mut y) = (device.tensor(&[1f32, 2.0, 3.0], [3])?, device.zeros::<f32>([6])?);
/// te::auto::build(&[&padded])?.build(&device)?.run_bound(&[(&x, (&xs).into()), (&padded, (&mut y).into())])?;
/// assert_eq!(y.to_vec::<f32>()?, [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`Padding::Edge`] and [`Padding::Reflect`] need an element in each dimension that they extend: without one, the run
/// fails.
///
/// # Errors
/// [`ExpressionError::Shape`] for another number of widths than dimensions, and a dimension without elements;
/// [`ExpressionError::Unrepresentable`] for a number that the type doesn't hold; [`ExpressionError::Extent`] for a
/// result that is too large.
pub fn pad(a: &Tensor, widths: &[(usize, usize)], padding: Padding) -> Result<Tensor, TeError> {
    let shape = a.shape();
    if widths.len() != shape.len() {
        let needed = format!("of as many dimensions as widths are given, {}", widths.len());
        return Err(misshapen("pad", ("the tensor", a), needed));
    }
    for (extent, (before, after)) in shape.iter().zip(widths) {
        let needs_element = !matches!(padding, Padding::Constant(_)) && before.max(after) > &0;
        if needs_element && extent.as_int() == Some(0) {
            let needed = format!("of 1 or more elements where {before} are added before and {after} after");
            return Err(misshapen("pad", ("the tensor", a), needed));
        }
    }
    let padded = |(extent, (before, after)): (&Expr, &(usize, usize))| extent + *before + *after;
    map(shape.iter().zip(widths).map(padded).collect(), "pad", |at| {
        let mut inside = None::<Expr>;
        let mut place = Vec::new();
        for ((index, extent), (before, after)) in at.iter().zip(&shape).zip(widths) {
            let from = if *before > 0 { index - *before } else { index.clone() };
            place.push(match padding {
                Padding::Constant(_) => {
                    let above = (*before > 0).then(|| from.greater_equal(0));
                    let below = (*after > 0).then(|| from.less(extent));
                    inside = inside.into_iter().chain(above).chain(below).reduce(|all, one| all.and(one));
                    from
                }
                _ if *before == 0 && *after == 0 => from,
                Padding::Edge => from.max(0).min(extent - 1),
                Padding::Reflect => {
                    // There and back.
                    let period = (extent - 1) * 2;
                    let place = from.floor_mod(period.max(1));
                    place.min(&period - &place)
                }
            });
        }
        match (padding, inside) {
            (Padding::Constant(value), Some(inside)) => inside.select(a.at(place), Expr::constant(value, a.dtype())),
            _ => a.at(place),
        }
    })
}
