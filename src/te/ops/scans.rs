//! Recurrences. Running sums and products have the shape of their input; the other recurrences have time as first
//! dimension.

use std::f64::consts::LN_2;

use super::{misshapen, require_float, require_rank, require_shape, wide};
use crate::expr::Op;
use crate::te::arith::simplify;
use crate::te::dtype::DType;
use crate::te::error::TeError;
use crate::te::expr::axis::reduce_axis;
use crate::te::expr::define::compute::{compute_over, placeholder_of};
use crate::te::expr::define::reducer::sum;
use crate::te::expr::define::scan::scan;
use crate::te::expr::dimension::Dimension;
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;

/// The direction of running sums, products and maxima: along one dimension, given by its number, or over all elements.
/// A negative number counts from the end: see [`Dimension`].
///
/// ```
/// use epilogue::te::{self, ops::{self, Running}};
/// # fn main() -> Result<(), te::TeError> {
/// let x = te::placeholder([2, 3], "x");
/// let up_to = ops::cumsum(&x, -1)?;
/// let before = ops::cumsum(&x, Running::along(-1).exclusive())?;
/// let from_here_on = ops::cumsum(&x, Running::along(1).reversed())?;
/// let of_all = ops::cumsum(&x, Running::all())?; // in one dimension of 6
/// assert_eq!((up_to.rank(), before.rank(), from_here_on.rank(), of_all.rank()), (2, 2, 2, 1));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// `None` means over all elements, row by row.
    dimension: Option<Dimension>,
    exclusive: bool,
    reversed: bool,
}

impl Running {
    /// Along a dimension; the result has the tensor's shape.
    #[must_use]
    pub fn along(dimension: impl Into<Dimension>) -> Self {
        Self { dimension: Some(dimension.into()), exclusive: false, reversed: false }
    }

    /// Over all elements, the last dimension varying fastest; the result has one dimension.
    #[must_use]
    pub const fn all() -> Self {
        Self { dimension: None, exclusive: false, reversed: false }
    }

    /// Excludes the element itself: the first result is the sum or product of nothing.
    #[must_use]
    pub const fn exclusive(self) -> Self {
        Self { exclusive: true, ..self }
    }

    /// Runs from the last element to the first.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self { reversed: true, ..self }
    }
}

impl<D: Into<Dimension>> From<D> for Running {
    fn from(dimension: D) -> Self {
        Self::along(dimension)
    }
}

/// The running sums along a dimension: each result sums all elements up to its place. The result has the tensor's
/// shape; [`Running`] has other variants. 8-bit integers are summed to i32.
///
/// Sums of floats may be reassociated under [`Order::Device`](crate::te::auto::Order::Device), the default:
/// [`scan_all`](crate::te::auto::scan_all) says when.
///
/// # Errors
/// [`ExpressionError::NoSuchAxis`](crate::te::ExpressionError::NoSuchAxis);
/// [`ExpressionError::Extent`](crate::te::ExpressionError::Extent) if there are more elements in a row than an i32 can
/// count.
pub fn cumsum(a: &Tensor, running: impl Into<Running>) -> Result<Tensor, TeError> {
    run(a, running.into(), "cumsum", 0.0, |state, x| state + x)
}

/// The running products along a dimension: each result multiplies all elements up to its place. The result has the
/// tensor's shape; [`Running`] has other variants. 8-bit integers are multiplied to i32.
///
/// # Errors
/// The errors of [`cumsum`].
pub fn cumprod(a: &Tensor, running: impl Into<Running>) -> Result<Tensor, TeError> {
    run(a, running.into(), "cumprod", 1.0, |state, x| state * x)
}

/// The logarithms of running sums of exponentials along a dimension, without overflow. The result has the tensor's shape;
/// [`Running`] has other variants. An exclusive one starts with −∞. Columns run in parallel; the steps of a column don't.
///
/// # Errors
/// The errors of [`cumsum`]; [`ExpressionError::OperandType`](crate::te::ExpressionError::OperandType) for integers.
pub fn log_cumsum_exp(a: &Tensor, running: impl Into<Running>) -> Result<Tensor, TeError> {
    require_float(a, "log_cumsum_exp")?;
    run(a, running.into(), "log_cumsum_exp", f64::NEG_INFINITY, |state, x| {
        let (high, low) = (state.max(&x), state.min(&x));
        let number = |value: f64| Expr::constant(value, high.dtype());
        let below = Expr::apply(Op::Exp, vec![&low - &high]);
        // The difference of two equal infinities would be NaN.
        let more = high.equal(&low).select(number(LN_2), Expr::apply(Op::Log1p, vec![below]));
        high + more
    })
}

