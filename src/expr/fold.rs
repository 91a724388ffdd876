//! Evaluates operations on constants.

use super::{Op, Real};

/// The result of an operation on constants, computed in the arithmetic type; `None` for comparisons and selects.
///
/// Operations that IEEE 754 rounds correctly give the same bits as every device; the others are computed accurately in
/// f64, and then rounded.
pub(crate) fn apply(op: Op, operands: &[f64], real: Real) -> Option<f64> {
    let exact = match (op, operands) {
        (Op::Neg, [x]) => -x,
        (Op::Abs, [x]) => x.abs(),
        (Op::Exp, [x]) => libm::exp(*x),
        (Op::Exp2, [x]) => libm::exp2(*x),
        (Op::Log, [x]) => libm::log(*x),
        (Op::Log2, [x]) => libm::log2(*x),
        (Op::Log1p, [x]) => libm::log1p(*x),
        // Rounding a correctly rounded f64 sum, product, quotient or root of f32 operands to f32 is the correctly
        // rounded f32 result (Figueroa 1995: 53 >= 2 * 24 + 2).
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
        (Op::Min, [x, y]) => minimum(*x, *y),
        (Op::Max, [x, y]) => -minimum(-x, -y),
        (Op::Pow, [x, y]) => libm::pow(*x, *y),
        (Op::Fma, [x, y, z]) => return Some(fma(*x, *y, *z, real)),
        _ => return None,
    };
    Some(real.round(exact))
}

/// A comparison of constants; `None` for other operations.
pub(crate) fn compare(op: Op, x: f64, y: f64) -> Option<bool> {
    Some(match op {
        Op::Lt => x < y,
        Op::Le => x <= y,
        Op::Gt => x > y,
        Op::Ge => x >= y,
        Op::Eq => x == y,
        Op::Ne => x != y,
        _ => return None,
    })
}

/// An operation on integers, which wrap; `None` for operations that don't give an integer.
pub(crate) fn integers(op: Op, operands: &[i64]) -> Option<i64> {
    Some(match (op, operands) {
        (Op::Neg, [x]) => x.wrapping_neg(),
        (Op::Add, [x, y]) => x.wrapping_add(*y),
        (Op::Sub, [x, y]) => x.wrapping_sub(*y),
        (Op::Mul, [x, y]) => x.wrapping_mul(*y),
        (Op::Min, [x, y]) => *x.min(y),
        (Op::Max, [x, y]) => *x.max(y),
        _ => return None,
    })
}

/// A comparison of integers; `None` for other operations.
pub(crate) fn compare_integers(op: Op, x: i64, y: i64) -> Option<bool> {
    Some(match op {
        Op::Lt => x < y,
        Op::Le => x <= y,
        Op::Gt => x > y,
        Op::Ge => x >= y,
        Op::Eq => x == y,
        Op::Ne => x != y,
        _ => return None,
    })
}

/// IEEE 754-2019 `minimum`: NaN if either is NaN, and −0 is below +0.
fn minimum(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        f64::NAN
    } else if x < y || (x == y && x.is_sign_negative()) {
        x
    } else {
        y
    }
}

fn fma(x: f64, y: f64, z: f64, real: Real) -> f64 {
    match real {
        Real::F64 => libm::fma(x, y, z),
        #[expect(clippy::cast_possible_truncation)]
        Real::F32 => f64::from(libm::fmaf(x as f32, y as f32, z as f32)),
    }
}
