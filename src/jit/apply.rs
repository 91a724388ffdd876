//! Scalar operations and element types by name, as values of lanes.

use super::body::{Binary, Body, JitValue, Lane, Unary};
use crate::ElementType;
use crate::expr::Op;

impl Body {
    /// An operation of f32s; operands that it does not have are ignored. `None` without vector code, and for operations
    /// with masks: comparisons ([`compare`](Self::compare)) and selections.
    pub(crate) fn apply(&mut self, op: Op, [a, b, c]: [JitValue; 3]) -> Option<JitValue> {
        Some(match op {
            Op::Add => self.add(a, b),
            Op::Sub => self.sub(a, b),
            Op::Mul => self.mul(a, b),
            Op::Div => self.div(a, b),
            Op::Min => self.minimum(a, b),
            Op::Max => self.maximum(a, b),
            Op::Fma => self.fma(a, b, c),
            Op::Neg => self.neg(a),
            Op::Abs => self.abs(a),
            Op::Exp => self.exp(a),
            Op::Exp2 => self.exp2(a),
            Op::Log => self.log(a),
            Op::Log2 => self.log2(a),
            Op::Log1p => self.log1p(a),
            Op::Sqrt => self.unary(Unary::Sqrt, a),
            Op::Rsqrt => self.inverse_root(a),
            Op::Recip => self.reciprocal(a),
            Op::Tanh => self.tanh(a),
            Op::Erf => self.erf(a),
            Op::Floor => self.unary(Unary::Round(1), a),
            Op::Ceil => self.unary(Unary::Round(2), a),
            Op::Round => self.round(a),
            // Sine and cosine of large arguments, and powers, are scalar code.
            Op::Sin | Op::Cos | Op::Pow | Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne | Op::Select => {
                return None;
            }
        })
    }

    /// Where a comparison of f32s holds; `None` for other operations.
    pub(crate) fn compare(&mut self, op: Op, a: JitValue, b: JitValue) -> Option<JitValue> {
        let (op, a, b) = match op {
            Op::Lt => (Binary::Less, a, b),
            Op::Le => (Binary::LessEqual, a, b),
            Op::Gt => (Binary::Less, b, a),
            Op::Ge => (Binary::LessEqual, b, a),
            Op::Eq => (Binary::Equal, a, b),
            Op::Ne => (Binary::NotEqual, a, b),
            _ => return None,
        };
        Some(self.binary(op, a, b))
    }

    /// f32s rounded to an element type, and back; `None` for types without vector code.
    pub(crate) fn rounded(&mut self, element: ElementType, x: JitValue) -> Option<JitValue> {
        match element {
            ElementType::F32 => Some(x),
            ElementType::F16 => Some(self.round_to_f16(x)),
            ElementType::BF16 => Some(self.round_to_bf16(x)),
            _ => None,
        }
    }

    /// f32s as lanes of a float type, as they are [stored](Self::store); `None` for other lanes.
    pub(crate) fn narrowed(&mut self, lane: Lane, x: JitValue) -> Option<JitValue> {
        match lane {
            Lane::F32 => Some(x),
            Lane::F16 => Some(self.as_f16(x)),
            Lane::BF16 => Some(self.as_bf16(x)),
            Lane::I32 | Lane::I8 | Lane::U8 | Lane::F64 => None,
        }
    }
}
