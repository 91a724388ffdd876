//! Reductions to fewer dimensions.

use super::{Over, map, require_float, wide};
use crate::expr::Op;
use crate::te::dtype::DType;
use crate::te::error::TeError;
use crate::te::expr::{Binary, Expr};
use crate::te::reduce::{Reducer, max_reducer, min_reducer, prod as product, sum_reducer, tuple_reducer};
use crate::te::tensor::Tensor;

/// The sum over some dimensions; over none of them, or nothing, 0.
///
/// # Errors
/// [`TeError::NoSuchAxis`], [`TeError::RepeatedAxis`].
pub fn sum(a: &Tensor, dimensions: &[usize]) -> Result<Tensor, TeError> {
    simple(a, dimensions, "sum", |x, axes| sum_reducer().over(x, axes))
}

/// The product over some dimensions.
///
/// # Errors
/// As [`sum`].
pub fn prod(a: &Tensor, dimensions: &[usize]) -> Result<Tensor, TeError> {
    simple(a, dimensions, "prod", |x, axes| product(x, axes))
}

/// The largest value over some dimensions; NaN if any is NaN.
///
/// # Errors
/// As [`sum`].
pub fn max(a: &Tensor, dimensions: &[usize]) -> Result<Tensor, TeError> {
    simple(a, dimensions, "max", |x, axes| max_reducer().over(x, axes))
}

/// The smallest value over some dimensions; NaN if any is NaN.
///
/// # Errors
/// As [`sum`].
pub fn min(a: &Tensor, dimensions: &[usize]) -> Result<Tensor, TeError> {
    simple(a, dimensions, "min", |x, axes| min_reducer().over(x, axes))
}

fn simple(
    a: &Tensor,
    dimensions: &[usize],
    name: &str,
    reduce: impl FnOnce(Expr, &[crate::te::axis::Axis]) -> Expr,
) -> Result<Tensor, TeError> {
    let over = Over::new(a, dimensions)?;
    let wide = wide(a.dtype());
    let mut total = over.reduce(name, |at, axes| vec![reduce(a.at(at).cast(wide), axes)])?;
    narrowed(total.swap_remove(0), a.dtype(), name)
}

/// The tensor in a type: itself, where it has it.
fn narrowed(total: Tensor, dtype: DType, name: &str) -> Result<Tensor, TeError> {
    if total.dtype() == dtype || !dtype.is_float() {
        return Ok(total);
    }
    map(total.shape(), name, |at| total.at(at).cast(dtype))
}

/// The mean over some dimensions; of nothing, NaN.
///
/// # Errors
/// As [`sum`], and [`TeError::OperandType`] for integers.
pub fn mean(a: &Tensor, dimensions: &[usize]) -> Result<Tensor, TeError> {
    require_float(a, "mean")?;
    let over = Over::new(a, dimensions)?;
    let wide = wide(a.dtype());
    let total = over.reduce("sum", |at, axes| vec![sum_reducer().over(a.at(at).cast(wide), axes)])?;
    map(total[0].shape(), "mean", |at| (total[0].at(at) / over.count(a, wide)).cast(a.dtype()))
}

/// The variance over some dimensions: the mean square distance from the mean, with `count - correction` in place of the
/// count. Rows of neighbours are passed twice, for the mean and then the distances from it; others once, by Chan's
/// combination of means and sums of squares (Chan, Golub and LeVeque 1979).
///
/// # Errors
/// As [`mean`].
pub fn var(a: &Tensor, dimensions: &[usize], correction: f64) -> Result<Tensor, TeError> {
    require_float(a, "var")?;
    let Spread { squares, count, .. } = spread(a, &Over::new(a, dimensions)?)?;
    let correction = Expr::constant(correction, wide(a.dtype()));
    map(squares.shape(), "var", |at| (squares.at(at) / (count.at(at) - correction)).cast(a.dtype()))
}

/// How elements lie around their mean.
pub(super) struct Spread {
    pub(super) mean: Tensor,
    /// The sum of the squared distances from the mean.
    pub(super) squares: Tensor,
    pub(super) count: Count,
}

/// How many elements become one.
pub(super) enum Count {
    /// The same for all results.
    Same(Expr),
    /// One for each.
    Of(Tensor),
}

