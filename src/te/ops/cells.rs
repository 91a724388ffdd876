//! Cells of recurrent networks. Their matrix products are given.

use super::{require_rank, require_shape, wide};
use crate::expr::Op;
use crate::te::error::TeError;
use crate::te::expr::define::compute::{compute, compute_all};
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;

/// One step of an LSTM: gives the new hidden state and the new cell state, each `[batch, hidden]`.
///
/// `gates` is `[batch, 4·hidden]`: for each gate the input times its weights, plus the hidden state times its weights,
/// plus the biases. The gates are input, forget, cell and output, in this order (PyTorch's). `cell` is
/// `[batch, hidden]`.
///
/// # Errors
/// [`ExpressionError::Shape`](crate::te::ExpressionError::Shape) for tensors of other extents; [`ExpressionError::OperandType`](crate::te::ExpressionError::OperandType) for integers.
pub fn lstm_cell(gates: &Tensor, cell: &Tensor) -> Result<(Tensor, Tensor), TeError> {
    let (shape, dtype) = (cell.shape(), wide(cell.dtype()));
    require_rank("lstm_cell", ("the cell state", cell), 2, "[batch, hidden]")?;
    let hidden = shape[1].clone();
    let wanted = [shape[0].clone(), hidden.clone() * 4];
    require_shape("lstm_cell", ("the gates", gates), &wanted, "[batch, 4·hidden] of the cell state's")?;
    let mut made = compute_all(shape, "lstm_cell", |[i, j]| {
        let gate = |g: i32| gates.at([Expr::from(i), hidden.clone() * g + j]).cast(dtype);
        let new = sigmoid(&gate(1)) * cell.at([i, j]).cast(dtype) + sigmoid(&gate(0)) * tanh(gate(2));
        vec![(sigmoid(&gate(3)) * tanh(new.clone())).cast(cell.dtype()), new.cast(cell.dtype())]
    })?;
    let cell = made.swap_remove(1);
    Ok((made.swap_remove(0), cell))
}

/// One step of a GRU: gives the new hidden state, `[batch, hidden]`.
///
/// `input` and `state` are `[batch, 3·hidden]`: the input, or the hidden state, times the weights, plus the biases. The
/// gates are reset, update and new, in this order (PyTorch's). `hidden` is `[batch, hidden]`.
///
/// # Errors
/// [`ExpressionError::Shape`](crate::te::ExpressionError::Shape) for tensors of other extents; [`ExpressionError::OperandType`](crate::te::ExpressionError::OperandType) for integers.
pub fn gru_cell(input: &Tensor, state: &Tensor, hidden: &Tensor) -> Result<Tensor, TeError> {
    let (shape, dtype) = (hidden.shape(), wide(hidden.dtype()));
    require_rank("gru_cell", ("the hidden state", hidden), 2, "[batch, hidden]")?;
    let width = shape[1].clone();
    let wanted = [shape[0].clone(), width.clone() * 3];
    for given in [("the input's products", input), ("the state's products", state)] {
        require_shape("gru_cell", given, &wanted, "[batch, 3·hidden] of the hidden state's")?;
    }
    compute(shape, "gru_cell", |[i, j]| {
        let gate = |from: &Tensor, g: i32| from.at([Expr::from(i), width.clone() * g + j]).cast(dtype);
        let reset = sigmoid(&(gate(input, 0) + gate(state, 0)));
        let update = sigmoid(&(gate(input, 1) + gate(state, 1)));
        let new = tanh(gate(input, 2) + reset * gate(state, 2));
        let old = hidden.at([i, j]).cast(dtype);
        ((Expr::constant(1.0, dtype) - &update) * new + update * old).cast(hidden.dtype())
    })
}

fn sigmoid(x: &Expr) -> Expr {
    let one = || Expr::constant(1.0, x.dtype());
    one() / (one() + Expr::apply(Op::Exp, vec![-x.clone()]))
}

fn tanh(x: Expr) -> Expr {
    Expr::apply(Op::Tanh, vec![x])
}
