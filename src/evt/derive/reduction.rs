//! The derivatives of reductions.

use super::error::DeriveError;
use super::reverse::Reverse;
use crate::evt::{Axis, ComposedOp, Form, NodeId, Position, ReduceOp, Reduction};
use crate::expr::Op;
use crate::ops;

fn refused(axis: Axis, op: &str, advice: &'static str) -> DeriveError {
    DeriveError::Reduction { what: format!("`reduction_op(…, {axis:?}, {op})`"), advice }
}

const OVER_BATCH: &str = "reduce each batch by itself";

impl Reverse<'_> {
    /// The gradient of what is reduced, from that of the result.
    pub(super) fn reduced(
        &mut self,
        result: NodeId,
        reduction: Reduction,
        x: NodeId,
        g: NodeId,
    ) -> Result<NodeId, DeriveError> {
        let Reduction { axis, batch, op, form } = reduction;
        let refuse = |advice| Err(refused(axis, op.name(), advice));
        if batch {
            return refuse(OVER_BATCH);
        }
        if form == Form::Partial {
            return refuse("leave out `threadblock_shape` for the complete reduction");
        }
        Ok(match op {
            ReduceOp::Add => g,
            ReduceOp::SumSquares => {
                let (x, two) = (self.again(x), self.builder.literal(2.0));
                let slope = self.builder.apply(Op::Mul, &[two, x]);
                self.builder.apply(Op::Mul, &[g, slope])
            }
            ReduceOp::Max | ReduceOp::Min | ReduceOp::AbsMax => {
                let (mut x, extreme) = (self.again(x), self.again(result));
                let mut g = g;
                if op == ReduceOp::AbsMax {
                    let sign = self.builder.call(ops::abs_grad::function(), &[x]);
                    g = self.builder.apply(Op::Mul, &[g, sign]);
                    x = self.builder.apply(Op::Abs, &[x]);
                }
                let (zero, one) = (self.builder.literal(0.0), self.builder.literal(1.0));
                let is_extreme = self.builder.apply(Op::Eq, &[x, extreme]);
                let counted = self.builder.apply(Op::Select, &[is_extreme, one, zero]);
                let count = Reduction { axis, batch: false, op: ReduceOp::Add, form: Form::Complete };
                let count = self.builder.reduce(count, counted);
                let share = self.builder.apply(Op::Div, &[g, count]);
                self.builder.apply(Op::Select, &[is_extreme, share, zero])
            }
            ReduceOp::Mul => {
                return refuse("of positive values use `exp(reduction_op(log(x), …, Add))`");
            }
            // Never: an integer has no gradient.
            ReduceOp::ArgMax | ReduceOp::ArgMin => return refuse("an index has no gradient"),
            ReduceOp::User(_) => {
                return refuse("a reducer of your own has no derivative: write it with the language's reductions");
            }
        })
    }

    /// The gradient of a reduction that is made of others.
    pub(super) fn composed(
        &mut self,
        result: NodeId,
        composed: crate::evt::Composed,
        x: NodeId,
        g: NodeId,
    ) -> Result<NodeId, DeriveError> {
        let crate::evt::Composed { axis, batch, op } = composed;
        if batch {
            return Err(refused(axis, op.name(), OVER_BATCH));
        }
        Ok(match op {
            ComposedOp::Mean => {
                let count = self.count(axis);
                self.builder.apply(Op::Div, &[g, count])
            }
            ComposedOp::Variance => {
                let x = self.again(x);
                let mean = self.builder.compose(crate::evt::Composed { op: ComposedOp::Mean, ..composed }, x);
                let (from, two) = (self.builder.apply(Op::Sub, &[x, mean]), self.builder.literal(2.0));
                let (slope, count) = (self.builder.apply(Op::Mul, &[two, from]), self.count(axis));
                let share = self.builder.apply(Op::Div, &[g, count]);
                self.builder.apply(Op::Mul, &[share, slope])
            }
            ComposedOp::LogSumExp => {
                let (x, logarithm) = (self.again(x), self.again(result));
                let below = self.builder.apply(Op::Sub, &[x, logarithm]);
                let part = self.builder.apply(Op::Exp, &[below]);
                self.builder.apply(Op::Mul, &[g, part])
            }
            // Never: truth values have no gradient.
            ComposedOp::Any | ComposedOp::All => return Err(refused(axis, op.name(), "a truth value has no gradient")),
        })
    }

    /// How many elements one result is of.
    fn count(&mut self, axis: Axis) -> NodeId {
        let mut extent = |position| {
            let extent = self.builder.position(position);
            self.builder.real(extent)
        };
        match axis {
            Axis::Row => extent(Position::Columns),
            Axis::Column => extent(Position::Rows),
            Axis::All => {
                let (rows, columns) = (extent(Position::Rows), extent(Position::Columns));
                self.builder.apply(Op::Mul, &[rows, columns])
            }
        }
    }
}