impl Count {
    /// At the indices of a result.
    pub(super) fn at(&self, indices: &[Expr]) -> Expr {
        match self {
            Self::Same(count) => count.clone(),
            Self::Of(counts) => counts.at(indices),
        }
    }
}

/// Of rows of neighbours in two passes, between which they stay in registers or near caches; of others in one.
pub(super) fn spread(a: &Tensor, over: &Over) -> Result<Spread, TeError> {
    if !over.is_last() {
        let [counts, mean, squares] = moments(a, over)?;
        return Ok(Spread { mean, squares, count: Count::Of(counts) });
    }
    let wide = wide(a.dtype());
    let count = over.count(a, wide);
    let sum = over.reduce("sum", |at, axes| vec![sum_reducer().over(a.at(at).cast(wide), axes)])?;
    let mean = map(sum[0].shape(), "mean", |at| sum[0].at(at) / &count)?;
    let mut squares = over.reduce("squares", |at, axes| {
        let distance = a.at(at).cast(wide) - mean.at(over.row(at));
        vec![sum_reducer().over(&distance * &distance, axes)]
    })?;
    Ok(Spread { mean, squares: squares.swap_remove(0), count: Count::Same(count) })
}

/// Count, mean, and sum of the squared distances from the mean, in one pass.
fn moments(a: &Tensor, over: &Over) -> Result<[Tensor; 3], TeError> {
    let wide = wide(a.dtype());
    let one = || Expr::constant(1.0, wide);
    let made = over.reduce("moments", |at, axes| {
        chan().over_all(&[one(), a.at(at).cast(wide), Expr::constant(0.0, wide)], axes)
    })?;
    Ok([0, 1, 2].map(|value| made[value].clone()))
}

fn chan() -> Reducer {
    tuple_reducer(
        |x, y| {
            let zero = || Expr::constant(0.0, x[0].dtype());
            let count = &x[0] + &y[0];
            // How much the second mean weighs; nothing weighs nothing.
            let weight = y[0].clone().equal(zero()).select(zero(), &y[0] / &count);
            let distance = &y[1] - &x[1];
            let mean = &x[1] + &distance * &weight;
            let squares = &x[2] + &y[2] + &distance * &distance * (&x[0] * &weight);
            vec![count, mean, squares]
        },
        |types| types.iter().map(|dtype| Expr::constant(0.0, *dtype)).collect(),
        "moments",
    )
}

/// The square root of the sum of squares over some dimensions.
///
/// # Errors
/// As [`mean`].
pub fn norm(a: &Tensor, dimensions: &[usize]) -> Result<Tensor, TeError> {
    require_float(a, "norm")?;
    let over = Over::new(a, dimensions)?;
    let wide = wide(a.dtype());
    let total = over.reduce("squares", |at, axes| {
        let x = a.at(at).cast(wide);
        vec![sum_reducer().over(&x * &x, axes)]
    })?;
    map(total[0].shape(), "norm", |at| Expr::apply(Op::Sqrt, vec![total[0].at(at)]).cast(a.dtype()))
}

/// The logarithm of the sum of exponentials over some dimensions, without overflow; of nothing, −∞.
///
/// # Errors
/// As [`mean`].
pub fn logsumexp(a: &Tensor, dimensions: &[usize]) -> Result<Tensor, TeError> {
    require_float(a, "logsumexp")?;
    let over = Over::new(a, dimensions)?;
    if over.is_last() {
        return logsumexp_of_rows(a, &over);
    }
    let total = exponentials(a, &over)?;
    map(total[0].shape(), "logsumexp", |at| {
        (total[0].at(at) + Expr::apply(Op::Log, vec![total[1].at(at)])).cast(a.dtype())
    })
}

