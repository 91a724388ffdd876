//! Normalisations of images by channels: `[batch, channels, …]`, with any number of axes behind.

use super::reductions::{Spread, spread};
use super::{Over, map, misshapen, require_float, require_shape, wide};
use crate::expr::Op;
use crate::te::arith::simplify;
use crate::te::error::TeError;
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;

/// `(x - mean) / sqrt(var + epsilon)` of `[batch, channels, …]`, times `weight` plus `bias` of `[channels]`. Mean and
/// variance are those of a group of neighbouring channels in one element of the batch. Infinities and NaN are as in
/// [`layer_norm`](super::layer_norm()).
///
/// # Errors
/// [`ExpressionError::OperandType`](crate::te::ExpressionError::OperandType) for integers;
/// [`ExpressionError::Shape`](crate::te::ExpressionError::Shape) for fewer than 2 dimensions, channels that are not
/// provably a multiple of the groups, and a weight or bias that doesn't fit.
pub fn group_norm(
    a: &Tensor,
    groups: usize,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    epsilon: f64,
) -> Result<Tensor, TeError> {
    let mut shape = checked("group_norm", a, weight, bias)?;
    let is_multiple = groups > 0 && simplify(&shape[1].floor_mod(groups)).as_int() == Some(0);
    if !is_multiple {
        let needed = format!("with a number of channels that is a multiple of the {groups} groups");
        return Err(misshapen("group_norm", ("the tensor", a), needed));
    }
    let each = simplify(&shape[1].floor_div(groups));
    shape.splice(1..2, [groups.into(), each.clone()]);
    let grouped = map(shape, "grouped", |at| {
        let channel = &at[1] * &each + &at[2];
        a.at([&at[..1], &[channel], &at[3..]].concat())
    })?;
    let over = Over::new(&grouped, (2..grouped.rank()).collect::<Vec<usize>>().as_slice())?;
    let spread = spread(&grouped, &over, wide(a.dtype()))?;
    normalised("group_norm", a, &spread, weight, bias, epsilon, |at| vec![at[0].clone(), at[1].floor_div(&each)])
}

/// [`group_norm`] with a group for each channel: each channel of each element of the batch is normalised by itself.
///
/// # Errors
/// The errors of [`group_norm`], but for the groups.
pub fn instance_norm(
    a: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    epsilon: f64,
) -> Result<Tensor, TeError> {
    let shape = checked("instance_norm", a, weight, bias)?;
    let over = Over::new(a, (2..shape.len()).collect::<Vec<usize>>().as_slice())?;
    let spread = spread(a, &over, wide(a.dtype()))?;
    normalised("instance_norm", a, &spread, weight, bias, epsilon, |at| at[..2].to_vec())
}

/// The shape, once everything but the groups is checked.
fn checked(
    operation: &'static str,
    a: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
) -> Result<Vec<Expr>, TeError> {
    require_float(a, operation)?;
    let shape = a.shape();
    if shape.len() < 2 {
        return Err(misshapen(operation, ("the tensor", a), "[batch, channels, …]".to_owned()));
    }
    for (role, given) in [("the weight", weight), ("the bias", bias)] {
        if let Some(given) = given {
            require_shape(operation, (role, given), &shape[1..2], "as the channels")?;
        }
    }
    Ok(shape)
}

/// Each element with the spread at `row` of its indices.
fn normalised(
    operation: &'static str,
    a: &Tensor,
    Spread { half, var }: &Spread,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    epsilon: f64,
    row: impl Fn(&[Expr]) -> Vec<Expr>,
) -> Result<Tensor, TeError> {
    let wide = wide(a.dtype());
    let number = |x| Expr::constant(x, wide);
    map(a.shape(), operation, |at| {
        let row = row(at);
        let scale = number(2.0) * Expr::apply(Op::Rsqrt, vec![var.at(row.as_slice()).cast(wide) + number(epsilon)]);
        let mut x = (a.at(at).cast(wide) * number(0.5) - half.at(row.as_slice()).cast(wide)) * scale;
        if let Some(weight) = weight {
            x = x * weight.at(&at[1..2]).cast(wide);
        }
        if let Some(bias) = bias {
            x = x + bias.at(&at[1..2]).cast(wide);
        }
        x.cast(a.dtype())
    })
}
