//! Everything that is computed: the epilogues of the products, and the one kernel that belongs to no product.

use epilogue::prelude::*;
use epilogue::te::{self, TeError, Tensor, auto};

/// Dropout of `x` by its random number `u`.
#[elementwise]
fn dropout(x: f32, u: f32, p: f32) -> f32 {
    if u < p { 0.0 } else { x / (1.0 - p) }
}

/// The first layer, from the features. Its backward pass draws the same mask again, so none is stored.
#[epilogue(backward(through = h, saved(z), gradients(bias)))]
pub(crate) fn expand(accum: Accum, bias: RowVector, p: Scalar, seed: Seed) -> (Tensor, Tensor) {
    let z = accum + bias;
    let h = dropout(gelu(z), random(seed), p);
    (h, z)
}

/// The second layer, added to the features and normalised.
#[epilogue(backward(through = y, saved(s), gradients(bias, weight, shift)))]
pub(crate) fn contract(
    accum: Accum,
    bias: RowVector,
    residual: Tensor,
    weight: RowVector,
    shift: RowVector,
    epsilon: Scalar,
) -> (Tensor, Tensor) {
    let s = accum + bias + residual;
    let centred = s - reduction_op(s, Row, Mean);
    let y = centred * rsqrt(reduction_op(s, Row, Variance) + epsilon) * weight + shift;
    (y, s)
}

/// The classes' scores, their cross-entropy, and its gradient: that of the loss' mean, which needs nothing from further
/// behind, so it is computed where the scores are. They are never stored.
#[epilogue]
pub(crate) fn classify(accum: Accum, bias: RowVector, labels: ColumnVector<i64>) -> (ColumnVector, Tensor, RowVector) {
    let logits = accum + bias;
    let is_label = column() == integer(labels);
    let log_sum_exp = reduction_op(logits, Row, LogSumExp);
    let loss = log_sum_exp - reduction_op(if is_label { logits } else { 0.0 }, Row, Add);
    let d_logits = (exp(logits - log_sum_exp) - if is_label { 1.0 } else { 0.0 }) / real(rows());
    let d_bias = reduction_op(d_logits, Column, Add);
    (loss, d_logits, d_bias)
}

/// A step of gradient descent with momentum: the product is the gradient, which is never stored.
#[epilogue]
pub(crate) fn descend(
    accum: Accum,
    velocity: TensorMut,
    weights: TensorMut,
    decay: Scalar,
    rate: Scalar,
) -> (Tensor, Tensor) {
    velocity = decay * velocity + accum;
    weights -= rate * velocity;
    (velocity, weights)
}

/// The step of `descend` for vectors. Their gradients are sums that the products' epilogues give.
pub(crate) struct DescendVectors {
    gradient: Tensor,
    velocity: Tensor,
    values: Tensor,
    next_velocity: Tensor,
    next_values: Tensor,
    kernel: auto::Kernel,
}

impl DescendVectors {
    pub(crate) fn new(device: &Device, decay: f64, rate: f64) -> Result<Self, TeError> {
        let n = te::var("n");
        let gradient = te::placeholder([n], "gradient");
        let velocity = te::placeholder([n], "velocity");
        let values = te::placeholder([n], "values");
        let next_velocity = te::compute([n], "next_velocity", |[i]| velocity.at([i]) * decay + gradient.at([i]))?;
        let next_values = te::compute([n], "next_values", |[i]| values.at([i]) - next_velocity.at([i]) * rate)?;
        let kernel = auto::build(&[&next_velocity, &next_values])?.build(device)?;
        Ok(Self { gradient, velocity, values, next_velocity, next_values, kernel })
    }

    /// `from` and `to` are velocity and values, before the step and after it.
    pub(crate) fn run(
        &self,
        gradient: &DeviceTensor,
        from: [&DeviceTensor; 2],
        to: [&mut DeviceTensor; 2],
    ) -> Result<(), TeError> {
        let ([velocity, values], [next_velocity, next_values]) = (from, to);
        self.kernel.run_bound(&[
            (&self.gradient, gradient.into()),
            (&self.velocity, velocity.into()),
            (&self.values, values.into()),
            (&self.next_velocity, next_velocity.into()),
            (&self.next_values, next_values.into()),
        ])
    }
}
