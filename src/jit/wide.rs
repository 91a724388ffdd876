//! Functions of lanes of 64 bits, with the bits of [`crate::simd`].

use super::body::{Binary, Body, JitNode, JitValue, Unary};
use crate::expr::Op;

const SIGN: u64 = 1 << 63;

impl Body {
    /// 64 bits in every lane, or in every two lanes of 32 bits.
    pub(crate) fn wide_bits(&mut self, bits: u64) -> JitValue {
        self.node(JitNode::Constant(bits))
    }

    /// The bits of a constant, for each two lanes of 32 bits.
    pub(crate) fn known_bits(&self, value: JitValue) -> Option<u64> {
        match self.nodes[value.index()] {
            JitNode::Constant(bits) => Some(bits),
            _ => None,
        }
    }

    /// An operation of f64s; operands that it does not have are ignored. `None` without vector code, and for operations
    /// with masks.
    pub(crate) fn apply_f64(&mut self, op: Op, [a, b, c]: [JitValue; 3]) -> Option<JitValue> {
        Some(match op {
            Op::Add => self.binary(Binary::AddF64, a, b),
            Op::Sub => self.binary(Binary::SubF64, a, b),
            Op::Mul => self.binary(Binary::MulF64, a, b),
            Op::Div => self.binary(Binary::DivF64, a, b),
            Op::Fma => self.node(JitNode::FmaF64(a, b, c)),
            // As those of f32s, for the same reasons.
            Op::Min => {
                let (first, second) =
                    (self.binary(Binary::FirstLessF64, a, b), self.binary(Binary::FirstLessF64, b, a));
                self.binary(Binary::Or, first, second)
            }
            Op::Max => {
                let (first, second) =
                    (self.binary(Binary::FirstGreaterF64, a, b), self.binary(Binary::FirstGreaterF64, b, a));
                let common = self.binary(Binary::And, first, second);
                let nan = self.binary(Binary::UnorderedF64, a, b);
                self.binary(Binary::Or, common, nan)
            }
            Op::Neg => {
                let sign = self.wide_bits(SIGN);
                self.binary(Binary::Xor, a, sign)
            }
            Op::Abs => {
                let rest = self.wide_bits(!SIGN);
                self.binary(Binary::And, a, rest)
            }
            Op::Sqrt => self.unary(Unary::SqrtF64, a),
            Op::Rsqrt => {
                let (one, root) = (self.double(1.0), self.unary(Unary::SqrtF64, a));
                self.binary(Binary::DivF64, one, root)
            }
            Op::Recip => {
                let one = self.double(1.0);
                self.binary(Binary::DivF64, one, a)
            }
            _ => return None,
        })
    }

    /// Where a comparison of f64s holds; `None` for other operations.
    pub(crate) fn compare_f64(&mut self, op: Op, a: JitValue, b: JitValue) -> Option<JitValue> {
        let (op, a, b) = match op {
            Op::Lt => (Binary::LessF64, a, b),
            Op::Le => (Binary::LessEqualF64, a, b),
            Op::Gt => (Binary::LessF64, b, a),
            Op::Ge => (Binary::LessEqualF64, b, a),
            Op::Eq => (Binary::EqualF64, a, b),
            Op::Ne => (Binary::NotEqualF64, a, b),
            _ => return None,
        };
        Some(self.binary(op, a, b))
    }

    /// An operation of i64s, which wrap; `None` without vector code.
    pub(crate) fn apply_i64(&mut self, op: Op, a: JitValue, b: JitValue) -> Option<JitValue> {
        let op = match op {
            Op::Add => Binary::AddI64,
            Op::Sub => Binary::SubI64,
            Op::Mul => Binary::MulI64,
            Op::Min => Binary::LeastI64,
            Op::Max => Binary::GreatestI64,
            Op::Neg => {
                let zero = self.wide_bits(0);
                return Some(self.binary(Binary::SubI64, zero, a));
            }
            _ => return None,
        };
        Some(self.binary(op, a, b))
    }

    /// Where a comparison of i64s holds, or, if the second is true, doesn't.
    pub(crate) fn compare_i64(&mut self, op: Op, a: JitValue, b: JitValue) -> Option<(JitValue, bool)> {
        let (op, a, b, is_not) = match op {
            Op::Lt => (Binary::GreaterI64, b, a, false),
            Op::Le => (Binary::GreaterI64, a, b, true),
            Op::Gt => (Binary::GreaterI64, a, b, false),
            Op::Ge => (Binary::GreaterI64, b, a, true),
            Op::Eq => (Binary::EqualI64, a, b, false),
            Op::Ne => (Binary::EqualI64, a, b, true),
            _ => return None,
        };
        Some((self.binary(op, a, b), is_not))
    }

    /// The low 64 bits of a product, of products of halves.
    pub(super) fn product_of_halves(&mut self, a: JitValue, b: JitValue) -> JitValue {
        let low = self.binary(Binary::MulU32, a, b);
        let (above, over) = (self.unary(Unary::ShiftRight64(32), a), self.unary(Unary::ShiftRight64(32), b));
        let (above, over) = (self.binary(Binary::MulU32, above, b), self.binary(Binary::MulU32, a, over));
        let both = self.binary(Binary::AddI64, above, over);
        let high = self.unary(Unary::ShiftLeft64(32), both);
        self.binary(Binary::AddI64, low, high)
    }
}
