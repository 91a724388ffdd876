//! Reductions of a tensor over some of its dimensions.

use super::{Dimensions, Over, map, or_by_passes, require_float, wide};
use crate::ElementType;
use crate::expr::Op;
use crate::te::dtype::DType;
use crate::te::error::{ExpressionError, TeError};
use crate::te::expr::axis::Axis;
use crate::te::expr::define::reducer::{
    Reducer, extreme, max_reducer, min_reducer, prod as product, sum_reducer, truth, tuple_reducer,
};
use crate::te::expr::expression::{Binary, Expr};
use crate::te::expr::tensor::Tensor;

/// The sum over some dimensions; 0 over no elements. The sum of integers of 8 and 16 bits is an i32; [`sum_as`] adds in
/// another type. Sums of integers wrap.
///
/// # Errors
/// [`ExpressionError::NoSuchAxis`](crate::te::ExpressionError::NoSuchAxis),
/// [`ExpressionError::RepeatedAxis`](crate::te::ExpressionError::RepeatedAxis).
pub fn sum(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Tensor, TeError> {
    simple(a, dimensions, "sum", |x, axes| sum_reducer().over(x, axes))
}

/// The sum over some dimensions, added in another type: i32 in i64, f32 in f64. Elements are converted before they are
/// added, and a sum of integers wraps in that type. 0 over no elements.
///
/// ```
/// use epilogue::{Device, ElementType, te};
///
/// let x = te::placeholder_of(ElementType::I32, [3], "x");
/// let sum = te::ops::sum_as(&x, 0, ElementType::I64)?;
/// let device = Device::cpu();
/// let kernel = te::auto::build(&[&sum])?.build(&device)?;
/// let given = device.tensor(&[i32::MAX, i32::MAX, 2], [3])?;
/// let mut made = device.zeros::<i64>([])?;
/// kernel.run_bound(&[(&x, (&given).into()), (&sum, (&mut made).into())])?;
/// assert_eq!(made.to_vec::<i64>()?, [4_294_967_296]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The errors of [`sum`], and [`ExpressionError::OperandType`](crate::te::ExpressionError::OperandType) for `bool`.
pub fn sum_as(a: &Tensor, dimensions: impl Into<Dimensions>, dtype: impl Into<DType>) -> Result<Tensor, TeError> {
    let dtype = DType::of(dtype);
    if dtype == DType::Bool {
        return Err(ExpressionError::OperandType { operation: "sum_as".to_owned(), given: dtype }.into());
    }
    let (over, wide) = (Over::new(a, dimensions)?, wide(dtype));
    let mut total = over.reduce("sum", |at, axes| vec![sum_reducer().over(a.at(at).cast(dtype).cast(wide), axes)])?;
    let total = total.swap_remove(0);
    if wide == dtype { Ok(total) } else { map(total.shape(), "sum", |at| total.at(at).cast(dtype)) }
}

/// The product over some dimensions; 1 over no elements.
///
/// # Errors
/// The errors of [`sum`].
pub fn prod(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Tensor, TeError> {
    simple(a, dimensions, "prod", |x, axes| product(x, axes))
}

/// The largest value over some dimensions; NaN if any is NaN. Over no elements, the least value of the
/// result's type: −∞ of floats.
///
/// # Errors
/// The errors of [`sum`].
pub fn max(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Tensor, TeError> {
    simple(a, dimensions, "max", |x, axes| max_reducer().over(x, axes))
}

/// The smallest value over some dimensions; NaN if any is NaN. Over no elements, the greatest value of the
/// result's type: ∞ of floats.
///
/// # Errors
/// The errors of [`sum`].
pub fn min(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Tensor, TeError> {
    simple(a, dimensions, "min", |x, axes| min_reducer().over(x, axes))
}

fn simple(
    a: &Tensor,
    dimensions: impl Into<Dimensions>,
    name: &str,
    reduce: impl FnOnce(Expr, &[Axis]) -> Expr,
) -> Result<Tensor, TeError> {
    let over = Over::new(a, dimensions)?;
    let wide = wide(a.dtype());
    let mut total = over.reduce(name, |at, axes| vec![reduce(a.at(at).cast(wide), axes)])?;
    narrowed(total.swap_remove(0), a.dtype(), name)
}

/// The tensor converted to a type; itself if it already has this type.
pub(super) fn narrowed(total: Tensor, dtype: DType, name: &str) -> Result<Tensor, TeError> {
    if total.dtype() == dtype || !dtype.is_float() {
        return Ok(total);
    }
    map(total.shape(), name, |at| total.at(at).cast(dtype))
}

/// The mean over some dimensions; NaN over no elements.
///
/// # Errors
/// The errors of [`sum`], and [`ExpressionError::OperandType`](crate::te::ExpressionError::OperandType) for integers.
pub fn mean(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Tensor, TeError> {
    require_float(a, "mean")?;
    let over = Over::new(a, dimensions)?;
    let wide = wide(a.dtype());
    let total = over.reduce("sum", |at, axes| vec![sum_reducer().over(a.at(at).cast(wide), axes)])?;
    map(total[0].shape(), "mean", |at| (total[0].at(at) / over.count(a, wide)).cast(a.dtype()))
}

/// The variance over some dimensions: the sum of squared distances from the mean, divided by `count - correction` (at
/// least 0). If the elements have the range of f32, sums are in f64. So the variance is infinite only if it exceeds the
/// type itself. With an infinity or NaN among the elements it is NaN, and over no elements, as the mean.
///
/// If the elements of a row are neighbours, it is read in two passes: for the mean, then for the distances from it.
/// Otherwise there is one pass: it combines means and sums of squares by Chan's method (Chan, Golub and LeVeque 1979).
/// The CPU, in the order of a device, has two passes.
///
/// # Errors
/// The errors of [`mean`].
pub fn var(a: &Tensor, dimensions: impl Into<Dimensions>, correction: f64) -> Result<Tensor, TeError> {
    corrected(a, &dimensions.into(), correction, "var", |var| var)
}

/// The standard deviation over some dimensions: the square root of [`var`]; NaN over no elements.
///
/// # Errors
/// The errors of [`mean`].
pub fn std(a: &Tensor, dimensions: impl Into<Dimensions>, correction: f64) -> Result<Tensor, TeError> {
    corrected(a, &dimensions.into(), correction, "std", |var| Expr::apply(Op::Sqrt, vec![var]))
}

fn corrected(
    a: &Tensor,
    dimensions: &Dimensions,
    correction: f64,
    name: &str,
    of: impl FnOnce(Expr) -> Expr,
) -> Result<Tensor, TeError> {
    require_float(a, name)?;
    let over = Over::new(a, dimensions.clone())?;
    let sums = far(a.dtype());
    let Spread { var, .. } = spread(a, &over, sums)?;
    let count = || over.count(a, sums);
    // 1, or NaN over no elements.
    let is_any = || count() / count();
    let weight = if correction == 0.0 {
        is_any()
    } else {
        let fewer = (count() - Expr::constant(correction, sums)).max(Expr::constant(0.0, sums));
        is_any() * (count() / fewer)
    };
    map(var.shape(), name, |at| of(var.at(at) * &weight).cast(a.dtype()))
}

/// The type in which the square of a difference of finite elements never overflows or underflows to 0, if there is one.
pub(super) fn far(dtype: DType) -> DType {
    match dtype {
        DType::Number(ElementType::F32 | ElementType::BF16) => ElementType::F64.into(),
        other => wide(other),
    }
}

/// The spread of elements around their mean.
pub(super) struct Spread {
    /// Half of the mean. Half of the difference of two finite numbers is always finite.
    pub(super) half: Tensor,
    /// The mean square distance from the mean.
    pub(super) var: Tensor,
}

/// Rows whose elements are neighbours are read in two passes with sums of type `sums`; between them they stay in
/// registers or near caches. Other rows are read in one pass, in the type that [`far`] gives, or in two if a device does
/// that better. Either is rounded to `sums`.
///
/// If the type of the sums has no larger range than the elements, each element is divided by their number before it is
/// added; so nothing overflows unless the result does. An infinity or NaN among them makes the variance NaN: the mean
/// is not finite, and its distance from that element is NaN.
pub(super) fn spread(a: &Tensor, over: &Over, sums: DType) -> Result<Spread, TeError> {
    let number = |x: f64| Expr::constant(x, sums);
    let half = if sums == far(a.dtype()) && sums != a.dtype() {
        // Exact until the division, usually; so equal elements have the distance 0 from their mean.
        let sum = over.reduce("sum", |at, axes| vec![sum_reducer().over(a.at(at).cast(sums), axes)])?;
        map(sum[0].shape(), "half_mean", |at| sum[0].at(at) / over.count(a, sums) * number(0.5))?
    } else {
        let share = number(0.5) / over.count(a, sums);
        let half = over.reduce("half_mean", |at, axes| vec![sum_reducer().over(a.at(at).cast(sums) * &share, axes)])?;
        half[0].clone()
    };
    let weight = number(2.0) * Expr::apply(Op::Rsqrt, vec![over.count(a, sums)]);
    let mut var = over.reduce("var", |at, axes| {
        let distance = (a.at(at).cast(sums) * number(0.5) - half.at(over.row(at))) * &weight;
        vec![sum_reducer().over(&distance * &distance, axes)]
    })?;
    let passes = Spread { half, var: var.swap_remove(0) };
    if over.is_last() {
        return Ok(passes);
    }
    let Spread { half, var } = moments(a, over, sums)?;
    let or = |made: Tensor, passes: Tensor| or_by_passes(&[made], vec![passes]).swap_remove(0);
    Ok(Spread { half: or(half, passes.half), var: or(var, passes.var) })
}

/// Count, mean, and sum of squared distances from the mean, in one pass.
fn moments(a: &Tensor, over: &Over, to: DType) -> Result<Spread, TeError> {
    let sums = far(a.dtype());
    let one = || Expr::constant(1.0, sums);
    let made = over.reduce("moments", |at, axes| {
        chan(sums == a.dtype()).over_all(&[one(), a.at(at).cast(sums), Expr::constant(0.0, sums)], axes)
    })?;
    let [counts, mean, squares] = [0, 1, 2].map(|value| made[value].clone());
    let half = map(mean.shape(), "half_mean", |at| (mean.at(at) * Expr::constant(0.5, sums)).cast(to))?;
    // Without a finite mean there is no variance.
    let var =
        map(squares.shape(), "var", |at| (squares.at(at) / counts.at(at) + (mean.at(at) - mean.at(at))).cast(to))?;
    Ok(Spread { half, var })
}

/// Combines counts, means and sums of squares. `apart` tells whether the difference of two finite means can overflow.
fn chan(apart: bool) -> Reducer {
    tuple_reducer(
        move |x, y| {
            let zero = || Expr::constant(0.0, x[0].dtype());
            let count = &x[0] + &y[0];
            let is_empty = || y[0].clone().equal(zero());
            // The weight of the second mean; the mean of no elements has weight 0 and no value.
            let weight = is_empty().select(zero(), &y[0] / &count);
            let distance = is_empty().select(zero(), &y[1] - &x[1]);
            let near = &x[1] + &distance * &weight;
            let mean = if apart {
                let infinite = Expr::constant(f64::INFINITY, x[0].dtype());
                let between = &x[1] * (Expr::constant(1.0, x[0].dtype()) - &weight) + &y[1] * &weight;
                Expr::apply(Op::Abs, vec![distance.clone()]).equal(infinite).select(between, near)
            } else {
                near
            };
            let squares = &x[2] + &y[2] + &distance * (&x[0] * &weight) * &distance;
            vec![count, mean, squares]
        },
        |types| types.iter().map(|dtype| Expr::constant(0.0, *dtype)).collect(),
        "moments",
    )
}

/// Whether all elements over some dimensions are not 0, as truth values; in memory these are a `u8` of 0 or 1. True
/// over no elements. NaN counts as not 0.
///
/// ```
/// use epilogue::Device;
/// use epilogue::te::{self, DType, ops};
///
/// let x = te::placeholder([2, 3], "x");
/// let all = ops::all(&x, 1)?;
/// assert_eq!(all.dtype(), DType::Bool);
/// let device = Device::cpu();
/// let (given, mut made) = (device.tensor(&[1.0f32, 2.0, 0.0, 3.0, 4.0, 5.0], [2, 3])?, device.zeros::<u8>([2])?);
/// te::auto::reduce(&all)?.build(&device)?.run(&[(&given).into(), (&mut made).into()])?;
/// assert_eq!(made.to_vec::<u8>()?, [0, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The errors of [`sum`].
pub fn all(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Tensor, TeError> {
    truths(a, dimensions, "all", |x, axes| min_reducer().over(x, axes), |least| least.greater(0))
}

/// Whether any element over some dimensions is not 0, as a truth value like that of [`all`]. False over no elements.
///
/// # Errors
/// The errors of [`sum`].
pub fn any(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Tensor, TeError> {
    truths(a, dimensions, "any", |x, axes| max_reducer().over(x, axes), |greatest| greatest.greater(0))
}

fn truths(
    a: &Tensor,
    dimensions: impl Into<Dimensions>,
    name: &str,
    reduce: impl FnOnce(Expr, &[Axis]) -> Expr,
    holds: impl FnOnce(Expr) -> Expr,
) -> Result<Tensor, TeError> {
    let over = Over::new(a, dimensions)?;
    let found = over.reduce("truths", |at, axes| {
        // As numbers, because kernels have fast paths for maxima and minima of numbers.
        vec![reduce(truth(a.at(at)).cast(DType::I32), axes)]
    })?;
    map(found[0].shape(), name, |at| holds(found[0].at(at)))
}

/// The square root of the sum of squares over some dimensions; 0 over no elements.
///
/// # Errors
/// The errors of [`mean`].
pub fn norm(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Tensor, TeError> {
    require_float(a, "norm")?;
    let over = Over::new(a, dimensions)?;
    let wide = wide(a.dtype());
    let total = over.reduce("squares", |at, axes| {
        let x = a.at(at).cast(wide);
        vec![sum_reducer().over(&x * &x, axes)]
    })?;
    map(total[0].shape(), "norm", |at| Expr::apply(Op::Sqrt, vec![total[0].at(at)]).cast(a.dtype()))
}

/// The logarithm of the sum of exponentials over some dimensions, without overflow; −∞ over no elements.
///
/// # Errors
/// The errors of [`mean`].
pub fn logsumexp(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Tensor, TeError> {
    require_float(a, "logsumexp")?;
    let over = Over::new(a, dimensions)?;
    let passes = logsumexp_by_passes(a, &over)?;
    if over.is_last() {
        return Ok(passes);
    }
    let total = exponentials(a, &over)?;
    let made = map(total[0].shape(), "logsumexp", |at| {
        (total[0].at(at) + Expr::apply(Op::Log, vec![total[1].at(at)])).cast(a.dtype())
    })?;
    Ok(or_by_passes(&[made], vec![passes]).swap_remove(0))
}

/// In two passes. If elements stay near, this costs less than rescaling sums whenever a larger value is found.
fn logsumexp_by_passes(a: &Tensor, over: &Over) -> Result<Tensor, TeError> {
    let wide = wide(a.dtype());
    let largest = over.reduce("largest", |at, axes| vec![max_reducer().over(a.at(at).cast(wide), axes)])?;
    // Subtracting an infinite one would give NaN for the elements equal to it.
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
                // Only the sum that belongs to the smaller value is rescaled. Equal values need no difference, which
                // would be NaN for two infinities.
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

/// The index, in i32, of the largest value over some dimensions. The lowest index wins among equal values. NaN counts
/// as the largest, and the first one wins. Over no elements, −1. Over several dimensions, elements are counted row by
/// row, the last dimension varying fastest.
///
/// # Errors
/// The errors of [`sum`]; [`ExpressionError::Shape`](crate::te::ExpressionError::Shape) if there are more elements than
/// an i32 can count.
pub fn argmax(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Tensor, TeError> {
    arg(a, dimensions, "argmax", true, DType::least)
}

/// The index, in i32, of the smallest value over some dimensions. The lowest index wins among equal values. NaN counts
/// as the smallest, and the first one wins. Over no elements, −1. Over several dimensions, elements are counted as in
/// [`argmax`].
///
/// # Errors
/// The errors of [`sum`]; [`ExpressionError::Shape`](crate::te::ExpressionError::Shape) if there are more elements than
/// an i32 can count.
pub fn argmin(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Tensor, TeError> {
    arg(a, dimensions, "argmin", false, DType::greatest)
}

/// Stands for no index. It is larger than every index, so any value wins over it.
const NONE: i64 = i32::MAX as i64;

fn arg(
    a: &Tensor,
    dimensions: impl Into<Dimensions>,
    name: &'static str,
    largest: bool,
    worst: fn(DType) -> f64,
) -> Result<Tensor, TeError> {
    let over = Over::new(a, dimensions)?;
    over.require_countable(a, name)?;
    let reducer = tuple_reducer(
        move |x, y| extreme(largest, x, y),
        move |types| vec![Expr::int(NONE), Expr::constant(worst(types[1]), types[1])],
        name,
    );
    let wide = wide(a.dtype());
    let pair = over.reduce("best", |at, axes| reducer.over_all(&[over.place(a), a.at(at).cast(wide)], axes))?;
    map(pair[0].shape(), name, |at| pair[0].at(at).equal(NONE).select(-1, pair[0].at(at)))
}
