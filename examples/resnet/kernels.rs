//! Everything that is computed: the epilogues of the convolutions and of the last layer, and the two kernels that belong to
//! no product.

use epilogue::prelude::*;
use epilogue::te::{self, Expr, Tensor, Var, auto};

use crate::Result;

/// A convolution whose batch normalisation is known: one factor and one summand for each channel.
#[epilogue]
pub(crate) fn activated(accum: Accum, scale: RowVector, shift: RowVector) -> Tensor {
    let y = relu(accum * scale + shift);
    y
}

/// The convolution of a shortcut, which has no activation of its own; the batch normalisation is known.
#[epilogue]
pub(crate) fn projected(accum: Accum, scale: RowVector, shift: RowVector) -> Tensor {
    let y = accum * scale + shift;
    y
}

/// The end of a block: its shortcut is added before the activation.
#[epilogue]
pub(crate) fn joined(accum: Accum, scale: RowVector, shift: RowVector, shortcut: Tensor) -> Tensor {
    let y = relu(accum * scale + shift + shortcut);
    y
}

/// As a training normalises: by the batch's own mean and variance of each channel, which the same launch gives.
#[epilogue]
pub(crate) fn activated_in_training(
    accum: Accum,
    weight: RowVector,
    bias: RowVector,
    epsilon: Scalar,
) -> (Tensor, RowVector, RowVector) {
    let mean = reduction_op(accum, Column, Mean);
    let variance = reduction_op(accum, Column, Variance);
    let y = relu((accum - mean) * rsqrt(variance + epsilon) * weight + bias);
    (y, mean, variance)
}

/// The convolution of a shortcut in training.
#[epilogue]
pub(crate) fn projected_in_training(
    accum: Accum,
    weight: RowVector,
    bias: RowVector,
    epsilon: Scalar,
) -> (Tensor, RowVector, RowVector) {
    let mean = reduction_op(accum, Column, Mean);
    let variance = reduction_op(accum, Column, Variance);
    let y = (accum - mean) * rsqrt(variance + epsilon) * weight + bias;
    (y, mean, variance)
}

/// The convolution at the end of a block in training.
#[epilogue]
pub(crate) fn joined_in_training(
    accum: Accum,
    weight: RowVector,
    bias: RowVector,
    epsilon: Scalar,
    shortcut: Tensor,
) -> (Tensor, RowVector, RowVector) {
    let mean = reduction_op(accum, Column, Mean);
    let variance = reduction_op(accum, Column, Variance);
    let y = relu((accum - mean) * rsqrt(variance + epsilon) * weight + bias + shortcut);
    (y, mean, variance)
}

/// The classes' probabilities of each image.
#[epilogue]
pub(crate) fn classified(accum: Accum, bias: RowVector) -> Tensor {
    let score = accum + bias;
    let power = exp(score - reduction_op(score, Row, Max));
    let probability = power / reduction_op(power, Row, Add);
    probability
}

/// A kernel from one tensor to another.
pub(crate) struct Pool {
    input: Tensor,
    output: Tensor,
    kernel: auto::Kernel,
}

impl Pool {
    /// The largest of 3×3 elements around every other one, of `[N, H, W, C]`.
    pub(crate) fn largest(device: &Device) -> Result<Self> {
        let [n, h, w, c] = ["n", "h", "w", "c"].map(te::var);
        let input = te::placeholder([n, h, w, c], "x");
        let [row, column] = ["row", "column"].map(|name| te::reduce_axis((0, 3), name));
        let extents = [n.into(), (h - 1).floor_div(2) + 1, (w - 1).floor_div(2) + 1, c.into()];
        let output = te::compute(extents, "largest", |[n, p, q, c]| {
            let (i, j) = (p * 2 + row - 1, q * 2 + column - 1);
            let inside = |at: &Expr, extent: Var| at.greater_equal(0).and(at.less(extent));
            let is_inside = inside(&i, h).and(inside(&j, w));
            te::max(is_inside.select(input.at([n.into(), i, j, c.into()]), f32::NEG_INFINITY), [row, column])
        })?;
        let kernel = auto::build(&[&output])?.build(device)?;
        Ok(Self { input, output, kernel })
    }

    /// The mean of each channel of an image: `[N, C]` of `[N, H, W, C]`.
    pub(crate) fn mean(device: &Device) -> Result<Self> {
        let input = te::placeholder(["n", "h", "w", "c"].map(te::var), "x");
        let output = te::ops::mean(&input, [1, 2])?;
        let kernel = auto::build(&[&output])?.build(device)?;
        Ok(Self { input, output, kernel })
    }

    pub(crate) fn run(&self, x: &DeviceTensor, y: &mut DeviceTensor) -> Result<()> {
        Ok(self.kernel.run_bound(&[(&self.input, x.into()), (&self.output, y.into())])?)
    }
}
