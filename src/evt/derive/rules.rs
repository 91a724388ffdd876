//! The derivatives of the primitive operations.

use super::place::DerivedFrom;
use super::reverse::Reverse;
use crate::evt::NodeId;
use crate::expr::Op;
use crate::ops;

impl Reverse<'_> {
    fn operand(&mut self, place: DerivedFrom<'_>, i: usize) -> NodeId {
        match place {
            DerivedFrom::Forward(_, operands) => self.again(operands[i]),
            DerivedFrom::Here(_, operands) => operands[i],
        }
    }

    fn result(&mut self, place: DerivedFrom<'_>) -> NodeId {
        match place {
            DerivedFrom::Forward(result, _) => self.again(result),
            DerivedFrom::Here(result, _) => result,
        }
    }

    fn times(&mut self, g: NodeId, factor: NodeId) -> NodeId {
        self.builder.apply(Op::Mul, &[g, factor])
    }

    fn negated(&mut self, g: NodeId) -> NodeId {
        self.builder.apply(Op::Neg, &[g])
    }

    /// `g` where a condition holds, else 0. (A product with 0 would be NaN where `g` is infinite.)
    fn where_(&mut self, condition: NodeId, g: NodeId) -> NodeId {
        let zero = self.builder.literal(0.0);
        self.builder.apply(Op::Select, &[condition, g, zero])
    }

    /// The gradient of operand `i` from that of the result; `None` if there is none.
    pub(super) fn primitive(&mut self, op: Op, place: DerivedFrom<'_>, i: usize, g: NodeId) -> Option<NodeId> {
        Some(match (op, i) {
            (Op::Add, _) | (Op::Sub, 0) | (Op::Fma, 2) => g,
            (Op::Neg, _) | (Op::Sub, _) => self.negated(g),
            (Op::Mul, _) | (Op::Fma, _) => {
                let other = self.operand(place, 1 - i);
                self.times(g, other)
            }
            (Op::Abs, _) => {
                let x = self.operand(place, 0);
                let sign = self.builder.call(ops::abs_grad::function(), &[x]);
                self.times(g, sign)
            }
            (Op::Exp, _) => {
                let y = self.result(place);
                self.times(g, y)
            }
            (Op::Exp2, _) => {
                let (y, factor) = (self.result(place), self.builder.literal(std::f64::consts::LN_2));
                let scaled = self.times(y, factor);
                self.times(g, scaled)
            }
            (Op::Log, _) => {
                let x = self.operand(place, 0);
                self.builder.apply(Op::Div, &[g, x])
            }
            (Op::Log1p, _) => {
                let (x, one) = (self.operand(place, 0), self.builder.literal(1.0));
                let argument = self.builder.apply(Op::Add, &[one, x]);
                self.builder.apply(Op::Div, &[g, argument])
            }
            (Op::Log2, _) => {
                let (x, factor) = (self.operand(place, 0), self.builder.literal(std::f64::consts::LN_2));
                let scaled = self.times(x, factor);
                self.builder.apply(Op::Div, &[g, scaled])
            }
            (Op::Sqrt, _) => {
                let (y, half) = (self.result(place), self.builder.literal(0.5));
                let scaled = self.times(g, half);
                self.builder.apply(Op::Div, &[scaled, y])
            }
            (Op::Rsqrt, _) => {
                let (y, factor) = (self.result(place), self.builder.literal(-0.5));
                let squared = self.times(y, y);
                let (cubed, scaled) = (self.times(squared, y), self.times(g, factor));
                self.times(scaled, cubed)
            }
            (Op::Recip, _) => {
                let y = self.result(place);
                let (squared, g) = (self.times(y, y), self.negated(g));
                self.times(g, squared)
            }
            (Op::Tanh, _) => {
                let (y, one) = (self.result(place), self.builder.literal(1.0));
                let squared = self.times(y, y);
                let slope = self.builder.apply(Op::Sub, &[one, squared]);
                self.times(g, slope)
            }
            (Op::Erf, _) => {
                let x = self.operand(place, 0);
                let slope = self.builder.call(ops::erf_grad::function(), &[x]);
                self.times(g, slope)
            }
            (Op::Sin, _) => {
                let x = self.operand(place, 0);
                let slope = self.builder.apply(Op::Cos, &[x]);
                self.times(g, slope)
            }
            (Op::Cos, _) => {
                let x = self.operand(place, 0);
                let (slope, g) = (self.builder.apply(Op::Sin, &[x]), self.negated(g));
                self.times(g, slope)
            }
            (Op::Div, 0) => {
                let y = self.operand(place, 1);
                self.builder.apply(Op::Div, &[g, y])
            }
            (Op::Div, _) => {
                let (quotient, y) = (self.result(place), self.operand(place, 1));
                let (factor, g) = (self.builder.apply(Op::Div, &[quotient, y]), self.negated(g));
                self.times(g, factor)
            }
            (Op::Min | Op::Max, _) => {
                let (own, other) = (self.operand(place, i), self.operand(place, 1 - i));
                let half = self.builder.literal(0.5);
                let half = self.times(g, half);
                let same = self.builder.apply(Op::Eq, &[own, other]);
                let shared = self.where_(same, half);
                let beyond = if op == Op::Max { Op::Gt } else { Op::Lt };
                let taken = self.builder.apply(beyond, &[own, other]);
                self.builder.apply(Op::Select, &[taken, g, shared])
            }
            (Op::Pow, 0) => {
                let (x, y) = (self.operand(place, 0), self.operand(place, 1));
                let (zero, one) = (self.builder.literal(0.0), self.builder.literal(1.0));
                let less = self.builder.apply(Op::Sub, &[y, one]);
                let power = self.builder.apply(Op::Pow, &[x, less]);
                let slope = self.times(y, power);
                let moved = self.builder.apply(Op::Ne, &[y, zero]);
                let product = self.times(g, slope);
                self.where_(moved, product)
            }
            (Op::Pow, _) => {
                let (x, y, power) = (self.operand(place, 0), self.operand(place, 1), self.result(place));
                let zero = self.builder.literal(0.0);
                let logarithm = self.builder.apply(Op::Log, &[x]);
                let slope = self.times(power, logarithm);
                let product = self.times(g, slope);
                // 0^y is 0 for all y near one above 0.
                let (of_zero, low) = (self.builder.apply(Op::Eq, &[x, zero]), self.builder.apply(Op::Ge, &[y, zero]));
                let inner = self.builder.apply(Op::Select, &[low, zero, product]);
                self.builder.apply(Op::Select, &[of_zero, inner, product])
            }
            (Op::Select, 1) => {
                let condition = self.operand(place, 0);
                self.where_(condition, g)
            }
            (Op::Select, 2) => {
                let (condition, zero) = (self.operand(place, 0), self.builder.literal(0.0));
                self.builder.apply(Op::Select, &[condition, zero, g])
            }
            // Steps, comparisons and conditions.
            (Op::Floor | Op::Ceil | Op::Round | Op::Select, _)
            | (Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne, _) => return None,
        })
    }
}
