//! Epilogues of every kind.

use epilogue::evt::{Axis, BroadcastClass, Form, ParameterClass, Position, ReduceOp, Reduction, Tree, TreeBuilder};
use epilogue::expr::Op;
use epilogue::{ElementType, ops};

/// `D = alpha * accum + tanh(beta * C)`, and the sum of every row of D.
pub(crate) fn row_reduction() -> Tree {
    let mut b = TreeBuilder::new("row_reduction", "seed.rs");
    let accum = b.accum("accum");
    let c = b.parameter("c", ParameterClass::Tensor, None);
    let alpha = b.parameter("alpha", ParameterClass::Scalar, None);
    let beta = b.parameter("beta", ParameterClass::Scalar, None);
    b.at(3, 13);
    let left = b.apply(Op::Mul, &[alpha, accum]);
    let right = b.apply(Op::Mul, &[beta, c]);
    let right = b.call(ops::tanh::function(), &[right]);
    let d = b.apply(Op::Add, &[left, right]);
    b.name(d, "d");
    let sum = Reduction { axis: Axis::Row, batch: false, op: ReduceOp::Add, form: Form::Complete };
    let reduction = b.reduce(sum, d);
    b.output("d", d, BroadcastClass::Tensor, None);
    b.output("reduction", reduction, BroadcastClass::ColumnVector, None);
    b.finish()
}

/// The loss of every row and its log-sum-exp, of whole rows, and nothing of M×N.
pub(crate) fn cross_entropy() -> Tree {
    let mut b = TreeBuilder::new("cross_entropy", "loss.rs");
    let accum = b.accum("accum");
    let labels = b.parameter("labels", ParameterClass::ColumnVector, Some(ElementType::I64));
    let rows = |op| Reduction { axis: Axis::Row, batch: false, op, form: Form::Complete };
    let largest = b.reduce(rows(ReduceOp::Max), accum);
    b.name(largest, "largest");
    let shifted = b.apply(Op::Sub, &[accum, largest]);
    let e = b.apply(Op::Exp, &[shifted]);
    let sum = b.reduce(rows(ReduceOp::Add), e);
    b.name(sum, "sum");
    let (column, label, zero) = (b.position(Position::Column), b.integer(labels), b.literal(0.0));
    let is_label = b.apply(Op::Eq, &[column, label]);
    let at_label = b.apply(Op::Select, &[is_label, accum, zero]);
    let picked = b.reduce(rows(ReduceOp::Add), at_label);
    b.name(picked, "picked");
    let log = b.apply(Op::Log, &[sum]);
    let log_sum_exp = b.apply(Op::Add, &[largest, log]);
    b.name(log_sum_exp, "log_sum_exp");
    let loss = b.apply(Op::Sub, &[log_sum_exp, picked]);
    b.output("loss", loss, BroadcastClass::ColumnVector, None);
    b.output("log_sum_exp", log_sum_exp, BroadcastClass::ColumnVector, Some(ElementType::F32));
    b.finish()
}

/// Scores under a causal mask, after some past, and the largest of every row.
pub(crate) fn causal() -> Tree {
    let mut b = TreeBuilder::new("causal", "attention.rs");
    let (accum, below) = (b.accum("accum"), b.literal(f64::NEG_INFINITY));
    let scale = b.parameter("scale", ParameterClass::Scalar, None);
    let past = b.parameter("past", ParameterClass::DeviceScalar, Some(ElementType::I32));
    let (row, column, past) = (b.position(Position::Row), b.position(Position::Column), b.integer(past));
    let seen = b.apply(Op::Add, &[row, past]);
    let hidden = b.apply(Op::Gt, &[column, seen]);
    let scaled = b.apply(Op::Mul, &[accum, scale]);
    let d = b.apply(Op::Select, &[hidden, below, scaled]);
    b.name(d, "d");
    b.output("d", d, BroadcastClass::Tensor, None);
    let largest = b.reduce(ROWS(ReduceOp::Max), d);
    b.output("largest", largest, BroadcastClass::ColumnVector, Some(ElementType::F32));
    b.finish()
}

const ROWS: fn(ReduceOp) -> Reduction = |op| Reduction { axis: Axis::Row, batch: false, op, form: Form::Complete };

