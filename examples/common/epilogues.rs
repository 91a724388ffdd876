//! Named epilogues, as engines use them.

use epilogue::prelude::*;

/// D = A·B.
#[epilogue]
pub fn plain(accum: Accum) -> Tensor {
    let d = accum;
    d
}

/// D = alpha * A·B + beta * C: BLAS's own.
#[epilogue]
pub fn linear_combination(accum: Accum, c: Tensor, alpha: Scalar, beta: Scalar) -> Tensor {
    let d = alpha * accum + beta * c;
    d
}

/// A linear layer's bias.
#[epilogue]
pub fn bias(accum: Accum, bias: RowVector) -> Tensor {
    let d = accum + bias;
    d
}

/// The first half of a transformer's feed-forward block.
#[epilogue]
pub fn bias_gelu(accum: Accum, bias: RowVector) -> Tensor {
    let d = gelu(accum + bias);
    d
}

/// A whole residual branch.
#[epilogue]
pub fn bias_gelu_residual(accum: Accum, bias: RowVector, residual: Tensor) -> Tensor {
    let d = gelu(accum + bias) + residual;
    d
}

/// The second half of a feed-forward block, with what LayerNorm needs of every row.
#[epilogue]
pub fn bias_residual_statistics(
    accum: Accum,
    bias: RowVector,
    residual: Tensor,
) -> (Tensor, ColumnVector, ColumnVector) {
    let d = accum + bias + residual;
    let sums = reduction_op(d, Row, Add);
    let sums_of_squares = reduction_op(d, Row, SumSquares);
    (d, sums, sums_of_squares)
}

/// The gradient through GELU, and the bias' gradient: `z` is what GELU was applied to.
#[epilogue]
pub fn gelu_backward(accum: Accum, z: Tensor) -> (Tensor, RowVector) {
    let d = accum * gelu_grad(z);
    let bias_gradient = reduction_op(d, Column, Add);
    (d, bias_gradient)
}

/// Scaled output and its largest magnitude, for the next fp8 scale.
#[epilogue]
pub fn amax(accum: Accum, scale: DeviceScalar) -> (Tensor, DeviceScalar) {
    let d = scale * accum;
    let amax = reduction_op(d, All, AbsMax);
    (d, amax)
}

/// The document's example: tanh on the residual, and the sum of every row.
#[epilogue]
pub fn row_reduction(accum: Accum, c: Tensor, alpha: Scalar, beta: Scalar) -> (Tensor, ColumnVector) {
    let d = alpha * accum + tanh(beta * c);
    let reduction = reduction_op(d, Row, Add);
    (d, reduction)
}
