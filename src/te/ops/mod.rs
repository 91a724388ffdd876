//! Ready-made operations. Each is a few lines of tensor expressions. Schedule them by hand or with
//! [`auto`](crate::te::auto).
//!
//! Small floating-point types are computed in f32 and rounded once, at the end. Integers of 8 and 16 bits are summed in 32
//! bits.
//! Maxima and minima propagate NaN, as in PyTorch.
//!
//! Infinities and NaN behave as in PyTorch. A sum or mean with infinities of one sign is that infinity; with both signs
//! it is NaN. If a row has an infinity, its variance is NaN, and so is every element that is normalised with it. The
//! mean of finite values is their sum, which may overflow to infinity, divided by their number. The variance of finite
//! values is infinite only if it exceeds the range of the type itself; an intermediate sum never makes it infinite.
//!
//! Dimensions are counted from either end, as in numpy: −1 is the last one ([`Dimension`](crate::te::Dimension)).
//!
//! There is no sort, and no top k of any k: a comparison of each element with each other one costs the square of their
//! number, and no kernel here does it in less. For the largest element and its index, use [`max`] and [`argmax`]. For the
//! few largest, repeat these, without what is found already. For more, sort with another library, and [`take_along`] its
//! indices. [`histogram()`] counts what lies between edges.
//!
//! Tensors whose shapes don't fit together are refused ([`ExpressionError::Shape`]): extents must be equal numbers, or
//! be made of the same size variables.

mod cells;
mod channels;
mod contraction;
mod convolution;
mod dimensions;
mod einsum;
mod histogram;
mod indexing;
mod normalise;
mod pooling;
mod products;
mod quantize;
mod reductions;
mod scans;

pub use cells::{gru_cell, lstm_cell};
pub use channels::{batch_norm, group_norm, instance_norm};
pub use convolution::{Convolution, conv1d, conv2d, conv3d};
pub use dimensions::Dimensions;
pub use einsum::einsum;
pub use histogram::{bincount, histogram};
pub use indexing::{Padding, gather, one_hot, pad, take_along};
pub use normalise::{cross_entropy, layer_norm, log_softmax, rms_norm, softmax};
pub use pooling::{Pooling, average_pool, max_pool};
pub use products::{linear, matmul};
pub use quantize::{dequantize, quantize};
pub use reductions::{all, any, argmax, argmin, logsumexp, max, mean, min, norm, prod, std, sum, sum_as, var};
pub use scans::{
    Running, cummax, cummax_with_indices, cummin, cummin_with_indices, cumprod, cumsum, linear_recurrence,
    log_cumsum_exp, selective_scan, selective_scan_output,
};

use std::sync::Arc;

use self::dimensions::Over;
use crate::ElementType;
use crate::te::arith::equal;
use crate::te::dtype::DType;
use crate::te::error::{ExpressionError, TeError};
use crate::te::expr::define::compute::compute_over;
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;
use crate::te::text::expression;

/// The type in which an operation on elements of this type is computed.
fn wide(dtype: DType) -> DType {
    match dtype {
        DType::Number(ElementType::F16 | ElementType::BF16 | ElementType::F8E4M3 | ElementType::F8E5M2) => DType::F32,
        DType::Number(ElementType::I16 | ElementType::I8 | ElementType::U16 | ElementType::U8) | DType::Bool => {
            DType::I32
        }
        other @ DType::Number(_) => other,
    }
}

/// A tensor computed element by element from others of its shape.
fn map(shape: Vec<Expr>, name: &str, body: impl FnOnce(&[Expr]) -> Expr) -> Result<Tensor, TeError> {
    let mut tensors = compute_over(shape, name, |axes| {
        let indices: Vec<Expr> = axes.iter().map(|axis| Expr::from(*axis)).collect();
        vec![body(&indices)]
    })?;
    Ok(tensors.swap_remove(0))
}

/// The tensors that an operation makes, or by passes: see
/// [`or_by_passes`](crate::te::expr::tensor::Operation::or_by_passes).
fn or_by_passes(made: &[Tensor], passes: Vec<Tensor>) -> Vec<Tensor> {
    let Some(operation) = made.first().map(|first| first.operation().or_by_passes(passes)) else { return Vec::new() };
    made.iter().map(|tensor| Tensor::new(Arc::clone(&operation), tensor.value())).collect()
}

/// # Errors
/// [`ExpressionError::OperandType`] unless the tensor holds floating-point numbers.
fn require_float(a: &Tensor, operation: &str) -> Result<(), TeError> {
    if a.dtype().is_float() {
        Ok(())
    } else {
        Err(ExpressionError::OperandType { operation: operation.to_owned(), given: a.dtype() }.into())
    }
}

/// Checks that a tensor provably has these extents.
///
/// # Errors
/// [`ExpressionError::Shape`].
fn require_shape(
    operation: &'static str,
    (role, tensor): (&str, &Tensor),
    needed: &[Expr],
    why: &str,
) -> Result<(), TeError> {
    let given = tensor.shape();
    if given.len() == needed.len() && given.iter().zip(needed).all(|(a, b)| equal(a, b)) {
        return Ok(());
    }
    let same_names = extents(needed) == extents(&given);
    let apart =
        if same_names { "; sizes that are made apart are different ones, whatever their names: use one" } else { "" };
    Err(misshapen(operation, (role, tensor), format!("{}, {why}{apart}", extents(needed))))
}

/// Checks a tensor's number of dimensions.
///
/// # Errors
/// [`ExpressionError::Shape`].
fn require_rank(operation: &'static str, given: (&str, &Tensor), rank: usize, meaning: &str) -> Result<(), TeError> {
    if given.1.rank() == rank { Ok(()) } else { Err(misshapen(operation, given, meaning.to_owned())) }
}

fn misshapen(operation: &'static str, (role, tensor): (&str, &Tensor), needed: String) -> TeError {
    let name = tensor.name();
    let tensor_name = if name == role { name } else { format!("{role} {name}") };
    ExpressionError::Shape { operation, tensor: tensor_name, given: extents(&tensor.shape()), needed }.into()
}

fn extents(shape: &[Expr]) -> String {
    let all: Vec<String> = shape.iter().map(expression).collect();
    format!("[{}]", all.join(", "))
}
