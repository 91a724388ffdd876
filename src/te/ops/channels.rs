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

/// Batch normalisation of `[batch, channels, …]`: `(x - mean) / sqrt(var + epsilon)` times `weight` plus `bias`, all of
/// `[channels]`. `running` has the mean and variance of each channel, as a trained network brings them. Without it, they
/// are those of the batch and of all axes behind, as in training; the variance is not corrected. Infinities and NaN are
/// as in [`layer_norm`](super::layer_norm()).
///
/// ```
/// use epilogue::{Device, te};
///
/// let (x, of_channels) = (te::placeholder([1, 2, 2], "x"), |name| te::placeholder([2], name));
/// let (mean, var) = (of_channels("mean"), of_channels("var"));
/// let normal = te::ops::batch_norm(&x, Some([&mean, &var]), None, None, 0.0)?;
///
/// let device = Device::cpu();
/// let (xs, means) = (device.tensor(&[1f32, 2.0, 3.0, 4.0], [1, 2, 2])?, device.tensor(&[1f32, 3.0], [2])?);
/// let (vars, mut y) = (device.tensor(&[1f32, 0.25], [2])?, device.zeros::<f32>([1, 2, 2])?);
/// te::auto::build(&[&normal])?.build(&device)?.run_bound(&[
///     (&x, (&xs).into()),
///     (&mean, (&means).into()),
///     (&var, (&vars).into()),
///     (&normal, (&mut y).into()),
/// ])?;
/// assert_eq!(y.to_vec::<f32>()?, [0.0, 1.0, 0.0, 2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The errors of [`group_norm`], but for the groups; also for a mean or variance that doesn't fit.
pub fn batch_norm(
    a: &Tensor,
    running: Option<[&Tensor; 2]>,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    epsilon: f64,
) -> Result<Tensor, TeError> {
    let (shape, wide) = (checked("batch_norm", a, weight, bias)?, wide(a.dtype()));
    let spread = match running {
        Some([mean, var]) => {
            for (role, given) in [("the mean", mean), ("the variance", var)] {
                require_float(given, "batch_norm")?;
                require_shape("batch_norm", (role, given), &shape[1..2], "as the channels")?;
            }
            let half = map(mean.shape(), "half_mean", |at| mean.at(at).cast(wide) * Expr::constant(0.5, wide))?;
            Spread { half, var: var.clone() }
        }
        None => {
            let others: Vec<usize> = (0..shape.len()).filter(|dimension| *dimension != 1).collect();
            spread(a, &Over::new(a, others.as_slice())?, wide)?
        }
    };
    normalised("batch_norm", a, &spread, weight, bias, epsilon, |at| at[1..2].to_vec())
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