/// The softmax of every row of `accum + mask`.
pub(crate) fn softmax() -> Tree {
    let mut b = TreeBuilder::new("softmax", "softmax.rs");
    let accum = b.accum("accum");
    let mask = b.parameter("mask", ParameterClass::Tensor, None);
    let x = b.apply(Op::Add, &[accum, mask]);
    b.name(x, "x");
    let most = b.reduce(ROWS(ReduceOp::Max), x);
    b.name(most, "most");
    let shifted = b.apply(Op::Sub, &[x, most]);
    let e = b.apply(Op::Exp, &[shifted]);
    b.name(e, "e");
    let sum = b.reduce(ROWS(ReduceOp::Add), e);
    b.name(sum, "sum");
    let d = b.apply(Op::Div, &[e, sum]);
    b.output("d", d, BroadcastClass::Tensor, None);
    b.finish()
}

/// A residual that is added to in place, and its RMSNorm.
pub(crate) fn rms_norm() -> Tree {
    let mut b = TreeBuilder::new("rms_norm", "norm.rs");
    let accum = b.accum("accum");
    let residual = b.parameter("residual", ParameterClass::TensorMut, None);
    let weight = b.parameter("weight", ParameterClass::RowVector, None);
    let epsilon = b.parameter("epsilon", ParameterClass::Scalar, None);
    let h = b.apply(Op::Add, &[residual, accum]);
    b.name(h, "h");
    let squares = b.reduce(ROWS(ReduceOp::SumSquares), h);
    b.name(squares, "squares");
    let columns = b.position(Position::Columns);
    let columns = b.real(columns);
    let mean = b.apply(Op::Div, &[squares, columns]);
    let mean = b.apply(Op::Add, &[mean, epsilon]);
    let factor = b.call(ops::rsqrt::function(), &[mean]);
    let d = b.apply(Op::Mul, &[h, factor]);
    let d = b.apply(Op::Mul, &[d, weight]);
    b.output("residual", h, BroadcastClass::Tensor, None);
    b.output("d", d, BroadcastClass::Tensor, None);
    b.finish()
}

/// Rows as FP8, each with its scale.
pub(crate) fn quantised_rows() -> Tree {
    let mut b = TreeBuilder::new("quantised_rows", "quantised.rs");
    let accum = b.accum("accum");
    let most = b.reduce(ROWS(ReduceOp::AbsMax), accum);
    b.name(most, "most");
    let (range, tiny) = (b.literal(448.0), b.literal(1e-6));
    let scale = b.apply(Op::Div, &[most, range]);
    let scale = b.apply(Op::Max, &[scale, tiny]);
    b.name(scale, "scale");
    let q = b.apply(Op::Div, &[accum, scale]);
    b.output("q", q, BroadcastClass::Tensor, Some(ElementType::F8E4M3));
    b.output("scale", scale, BroadcastClass::ColumnVector, Some(ElementType::F32));
    b.finish()
}

/// `D = dropout(accum)` and a second stream beside it.
pub(crate) fn dropout() -> Tree {
    let mut b = TreeBuilder::new("dropout", "dropout.rs");
    let accum = b.accum("accum");
    let p = b.parameter("p", ParameterClass::Scalar, None);
    let seed = b.parameter("seed", ParameterClass::Seed, None);
    let u = b.random(seed, 0);
    let (zero, one) = (b.literal(0.0), b.literal(1.0));
    let keep = b.apply(Op::Ge, &[u, p]);
    let kept = b.apply(Op::Sub, &[one, p]);
    let kept = b.apply(Op::Div, &[accum, kept]);
    let d = b.apply(Op::Select, &[keep, kept, zero]);
    b.output("d", d, BroadcastClass::Tensor, None);
    let noise = b.random(seed, 1);
    b.output("noise", noise, BroadcastClass::Tensor, Some(ElementType::F32));
    b.finish()
}

/// `D = accum + u`: what a random number costs.
pub(crate) fn random() -> Tree {
    let mut b = TreeBuilder::new("random", "random.rs");
    let accum = b.accum("accum");
    let seed = b.parameter("seed", ParameterClass::Seed, None);
    let u = b.random(seed, 0);
    let d = b.apply(Op::Add, &[accum, u]);
    b.output("d", d, BroadcastClass::Tensor, None);
    b.finish()
}