/// The running maxima along a dimension: each result is the largest of the elements up to its place, and NaN from the
/// first NaN on. The result has the tensor's shape; [`Running`] has other variants. An exclusive one starts with the least
/// value of the type, −∞ of floats. 8-bit integers give i32.
///
/// # Errors
/// The errors of [`cumsum`].
pub fn cummax(a: &Tensor, running: impl Into<Running>) -> Result<Tensor, TeError> {
    run(a, running.into(), "cummax", wide(a.dtype()).least(), |state, x| state.max(x))
}

/// The running minima along a dimension, as [`cummax`] gives maxima; an exclusive one starts with the greatest value.
///
/// # Errors
/// The errors of [`cumsum`].
pub fn cummin(a: &Tensor, running: impl Into<Running>) -> Result<Tensor, TeError> {
    run(a, running.into(), "cummin", wide(a.dtype()).greatest(), |state, x| state.min(x))
}

/// [`cummax`], and the index in i32 of each maximum along the dimension. Among equal values the last one met counts, and
/// among NaN, too, as in PyTorch. An exclusive one starts with −1. Over all elements, they are counted row by row.
///
/// ```
/// use epilogue::{Device, te};
///
/// let x = te::placeholder([5], "x");
/// let [values, indices] = te::ops::cummax_with_indices(&x, 0)?;
/// let device = Device::cpu();
/// let given = device.tensor(&[1f32, 3.0, 2.0, 3.0, 0.0], [5])?;
/// let (mut largest, mut places) = (device.zeros::<f32>([5])?, device.zeros::<i32>([5])?);
/// let kernel = te::auto::build(&[&values, &indices])?.build(&device)?;
/// kernel.run_bound(&[(&x, (&given).into()), (&values, (&mut largest).into()), (&indices, (&mut places).into())])?;
/// assert_eq!(largest.to_vec::<f32>()?, [1.0, 3.0, 3.0, 3.0, 3.0]);
/// assert_eq!(places.to_vec::<i32>()?, [0, 1, 1, 3, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The errors of [`cumsum`].
pub fn cummax_with_indices(a: &Tensor, running: impl Into<Running>) -> Result<[Tensor; 2], TeError> {
    with_indices(a, running.into(), cummax)
}

/// [`cummin`] with indices, as [`cummax_with_indices`] gives them.
///
/// # Errors
/// The errors of [`cumsum`].
pub fn cummin_with_indices(a: &Tensor, running: impl Into<Running>) -> Result<[Tensor; 2], TeError> {
    with_indices(a, running.into(), cummin)
}

/// Running extremes with their indices. An element that equals the extreme up to it, itself included, is the last one
/// met; so the indices are the running maximum of these steps.
fn with_indices(
    a: &Tensor,
    running: Running,
    extremes: impl Fn(&Tensor, Running) -> Result<Tensor, TeError>,
) -> Result<[Tensor; 2], TeError> {
    let Some(dimension) = running.dimension else {
        let (flat, all) = (flattened(a, "elements")?, Running { dimension: Some(0.into()), ..running });
        return with_indices(&flat, all, extremes);
    };
    let dimension = dimension.among(a.rank(), "data", || a.name())?;
    let (shape, dtype) = (a.shape(), wide(a.dtype()));
    let turned = |index: &Expr| if running.reversed { &shape[dimension] - 1 - index } else { index.clone() };
    let so_far = extremes(a, Running { exclusive: false, ..running })?;
    let steps = super::map(shape.clone(), "steps", |at| {
        let x = a.at(at).cast(dtype);
        let is_extreme = x.equal(so_far.at(at).cast(dtype)).or(x.not_equal(&x));
        is_extreme.select(turned(&at[dimension]), -1)
    })?;
    let last = cummax(&steps, running)?;
    let indices = super::map(shape.clone(), "indices", |at| {
        // Before the first element there is none.
        let step = last.at(at).max(-1);
        if running.reversed { step.less(0).select(-1, turned(&step)) } else { step }
    })?;
    let values = if running.exclusive { extremes(a, running)? } else { so_far };
    Ok([values, indices])
}

fn run(
    a: &Tensor,
    running: Running,
    name: &str,
    neutral: f64,
    step: impl FnOnce(Expr, Expr) -> Expr,
) -> Result<Tensor, TeError> {
    let shape = a.shape();
    let Some(dimension) = running.dimension else {
        let flat = flattened(a, name)?;
        return run(&flat, Running { dimension: Some(0.into()), ..running }, name, neutral, step);
    };
    let dimension = dimension.among(shape.len(), "data", || a.name())?;
    let mut in_front = shape.clone();
    let steps = in_front.remove(dimension);
    in_front.insert(0, steps.clone());
    let dtype = wide(a.dtype());
    let turned = |time: Expr| if running.reversed { &steps - 1 - time } else { time };
    let element = |at: &[Expr], back: i32| {
        let mut at = at.to_vec();
        let time = at.remove(0);
        at.insert(dimension, turned(if back == 0 { time } else { time - back }));
        a.at(at).cast(dtype)
    };
    let (first, back) = (|at: &[Expr]| element(at, 0), i32::from(running.exclusive));
    let states = if running.exclusive {
        let nothing = |_: &[Expr]| Expr::constant(neutral, dtype);
        recurrence(&in_front, dtype, name, nothing, |state, at| step(state, element(at, back)))?
    } else {
        recurrence(&in_front, dtype, name, first, |state, at| step(state, element(at, back)))?
    };
    if dimension == 0 && !running.reversed {
        return narrowed(&states, a.dtype(), name);
    }
    let result = if dtype.is_float() { a.dtype() } else { dtype };
    super::map(shape, name, |at| {
        let mut at = at.to_vec();
        let time = at.remove(dimension);
        at.insert(0, turned(time));
        states.at(at).cast(result)
    })
}

