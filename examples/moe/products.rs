//! The epilogues of the block's products.

use epilogue::prelude::*;

/// The router: for each token, the probability of every expert.
#[epilogue]
pub(crate) fn router(accum: Accum) -> Tensor<f32> {
    let e = exp(accum - reduction_op(accum, Row, Max));
    let probabilities = e / reduction_op(e, Row, Add);
    probabilities
}

/// The first layer of the experts: two products of the same rows. Both accumulators are kept for the backward pass, whose
/// epilogue is derived: its accumulator is the gradient of `h`, its results are `d_gate` and `d_up`.
#[epilogue(backward(through = h, saved(g, u)))]
pub(crate) fn swiglu(gate: Accum, up: Accum) -> (Tensor, Tensor, Tensor) {
    let g = gate;
    let u = up;
    let h = silu(g) * u;
    (h, g, u)
}

/// The second layer of the experts, each row times what the router gave its expert.
#[epilogue]
pub(crate) fn down(accum: Accum, weight: ColumnVector<f32>) -> Tensor {
    let y = accum * weight;
    y
}

/// The gradient of rows.
#[epilogue]
pub(crate) fn row_gradient(accum: Accum) -> Tensor {
    let d_rows = accum;
    d_rows
}

/// The gradient of weights.
#[epilogue]
pub(crate) fn weight_gradient(accum: Accum) -> Tensor<f32> {
    let d_weights = accum;
    d_weights
}

/// The gradient of the tokens: what comes through the router, added to what comes through the experts.
#[epilogue]
pub(crate) fn token_gradient(accum: Accum, experts: Tensor) -> Tensor {
    let d_x = accum + experts;
    d_x
}