/// D, and what the next product scales its rows by: the reciprocal root of their mean square.
pub(crate) fn row_factor() -> Tree {
    let mut b = TreeBuilder::new("row_factor", "norm.rs");
    let accum = b.accum("accum");
    let epsilon = b.parameter("epsilon", ParameterClass::Scalar, None);
    let rows = Reduction { axis: Axis::Row, batch: false, op: ReduceOp::SumSquares, form: Form::Complete };
    let squares = b.reduce(rows, accum);
    b.name(squares, "squares");
    let columns = b.position(Position::Columns);
    let columns = b.real(columns);
    let mean = b.apply(Op::Div, &[squares, columns]);
    let sum = b.apply(Op::Add, &[mean, epsilon]);
    let factor = b.call(ops::rsqrt::function(), &[sum]);
    b.name(factor, "factor");
    b.output("d", accum, BroadcastClass::Tensor, None);
    b.output("factor", factor, BroadcastClass::ColumnVector, Some(ElementType::F32));
    b.finish()
}

/// `D = silu(gate + bias) * up`: two accumulators.
pub(crate) fn swiglu() -> Tree {
    let mut b = TreeBuilder::new("swiglu", "gated.rs");
    let (gate, up) = (b.accum("gate"), b.accum("up"));
    let bias = b.parameter("bias", ParameterClass::RowVector, None);
    let gate = b.apply(Op::Add, &[gate, bias]);
    let gate = b.call(ops::silu::function(), &[gate]);
    let d = b.apply(Op::Mul, &[gate, up]);
    b.output("d", d, BroadcastClass::Tensor, None);
    b.finish()
}

/// Bias, GELU, a residual read and written in place, and reductions of all kinds.
pub(crate) fn everything() -> Tree {
    let mut b = TreeBuilder::new("everything", "all.rs");
    let accum = b.accum("accum");
    let bias = b.parameter("bias", ParameterClass::RowVector, None);
    let scale = b.parameter("scale", ParameterClass::ColumnVector, Some(ElementType::F32));
    let residual = b.parameter("residual", ParameterClass::TensorMut, None);
    let gain = b.parameter("gain", ParameterClass::DeviceScalar, Some(ElementType::F32));
    let x = b.apply(Op::Mul, &[accum, scale]);
    let x = b.apply(Op::Add, &[x, bias]);
    b.name(x, "x");
    let y = b.call(ops::gelu::function(), &[x]);
    let y = b.apply(Op::Mul, &[y, gain]);
    b.name(y, "y");
    let z = b.apply(Op::Add, &[y, residual]);
    b.output("pre", x, BroadcastClass::Tensor, Some(ElementType::F32));
    b.output("residual", z, BroadcastClass::Tensor, None);
    let reduction = |axis, op, form| Reduction { axis, batch: false, op, form };
    let sums = b.reduce(reduction(Axis::Row, ReduceOp::SumSquares, Form::Complete), z);
    b.output("sums", sums, BroadcastClass::ColumnVector, None);
    let most = b.reduce(reduction(Axis::Column, ReduceOp::Max, Form::Complete), y);
    b.output("most", most, BroadcastClass::RowVector, None);
    let all = b.reduce(reduction(Axis::All, ReduceOp::AbsMax, Form::Complete), z);
    b.output("all", all, BroadcastClass::Scalar, None);
    let partial = b.reduce(reduction(Axis::Row, ReduceOp::Add, Form::Partial), y);
    b.output("partial", partial, BroadcastClass::ColumnVector, None);
    b.finish()
}

/// D = accum.
pub(crate) fn plain() -> Tree {
    let mut b = TreeBuilder::new("plain", "plain.rs");
    let accum = b.accum("accum");
    b.output("d", accum, BroadcastClass::Tensor, None);
    b.finish()
}

/// accum + residual: the least work beside a tensor that is read.
pub(crate) fn residual() -> Tree {
    let mut b = TreeBuilder::new("residual", "residual.rs");
    let accum = b.accum("accum");
    let residual = b.parameter("residual", ParameterClass::Tensor, None);
    let d = b.apply(Op::Add, &[accum, residual]);
    b.output("d", d, BroadcastClass::Tensor, None);
    b.finish()
}

/// gelu(accum + bias) + residual.
pub(crate) fn bias_gelu_residual() -> Tree {
    let mut b = TreeBuilder::new("bias_gelu_residual", "residual.rs");
    let accum = b.accum("accum");
    let bias = b.parameter("bias", ParameterClass::RowVector, None);
    let residual = b.parameter("residual", ParameterClass::Tensor, None);
    let x = b.apply(Op::Add, &[accum, bias]);
    let x = b.call(ops::gelu::function(), &[x]);
    let d = b.apply(Op::Add, &[x, residual]);
    b.output("d", d, BroadcastClass::Tensor, None);
    b.finish()
}
