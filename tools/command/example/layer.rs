use epilogue::prelude::*;

/// A layer of a network: gelu(scale * A·B + bias) + residual, and the sum of every row.
#[epilogue]
fn layer(
    accum: Accum,
    bias: RowVector<f32>,
    residual: Tensor,
    scale: Scalar,
) -> (Tensor, ColumnVector) {
    let d = gelu(scale * accum + bias) + residual;
    let sums = reduction_op(d, Row, Add);
    (d, sums)
}
