//! Random expressions of every type, the same for each seed.

use epilogue::ElementType;
use epilogue::expr::Op;
use epilogue::te::{Binary, DType, Expr, Tensor};

const FLOATS: [Op; 19] = [
    Op::Neg,
    Op::Abs,
    Op::Exp,
    Op::Exp2,
    Op::Log,
    Op::Log2,
    Op::Log1p,
    Op::Sqrt,
    Op::Rsqrt,
    Op::Recip,
    Op::Tanh,
    Op::Erf,
    Op::Sin,
    Op::Cos,
    Op::Floor,
    Op::Ceil,
    Op::Round,
    Op::Pow,
    Op::Fma,
];
const BITS: [Binary; 5] = [Binary::BitAnd, Binary::BitOr, Binary::BitXor, Binary::Shl, Binary::Shr];
const ARITHMETIC: [Binary; 5] = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Min, Binary::Max];
const COMPARISONS: [Binary; 6] = [Binary::Lt, Binary::Le, Binary::Gt, Binary::Ge, Binary::Eq, Binary::Ne];

/// Makes expressions of tensors of equal shape at one point.
pub(crate) struct Generator<'a> {
    pub(crate) random: fastrand::Rng,
    pub(crate) inputs: &'a [Tensor],
    pub(crate) at: Vec<Expr>,
    /// Which inputs an expression reads.
    pub(crate) used: Vec<bool>,
}

impl Generator<'_> {
    pub(crate) fn dtype(&mut self) -> DType {
        // Index types are more frequent than others, so that arithmetic on loops occurs, too.
        match self.random.usize(0..16) {
            14 | 15 => DType::I32,
            i => ElementType::ALL[i].into(),
        }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.usize(0..from.len())]
    }

    /// An expression of a type.
    pub(crate) fn expression(&mut self, dtype: DType, depth: usize) -> Expr {
        if depth == 0 || self.random.usize(0..6) == 0 {
            return self.leaf(dtype);
        }
        let operand = |this: &mut Self| this.expression(dtype, depth - 1);
        match self.random.usize(0..8) {
            0 => {
                let from = self.dtype();
                self.expression(from, depth - 1).cast(dtype)
            }
            1 => {
                let condition = self.condition(depth - 1);
                let (a, b) = (operand(self), operand(self));
                condition.select(a, b)
            }
            2 if dtype.is_integer() => {
                // A divisor that is never zero, of either sign.
                let by = self.pick(&[1i64, 2, 3, 7, 8, -1, -3]);
                let by = if dtype.is_unsigned() { by.abs() } else { by };
                match self.random.usize(0..4) {
                    0 => operand(self).trunc_div(by),
                    1 => operand(self).trunc_mod(by),
                    2 => operand(self).floor_div(by),
                    _ => operand(self).floor_mod(by),
                }
            }
            2 => {
                let (a, b) = (operand(self), operand(self));
                Expr::binary(Binary::Div, a, b)
            }
            3 if dtype.is_integer() => {
                let op = self.pick(&BITS);
                let (a, b) = (operand(self), operand(self));
                Expr::binary(op, a, b)
            }
            3 | 4 if dtype.is_float() => {
                let op = self.pick(&FLOATS);
                let operands = (0..op.arity()).map(|_| operand(self)).collect();
                Expr::apply(op, operands)
            }
            _ => {
                let op = self.pick(&ARITHMETIC);
                let (a, b) = (operand(self), operand(self));
                Expr::binary(op, a, b)
            }
        }
    }

    fn condition(&mut self, depth: usize) -> Expr {
        let dtype = self.dtype();
        let comparison = |this: &mut Self| {
            let op = this.pick(&COMPARISONS);
            let (a, b) = (this.expression(dtype, depth / 2), this.expression(dtype, depth / 2));
            Expr::binary(op, a, b)
        };
        match self.random.usize(0..5) {
            0 => comparison(self).and(comparison(self)),
            1 => comparison(self).or(comparison(self)),
            2 => !comparison(self),
            _ => comparison(self),
        }
    }

    fn leaf(&mut self, dtype: DType) -> Expr {
        match self.random.usize(0..6) {
            0 if dtype.is_float() => Expr::constant(self.pick(&[0.0, 1.0, -1.0, 0.5, 3.0, 7.0]), dtype),
            0 => Expr::constant(self.pick(&[0.0, 1.0, 2.0, 3.0, 7.0]), dtype),
            1 => {
                let index = self.random.usize(0..self.at.len());
                self.at[index].clone().cast(dtype)
            }
            _ => {
                let place = self.random.usize(0..self.inputs.len());
                self.used[place] = true;
                let input = &self.inputs[place];
                input.at(self.at.as_slice()).cast(dtype)
            }
        }
    }
}
