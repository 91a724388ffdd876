//! Recurrences. Running sums and products have the shape of what they are of; the others have time in front.

use super::wide;
use crate::expr::Op;
use crate::te::axis::reduce_axis;
use crate::te::dtype::DType;
use crate::te::error::TeError;
use crate::te::expr::Expr;
use crate::te::reduce::sum;
use crate::te::scan::scan;
use crate::te::tensor::{Tensor, compute_over, placeholder_of};

/// The sums of all elements up to each, along a dimension, in the tensor's shape. Integers of 8 bits are summed to i32.
///
/// # Errors
/// [`TeError::NoSuchAxis`].
pub fn cumsum(a: &Tensor, dimension: usize) -> Result<Tensor, TeError> {
    along(a, dimension, "cumsum", |state, x| state + x)
}

/// The products of all elements up to each, along a dimension, in the tensor's shape. Integers of 8 bits are multiplied
/// to i32.
///
/// # Errors
/// [`TeError::NoSuchAxis`].
pub fn cumprod(a: &Tensor, dimension: usize) -> Result<Tensor, TeError> {
    along(a, dimension, "cumprod", |state, x| state * x)
}

fn along(a: &Tensor, dimension: usize, name: &str, step: impl FnOnce(Expr, Expr) -> Expr) -> Result<Tensor, TeError> {
    let mut shape = a.shape();
    if dimension >= shape.len() {
        return Err(TeError::NoSuchAxis { tensor: a.name(), kind: "data", dimension, count: shape.len() });
    }
    let time = shape.remove(dimension);
    shape.insert(0, time);
    let dtype = wide(a.dtype());
    let element = |at: &[Expr]| {
        let mut at = at.to_vec();
        let time = at.remove(0);
        at.insert(dimension, time);
        a.at(at).cast(dtype)
    };
    let states = recurrence(&shape, dtype, name, |at| element(at), |state, at| step(state, element(at)))?;
    if dimension == 0 {
        return narrowed(&states, a.dtype(), name);
    }
    let result = if dtype.is_float() { a.dtype() } else { dtype };
    super::map(a.shape(), name, |at| {
        let mut at = at.to_vec();
        let time = at.remove(dimension);
        at.insert(0, time);
        states.at(at).cast(result)
    })
}

/// `y[t] = a[t]·y[t-1] + x[t]`, from `y[0] = x[0]` on; `a` and `x` have one shape, time in front.
///
/// # Errors
/// [`TeError::Rank`], [`TeError::MixedTypes`] where the two don't fit each other.
pub fn linear_recurrence(a: &Tensor, x: &Tensor) -> Result<Tensor, TeError> {
    let dtype = wide(x.dtype());
    let states = recurrence(
        &x.shape(),
        dtype,
        "linear_recurrence",
        |at| x.at(at).cast(dtype),
        |state, at| a.at(at).cast(dtype) * state + x.at(at).cast(dtype),
    )?;
    narrowed(&states, x.dtype(), "linear_recurrence")
}

/// The states of Mamba's selective scan, `[time, batch, channel, state]`:
/// `h[t] = exp(delta[t]·a)·h[t-1] + delta[t]·b[t]·x[t]`, from `h[-1] = 0` on.
///
/// `x` and `delta` are `[time, batch, channel]`, `a` is `[channel, state]`, `b` is `[time, batch, state]`.
///
/// # Errors
/// [`TeError::Rank`], [`TeError::MixedTypes`] where they don't fit each other.
pub fn selective_scan(x: &Tensor, delta: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor, TeError> {
    let dtype = wide(x.dtype());
    let mut shape = x.shape();
    shape.extend(a.shape().into_iter().skip(1));
    let take = |at: &[Expr], places: &[usize]| -> Vec<Expr> {
        places.iter().filter_map(|place| at.get(*place).cloned()).collect()
    };
    let input = |at: &[Expr]| {
        let step = delta.at(take(at, &[0, 1, 2])).cast(dtype);
        step * b.at(take(at, &[0, 1, 3])).cast(dtype) * x.at(take(at, &[0, 1, 2])).cast(dtype)
    };
    recurrence(&shape, dtype, "selective_scan", input, |state, at| {
        let step = delta.at(take(at, &[0, 1, 2])).cast(dtype);
        let decay = Expr::apply(Op::Exp, vec![step * a.at(take(at, &[2, 3])).cast(dtype)]);
        decay * state + input(at)
    })
}

/// What Mamba makes of the states of its [`selective_scan`], `[time, batch, channel]`:
/// `y[t] = sum(c[t]·h[t])` over the state, plus `skip·x[t]`. [`auto::scan`](crate::te::auto::scan) does it in one launch
/// that keeps the states in registers.
///
/// `c` is `[time, batch, state]`, `skip` is `[channel]`.
///
/// # Errors
/// As [`selective_scan`].
pub fn selective_scan_output(
    x: &Tensor,
    delta: &Tensor,
    a: &Tensor,
    b: &Tensor,
    c: &Tensor,
    skip: Option<&Tensor>,
) -> Result<Tensor, TeError> {
    let dtype = wide(x.dtype());
    let states = selective_scan(x, delta, a, b)?;
    let n = reduce_axis((0, a.shape().get(1).cloned().unwrap_or_else(|| Expr::int(0))), "n");
    let total = compute_over(x.shape(), "selective_scan.total", |axes| {
        let at: Vec<Expr> = axes.iter().copied().chain([n]).map(Expr::from).collect();
        let weight: Vec<Expr> = axes.iter().take(2).copied().chain([n]).map(Expr::from).collect();
        vec![sum(c.at(weight).cast(dtype) * states.at(at), [n])]
    })?;
    super::map(x.shape(), "selective_scan_output", |at| {
        let y = total[0].at(at);
        let y = match (skip, at.get(2)) {
            (Some(skip), Some(channel)) => y + skip.at([channel.clone()]).cast(dtype) * x.at(at).cast(dtype),
            _ => y,
        };
        y.cast(x.dtype())
    })
}

/// A scan of one state, whose first step is given by `first`.
fn recurrence(
    shape: &[Expr],
    dtype: DType,
    name: &str,
    first: impl FnOnce(&[Expr]) -> Expr,
    step: impl FnOnce(Expr, &[Expr]) -> Expr,
) -> Result<Tensor, TeError> {
    let state = placeholder_of(dtype, shape.to_vec(), &format!("{name}.state"));
    let mut begin = shape.to_vec();
    if let Some(time) = begin.first_mut() {
        *time = Expr::int(1);
    }
    let init = compute_over(begin, &format!("{name}.init"), |axes| {
        let at: Vec<Expr> = axes.iter().map(|axis| Expr::from(*axis)).collect();
        vec![first(&at)]
    })?;
    let update = compute_over(shape.to_vec(), &format!("{name}.update"), |axes| {
        let at: Vec<Expr> = axes.iter().map(|axis| Expr::from(*axis)).collect();
        let mut before = at.clone();
        if let Some(time) = before.first_mut() {
            *time = time.clone() - 1;
        }
        vec![step(state.at(before), &at)]
    })?;
    scan(&init[0], &update[0], &state, &[])
}

/// The states in a type: themselves, where they have it.
fn narrowed(states: &Tensor, dtype: DType, name: &str) -> Result<Tensor, TeError> {
    if states.dtype() == dtype || !dtype.is_float() {
        return Ok(states.clone());
    }
    super::map(states.shape(), name, |at| states.at(at).cast(dtype))
}
