//! Numbers with higher precision than the device's: f64 for f32 arithmetic, two f64 for f64 arithmetic.

use crate::expr::Op;

/// A number that the reference computes with.
pub(super) trait Wide: Copy {
    fn from_f64(x: f64) -> Self;
    /// The nearest f64.
    fn to_f64(self) -> f64;
    /// An operation that gives a number. The evaluator handles `Select`.
    fn apply(op: Op, operands: &[Self]) -> Self;
    /// A comparison.
    fn compare(op: Op, x: Self, y: Self) -> bool;
}

impl Wide for f64 {
    fn from_f64(x: f64) -> Self {
        x
    }

    fn to_f64(self) -> f64 {
        self
    }

    fn compare(op: Op, x: Self, y: Self) -> bool {
        match op {
            Op::Lt => x < y,
            Op::Le => x <= y,
            Op::Gt => x > y,
            Op::Ge => x >= y,
            Op::Eq => x == y,
            // `Ne`; other operations are not comparisons.
            _ => x != y,
        }
    }

    fn apply(op: Op, operands: &[Self]) -> Self {
        match (op, operands) {
            (Op::Neg, [x]) => -x,
            (Op::Abs, [x]) => x.abs(),
            (Op::Exp, [x]) => libm::exp(*x),
            (Op::Exp2, [x]) => libm::exp2(*x),
            (Op::Log, [x]) => libm::log(*x),
            (Op::Log2, [x]) => libm::log2(*x),
            (Op::Log1p, [x]) => libm::log1p(*x),
            (Op::Sqrt, [x]) => x.sqrt(),
            (Op::Rsqrt, [x]) => 1.0 / x.sqrt(),
            (Op::Recip, [x]) => 1.0 / x,
            (Op::Tanh, [x]) => libm::tanh(*x),
            (Op::Erf, [x]) => libm::erf(*x),
            (Op::Sin, [x]) => libm::sin(*x),
            (Op::Cos, [x]) => libm::cos(*x),
            (Op::Floor, [x]) => x.floor(),
            (Op::Ceil, [x]) => x.ceil(),
            (Op::Round, [x]) => x.round(),
            (Op::Add, [x, y]) => x + y,
            (Op::Sub, [x, y]) => x - y,
            (Op::Mul, [x, y]) => x * y,
            (Op::Div, [x, y]) => x / y,
            (Op::Min, [x, y]) => {
                if x.is_nan() || y.is_nan() {
                    f64::NAN
                } else {
                    x.min(*y)
                }
            }
            (Op::Max, [x, y]) => {
                if x.is_nan() || y.is_nan() {
                    f64::NAN
                } else {
                    x.max(*y)
                }
            }
            (Op::Pow, [x, y]) => libm::pow(*x, *y),
            (Op::Fma, [x, y, z]) => libm::fma(*x, *y, *z),
            _ => f64::NAN,
        }
    }
}
