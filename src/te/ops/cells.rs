//! Cells of recurrent networks, given their gates' products, and convolution.

use super::wide;
use crate::expr::Op;
use crate::te::axis::reduce_axis;
use crate::te::error::TeError;
use crate::te::expr::Expr;
use crate::te::reduce::sum;
use crate::te::tensor::{Tensor, compute, compute_all};

/// One step of an LSTM: the new hidden and cell state, `[batch, hidden]` each.
///
/// `gates` is `[batch, 4·hidden]`: the sums of the input's and the hidden state's products with the weights, and the
/// biases, for the input, forget, cell and output gate, in this order (PyTorch's); `cell` is `[batch, hidden]`.
///
/// # Errors
/// [`TeError::Rank`] for tensors of other ranks.
pub fn lstm_cell(gates: &Tensor, cell: &Tensor) -> Result<(Tensor, Tensor), TeError> {
    let (shape, dtype) = (cell.shape(), wide(cell.dtype()));
    let hidden = shape.get(1).cloned().unwrap_or_else(|| Expr::int(0));
    let mut made = compute_all(shape, "lstm_cell", |[i, j]| {
        let gate = |g: i32| gates.at([Expr::from(i), hidden.clone() * g + j]).cast(dtype);
        let new = sigmoid(&gate(1)) * cell.at([i, j]).cast(dtype) + sigmoid(&gate(0)) * tanh(gate(2));
        vec![(sigmoid(&gate(3)) * tanh(new.clone())).cast(cell.dtype()), new.cast(cell.dtype())]
    })?;
    let cell = made.swap_remove(1);
    Ok((made.swap_remove(0), cell))
}

/// One step of a GRU: the new hidden state, `[batch, hidden]`.
///
/// `input` and `state` are `[batch, 3·hidden]`: the input's and the hidden state's products with the weights and their
/// biases, for the reset, update and new gate, in this order (PyTorch's); `hidden` is `[batch, hidden]`.
///
/// # Errors
/// [`TeError::Rank`] for tensors of other ranks.
pub fn gru_cell(input: &Tensor, state: &Tensor, hidden: &Tensor) -> Result<Tensor, TeError> {
    let (shape, dtype) = (hidden.shape(), wide(hidden.dtype()));
    let width = shape.get(1).cloned().unwrap_or_else(|| Expr::int(0));
    compute(shape, "gru_cell", |[i, j]| {
        let gate = |from: &Tensor, g: i32| from.at([Expr::from(i), width.clone() * g + j]).cast(dtype);
        let reset = sigmoid(&(gate(input, 0) + gate(state, 0)));
        let update = sigmoid(&(gate(input, 1) + gate(state, 1)));
        let new = tanh(gate(input, 2) + reset * gate(state, 2));
        let old = hidden.at([i, j]).cast(dtype);
        ((Expr::constant(1.0, dtype) - &update) * new + update * old).cast(hidden.dtype())
    })
}

/// The two-dimensional convolution (cross-correlation) of `[batch, channels, height, width]` with filters
/// `[features, channels, rows, columns]`, every `stride`th point, without padding.
///
/// # Errors
/// [`TeError::Rank`] for tensors of other ranks; [`TeError::SplitFactor`] for a stride that is not positive.
pub fn conv2d(input: &Tensor, filter: &Tensor, stride: i32) -> Result<Tensor, TeError> {
    for tensor in [input, filter] {
        if tensor.rank() != 4 {
            return Err(TeError::Rank { tensor: tensor.name(), needed: tensor.rank(), given: 4 });
        }
    }
    if stride < 1 {
        return Err(TeError::SplitFactor { axis: "conv2d".to_owned(), factor: stride.to_string() });
    }
    let (image, kernel, dtype) = (input.shape(), filter.shape(), wide(input.dtype()));
    let out = |d: usize| (&image[d] - &kernel[d]).floor_div(stride) + 1;
    let axes = [
        reduce_axis((0, kernel[1].clone()), "c"),
        reduce_axis((0, kernel[2].clone()), "di"),
        reduce_axis((0, kernel[3].clone()), "dj"),
    ];
    let [c, di, dj] = axes;
    compute(vec![image[0].clone(), kernel[0].clone(), out(2), out(3)], "conv2d", |[n, f, i, j]| {
        let x = input.at([Expr::from(n), c.into(), i * stride + di, j * stride + dj]).cast(dtype);
        sum(x * filter.at([f, c, di, dj]).cast(dtype), axes)
    })
}

fn sigmoid(x: &Expr) -> Expr {
    let one = || Expr::constant(1.0, x.dtype());
    one() / (one() + Expr::apply(Op::Exp, vec![-x.clone()]))
}

fn tanh(x: Expr) -> Expr {
    Expr::apply(Op::Tanh, vec![x])
}