/// Two passes over rows of neighbours, which cost less than to scale sums whenever a larger value turns up.
fn logsumexp_of_rows(a: &Tensor, over: &Over) -> Result<Tensor, TeError> {
    let wide = wide(a.dtype());
    let largest = over.reduce("largest", |at, axes| vec![max_reducer().over(a.at(at).cast(wide), axes)])?;
    // An infinite one would leave NaN of the elements that are equal to it.
    let base = map(largest[0].shape(), "base", |at| {
        let largest = largest[0].at(at);
        let zero = Expr::constant(0.0, wide);
        let is_infinite = Expr::apply(Op::Abs, vec![largest.clone()]).equal(Expr::constant(f64::INFINITY, wide));
        is_infinite.select(zero, largest)
    })?;
    let sum = over.reduce("exponentials", |at, axes| {
        let x = a.at(at).cast(wide) - base.at(over.row(at));
        vec![sum_reducer().over(Expr::apply(Op::Exp, vec![x]), axes)]
    })?;
    map(sum[0].shape(), "logsumexp", |at| (base.at(at) + Expr::apply(Op::Log, vec![sum[0].at(at)])).cast(a.dtype()))
}

/// The largest value, and the sum of `exp(x - largest)`.
pub(super) fn exponentials(a: &Tensor, over: &Over) -> Result<Vec<Tensor>, TeError> {
    let wide = wide(a.dtype());
    over.reduce("exponentials", |at, axes| {
        let reducer = tuple_reducer(
            |x, y| {
                let one = || Expr::constant(1.0, x[0].dtype());
                let largest = Expr::binary(Binary::Max, x[0].clone(), y[0].clone());
                // Only the sum that belongs to the smaller of the two is scaled. Equal ones need no difference: that
                // of two infinities would be NaN.
                let left = x[0].clone().greater_equal(&y[0]);
                let apart = left.clone().select(&y[0] - &x[0], &x[0] - &y[0]);
                let scale = Expr::apply(Op::Exp, vec![apart]);
                let scale = x[0].clone().equal(&y[0]).select(one(), scale);
                let sum = left.select(&x[1] + &y[1] * &scale, &y[1] + &x[1] * &scale);
                vec![largest, sum]
            },
            |types| vec![Expr::constant(f64::NEG_INFINITY, types[0]), Expr::constant(0.0, types[1])],
            "sum of exponentials",
        );
        reducer.over_all(&[a.at(at).cast(wide), Expr::constant(1.0, wide)], axes)
    })
}

/// The index, in i32, of the largest value along a dimension: the lowest of equal ones, and the first NaN, which is
/// larger than anything. Of nothing, −1.
///
/// # Errors
/// [`TeError::NoSuchAxis`].
pub fn argmax(a: &Tensor, dimension: usize) -> Result<Tensor, TeError> {
    arg(a, dimension, "argmax", |a, b| a.greater(b), DType::least)
}

/// The index, in i32, of the smallest value along a dimension: the lowest of equal ones, and the first NaN, which is
/// smaller than anything. Of nothing, −1.
///
/// # Errors
/// [`TeError::NoSuchAxis`].
pub fn argmin(a: &Tensor, dimension: usize) -> Result<Tensor, TeError> {
    arg(a, dimension, "argmin", |a, b| a.less(b), DType::greatest)
}

/// No index: larger than all, so that every value wins over it, however bad.
const NONE: i64 = i32::MAX as i64;

fn arg(
    a: &Tensor,
    dimension: usize,
    name: &str,
    better: impl Fn(Expr, Expr) -> Expr + Copy + Send + Sync + 'static,
    worst: fn(DType) -> f64,
) -> Result<Tensor, TeError> {
    let over = Over::new(a, &[dimension])?;
    let reducer = tuple_reducer(
        move |x, y| {
            let (i, j, u, v) = (&x[0], &y[0], x[1].clone(), y[1].clone());
            let first = i.clone().less(j);
            let left = if u.dtype().is_float() {
                let (nan, other) = (u.clone().not_equal(&u), v.clone().not_equal(&v));
                let same = u.clone().equal(&v).or(nan.clone().and(other.clone()));
                let ahead = better(u, v).or(nan.and(!other));
                ahead.or(same.and(first))
            } else {
                better(u.clone(), v.clone()).or(u.equal(v).and(first))
            };
            vec![left.clone().select(i, j), left.select(&x[1], &y[1])]
        },
        move |types| vec![Expr::int(NONE), Expr::constant(worst(types[1]), types[1])],
        name,
    );
    let wide = wide(a.dtype());
    let pair = over.reduce("best", |at, axes| reducer.over_all(&[Expr::from(axes[0]), a.at(at).cast(wide)], axes))?;
    map(pair[0].shape(), name, |at| pair[0].at(at).equal(NONE).select(-1, pair[0].at(at)))
}