/// All elements in one dimension, row by row.
fn flattened(a: &Tensor, name: &str) -> Result<Tensor, TeError> {
    let shape = a.shape();
    let all = shape.iter().cloned().reduce(|n, extent| n * extent).unwrap_or_else(|| Expr::int(1));
    super::map(vec![simplify(&all)], &format!("{name}.flat"), |at| {
        let mut rest = at[0].clone();
        let mut indices = Vec::with_capacity(shape.len());
        for extent in shape.iter().skip(1).rev() {
            indices.push(rest.floor_mod(extent));
            rest = rest.floor_div(extent);
        }
        if !shape.is_empty() {
            indices.push(rest);
        }
        indices.reverse();
        a.at(indices)
    })
}

/// `y[t] = a[t]·y[t-1] + x[t]`, starting with `y[0] = x[0]`. `a` and `x` have the same shape; time is the first
/// dimension.
///
/// # Errors
/// [`ExpressionError::Shape`](crate::te::ExpressionError::Shape) if the shapes differ.
pub fn linear_recurrence(a: &Tensor, x: &Tensor) -> Result<Tensor, TeError> {
    if x.rank() == 0 {
        return Err(misshapen("linear_recurrence", ("the input", x), "[time, …]".to_owned()));
    }
    require_shape("linear_recurrence", ("the coefficients", a), &x.shape(), "as the input")?;
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
/// `h[t] = exp(delta[t]·a)·h[t-1] + delta[t]·b[t]·x[t]`, starting with `h[-1] = 0`.
///
/// `x` and `delta` are `[time, batch, channel]`, `a` is `[channel, state]`, `b` is `[time, batch, state]`.
///
/// # Errors
/// [`ExpressionError::Shape`](crate::te::ExpressionError::Shape) for tensors of other shapes;
/// [`ExpressionError::OperandType`](crate::te::ExpressionError::OperandType) for integers.
pub fn selective_scan(x: &Tensor, delta: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor, TeError> {
    const NAME: &str = "selective_scan";
    let dtype = wide(x.dtype());
    require_rank(NAME, ("the input", x), 3, "[time, batch, channel]")?;
    require_rank(NAME, ("a", a), 2, "[channel, state]")?;
    let mut shape = x.shape();
    let [time, batch, channel, state] = [&shape[0], &shape[1], &shape[2], &a.shape()[1]].map(Expr::clone);
    require_shape(NAME, ("delta", delta), &shape, "as the input")?;
    require_shape(NAME, ("a", a), &[channel, state.clone()], "[channel, state]")?;
    require_shape(NAME, ("b", b), &[time, batch, state.clone()], "[time, batch, state]")?;
    shape.push(state);
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

/// The output of Mamba's selective scan, `[time, batch, channel]`, from the states of its [`selective_scan`]:
/// `y[t] = sum(c[t]·h[t])` over the state dimension, plus `skip·x[t]`. [`auto::scan`](crate::te::auto::scan) does it in
/// one launch that keeps the states in registers.
///
/// `c` is `[time, batch, state]`, `skip` is `[channel]`.
///
/// # Errors
/// The errors of [`selective_scan`].
pub fn selective_scan_output(
    x: &Tensor,
    delta: &Tensor,
    a: &Tensor,
    b: &Tensor,
    c: &Tensor,
    skip: Option<&Tensor>,
) -> Result<Tensor, TeError> {
    const NAME: &str = "selective_scan_output";
    let dtype = wide(x.dtype());
    let states = selective_scan(x, delta, a, b)?;
    require_shape(NAME, ("c", c), &b.shape(), "[time, batch, state]")?;
    if let Some(skip) = skip {
        require_shape(NAME, ("skip", skip), &x.shape()[2..], "[channel]")?;
    }
    let n = reduce_axis((0, a.shape()[1].clone()), "n");
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

/// A scan of one state. `first` gives its first step.
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

/// The states converted to a type; themselves if they already have it.
fn narrowed(states: &Tensor, dtype: DType, name: &str) -> Result<Tensor, TeError> {
    if states.dtype() == dtype || !dtype.is_float() {
        return Ok(states.clone());
    }
    super::map(states.shape(), name, |at| states.at(at).cast(dtype))
}
