//! Normalisations: each element is computed from itself and from reductions of its row.
//! [`auto::reduce`](crate::te::auto::reduce) does each of them in one launch, which reads a row from memory once.

use super::reductions::{Spread, exponentials, spread};
use super::{Dimensions, Over, map, misshapen, or_by_passes, require_float, require_shape, wide};
use crate::expr::Op;
use crate::te::error::TeError;
use crate::te::expr::define::reducer::{max_reducer, sum_reducer};
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;

/// `exp(x) / sum(exp(x))` over one or several dimensions, without overflow. If the largest value of a row is infinite or NaN, its
/// results are NaN, as in PyTorch.
///
/// # Errors
/// [`ExpressionError::NoSuchAxis`](crate::te::ExpressionError::NoSuchAxis);
/// [`ExpressionError::RepeatedAxis`](crate::te::ExpressionError::RepeatedAxis);
/// [`ExpressionError::OperandType`](crate::te::ExpressionError::OperandType) for integers.
pub fn softmax(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Tensor, TeError> {
    require_float(a, "softmax")?;
    let over = Over::new(a, dimensions)?;
    let ([largest, sum], wide) = (sums_of_exponentials(a, &over)?, wide(a.dtype()));
    of_all(a, &over, "softmax", |at, row| {
        let x = Expr::apply(Op::Exp, vec![a.at(at).cast(wide) - largest.at(row)]);
        (x * (Expr::constant(1.0, wide) / sum.at(row))).cast(a.dtype())
    })
}

/// The logarithm of [`softmax`].
///
/// # Errors
/// The errors of [`softmax`].
pub fn log_softmax(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Tensor, TeError> {
    require_float(a, "log_softmax")?;
    let over = Over::new(a, dimensions)?;
    let ([largest, sum], wide) = (sums_of_exponentials(a, &over)?, wide(a.dtype()));
    of_all(a, &over, "log_softmax", |at, row| {
        let x = a.at(at).cast(wide) - largest.at(row);
        (x - Expr::apply(Op::Log, vec![sum.at(row)])).cast(a.dtype())
    })
}

/// The cross entropy of each row of logits, `[…, classes]`, with the class in `targets`: minus its [`log_softmax`]. The
/// result has the shape of `targets`; [`mean`](super::mean()) gives the mean over a batch. A target that is no class
/// fails the run ([`DataError`](crate::DataError)).
///
/// ```
/// use epilogue::{Device, ElementType, te};
///
/// let (batch, classes) = (te::var("batch"), te::var("classes"));
/// let logits = te::placeholder([batch, classes], "logits");
/// let targets = te::placeholder_of(ElementType::I32, [batch], "targets");
/// let losses = te::ops::cross_entropy(&logits, &targets)?;
///
/// let device = Device::cpu();
/// let (x, classes) = (device.tensor(&[5f32, 5.0, 0.0, 0.0], [2, 2])?, device.tensor(&[0i32, 1], [2])?);
/// let mut y = device.zeros::<f32>([2])?;
/// let kernel = te::auto::build(&[&losses])?.build(&device)?;
/// kernel.run_bound(&[(&logits, (&x).into()), (&targets, (&classes).into()), (&losses, (&mut y).into())])?;
/// assert!(y.to_vec::<f32>()?.iter().all(|loss| (loss - 2f32.ln()).abs() < 1e-6));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ExpressionError::OperandType`](crate::te::ExpressionError::OperandType) for integers as logits;
/// [`ExpressionError::IndexType`](crate::te::ExpressionError::IndexType) for targets that are none;
/// [`ExpressionError::Shape`](crate::te::ExpressionError::Shape) for targets of other extents.
pub fn cross_entropy(logits: &Tensor, targets: &Tensor) -> Result<Tensor, TeError> {
    require_float(logits, "cross_entropy")?;
    let shape = logits.shape();
    let Some((_, rows)) = shape.split_last() else {
        return Err(misshapen("cross_entropy", ("the logits", logits), "[…, classes]".to_owned()));
    };
    require_shape("cross_entropy", ("the targets", targets), rows, "as the logits without their last dimension")?;
    let over = Over::new(logits, [rows.len()])?;
    let ([largest, sum], wide) = (sums_of_exponentials(logits, &over)?, wide(logits.dtype()));
    map(targets.shape(), "cross_entropy", |row| {
        let target = [row, &[targets.at(row)]].concat();
        let x = logits.at(target).cast(wide) - largest.at(row);
        (Expr::apply(Op::Log, vec![sum.at(row)]) - x).cast(logits.dtype())
    })
}

/// The largest value, and the sum of `exp(x - largest)`.
///
/// Rows whose elements are neighbours are read in two passes, and stay in registers between them. This costs less than
/// rescaling sums whenever a larger value is found. Others are read in two if a device does that better.
fn sums_of_exponentials(a: &Tensor, over: &Over) -> Result<[Tensor; 2], TeError> {
    let wide = wide(a.dtype());
    let largest =
        over.reduce("largest", |at, axes| vec![max_reducer().over(a.at(at).cast(wide), axes)])?.swap_remove(0);
    let sum = over.reduce("exponentials", |at, axes| {
        let x = a.at(at).cast(wide) - largest.at(over.row(at));
        vec![sum_reducer().over(Expr::apply(Op::Exp, vec![x]), axes)]
    })?;
    let passes = [largest, sum[0].clone()];
    if over.is_last() {
        return Ok(passes);
    }
    let pair = or_by_passes(&exponentials(a, over)?, passes.to_vec());
    // An infinite largest value leaves no sum, as with two passes.
    let sum = map(pair[1].shape(), "sum", |row| pair[1].at(row) + (pair[0].at(row) - pair[0].at(row)))?;
    Ok([pair[0].clone(), sum])
}

/// `(x - mean) / sqrt(var + epsilon)` over some dimensions, times `weight` plus `bias`. These have the extents of those
/// dimensions.
///
/// A row with an infinity or NaN gives NaN, as in PyTorch. A row whose variance overflows the type of the computation
/// gives 0.
///
/// # Errors
/// The errors of [`softmax`]; [`ExpressionError::Shape`](crate::te::ExpressionError::Shape) for a weight or bias that
/// doesn't fit.
pub fn layer_norm(
    a: &Tensor,
    dimensions: impl Into<Dimensions>,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    epsilon: f64,
) -> Result<Tensor, TeError> {
    require_float(a, "layer_norm")?;
    let over = Over::new(a, dimensions)?;
    require_affine("layer_norm", a, &over, weight, bias)?;
    let wide = wide(a.dtype());
    let Spread { half, var } = spread(a, &over, wide)?;
    of_all(a, &over, "layer_norm", |at, row| {
        let number = |x| Expr::constant(x, wide);
        let scale = number(2.0) * Expr::apply(Op::Rsqrt, vec![var.at(row).cast(wide) + number(epsilon)]);
        let scaled = (a.at(at).cast(wide) * number(0.5) - half.at(row).cast(wide)) * scale;
        affine(scaled, &over, at, weight, bias).cast(a.dtype())
    })
}

/// # Errors
/// [`ExpressionError::Shape`](crate::te::ExpressionError::Shape) unless weight and bias have the extents of the
/// normalised dimensions.
fn require_affine(
    operation: &'static str,
    a: &Tensor,
    over: &Over,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
) -> Result<(), TeError> {
    let shape = a.shape();
    let own: Vec<Expr> = over.dimensions.iter().map(|d| shape[*d].clone()).collect();
    let why = format!("as the dimensions of {} that are normalised", a.name());
    let given = [("the weight", weight), ("the bias", bias)];
    given
        .into_iter()
        .filter_map(|(role, tensor)| Some((role, tensor?)))
        .try_for_each(|given| require_shape(operation, given, &own, &why))
}

/// `x / sqrt(mean(x²) + epsilon)` over some dimensions, times `weight`, which has the extents of those dimensions.
///
/// # Errors
/// The errors of [`layer_norm`].
pub fn rms_norm(
    a: &Tensor,
    dimensions: impl Into<Dimensions>,
    weight: Option<&Tensor>,
    epsilon: f64,
) -> Result<Tensor, TeError> {
    require_float(a, "rms_norm")?;
    let over = Over::new(a, dimensions)?;
    require_affine("rms_norm", a, &over, weight, None)?;
    let wide = wide(a.dtype());
    let total = over.reduce("squares", |at, axes| {
        let x = a.at(at).cast(wide);
        vec![sum_reducer().over(&x * &x, axes)]
    })?;
    of_all(a, &over, "rms_norm", |at, row| {
        let mean = total[0].at(row) / over.count(a, wide) + Expr::constant(epsilon, wide);
        let scaled = a.at(at).cast(wide) * Expr::apply(Op::Rsqrt, vec![mean]);
        affine(scaled, &over, at, weight, None).cast(a.dtype())
    })
}

/// A tensor with the shape of `a`. `body` gets the indices of an element and of its row.
fn of_all(a: &Tensor, over: &Over, name: &str, body: impl FnOnce(&[Expr], &[Expr]) -> Expr) -> Result<Tensor, TeError> {
    let mut made = crate::te::expr::define::compute::compute_over(a.shape(), name, |axes| {
        let at: Vec<Expr> = axes.iter().map(|axis| Expr::from(*axis)).collect();
        vec![body(&at, &over.row(&at))]
    })?;
    Ok(made.swap_remove(0))
}

fn affine(x: Expr, over: &Over, at: &[Expr], weight: Option<&Tensor>, bias: Option<&Tensor>) -> Expr {
    let own: Vec<Expr> = over.dimensions.iter().map(|d| at[*d].clone()).collect();
    let dtype = x.dtype();
    let scaled = match weight {
        Some(weight) => x * weight.at(own.as_slice()).cast(dtype),
        None => x,
    };
    match bias {
        Some(bias) => scaled + bias.at(own.as_slice()).cast(dtype),
        None => scaled,
    }
}
