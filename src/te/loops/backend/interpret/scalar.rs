//! One value, and its arithmetic in every type.

use epilogue_runtime::DataError;

use crate::ElementType;
use crate::expr::{Op, Real, fold};
use crate::te::dtype::DType;
use crate::te::error::{ExpressionError, LoweringError, TeError};
use crate::te::expr::expression::Binary;
use crate::te::expr::number;

/// A value: an integer, a truth value, or an exact floating-point number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// An integer; a truth value is 0 or 1, a u64 the i64 of its bits.
    Int(i64),
    /// A floating-point number.
    Float(f64),
}

impl Scalar {
    /// A number converted to a type: rounded to nearest even, or wrapped for integers.
    pub(crate) fn constant(value: f64, dtype: DType) -> Result<Self, TeError> {
        if dtype.is_float() || dtype == DType::U64 {
            Self::Float(value).in_type(dtype)
        } else {
            Self::Int(value as i64).in_type(dtype)
        }
    }

    pub(crate) fn to_f64(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    pub(crate) fn holds(self) -> bool {
        matches!(self, Self::Int(value) if value != 0)
    }

    /// The value converted to a type. Integers wrap. Floating-point numbers are truncated to integers, saturating.
    /// 8-bit floats saturate.
    pub(crate) fn in_type(self, dtype: DType) -> Result<Self, TeError> {
        let DType::Number(element) = dtype else {
            return Ok(Self::Int(i64::from(self.to_f64() != 0.0)));
        };
        Ok(match (element, self) {
            (_, Self::Int(x)) if dtype.is_integer() => Self::Int(dtype.wrap(x)),
            (_, Self::Float(x)) if dtype == DType::U64 => Self::Int((x as u64).cast_signed()),
            (_, Self::Float(x)) if dtype.is_integer() => {
                let (least, greatest) = dtype.range().unwrap_or((i64::MIN, i64::MAX));
                Self::Int((x as i64).clamp(least, greatest))
            }
            (float, Self::Int(x)) => Self::Float(number::round_integer(float, x)),
            (float, Self::Float(x)) => Self::Float(number::round(float, x)),
        })
    }

    /// An operation of two operands of one type.
    pub(crate) fn binary(op: Binary, a: Self, b: Self, dtype: DType) -> Result<Self, TeError> {
        match (a, b) {
            (Self::Int(a), Self::Int(b)) => {
                if let Some(value) = op.of_bits(a, b, dtype) {
                    return Ok(Self::Int(value));
                }
                integers(op, a, b, dtype)?.in_type(if op.is_truth() { DType::Bool } else { dtype })
            }
            _ => floats(op, a.to_f64(), b.to_f64(), dtype),
        }
    }

    /// A primitive operation of floating-point numbers of one type.
    pub(crate) fn apply(op: Op, operands: &[f64], dtype: DType) -> Result<Self, TeError> {
        let real = if dtype == DType::from(ElementType::F64) { Real::F64 } else { Real::F32 };
        match fold::apply(op, operands, real) {
            Some(value) => Self::Float(value).in_type(dtype),
            None => {
                Err(LoweringError::Target { what: format!("the operation {op:?}"), target: "the interpreter" }.into())
            }
        }
    }
}

fn integers(op: Binary, a: i64, b: i64, dtype: DType) -> Result<Scalar, TeError> {
    let truth = |holds: bool| Scalar::Int(i64::from(holds));
    let divisor = || match b {
        0 => Err(TeError::from(DataError::DivisionByZero { divisor: None })),
        b => Ok(b),
    };
    Ok(match op {
        Binary::Add => Scalar::Int(a.wrapping_add(b)),
        Binary::Sub => Scalar::Int(a.wrapping_sub(b)),
        Binary::Mul => Scalar::Int(a.wrapping_mul(b)),
        Binary::Div | Binary::FloorDiv => {
            let b = divisor()?;
            let quotient = a.wrapping_div(b);
            let down = a.wrapping_rem(b) != 0 && ((a < 0) != (b < 0));
            Scalar::Int(quotient - i64::from(down))
        }
        Binary::FloorMod => {
            let b = divisor()?;
            let rest = a.wrapping_rem(b);
            Scalar::Int(if rest != 0 && ((rest < 0) != (b < 0)) { rest + b } else { rest })
        }
        Binary::Min => Scalar::Int(a.min(b)),
        Binary::Max => Scalar::Int(a.max(b)),
        Binary::Lt => truth(a < b),
        Binary::Le => truth(a <= b),
        Binary::Gt => truth(a > b),
        Binary::Ge => truth(a >= b),
        Binary::Eq => truth(a == b),
        Binary::Ne => truth(a != b),
        Binary::And => truth(a != 0 && b != 0),
        Binary::Or => truth(a != 0 || b != 0),
        Binary::BitAnd | Binary::BitOr | Binary::BitXor | Binary::Shl | Binary::Shr => {
            return Err(ExpressionError::OperandType { operation: format!("{op:?}"), given: dtype }.into());
        }
    })
}

fn floats(op: Binary, a: f64, b: f64, dtype: DType) -> Result<Scalar, TeError> {
    let truth = |holds: bool| Ok(Scalar::Int(i64::from(holds)));
    let operation = match op {
        Binary::Add => Op::Add,
        Binary::Sub => Op::Sub,
        Binary::Mul => Op::Mul,
        Binary::Div => Op::Div,
        Binary::Min => Op::Min,
        Binary::Max => Op::Max,
        Binary::Lt => return truth(a < b),
        Binary::Le => return truth(a <= b),
        Binary::Gt => return truth(a > b),
        Binary::Ge => return truth(a >= b),
        Binary::Eq => return truth(a == b),
        Binary::Ne => return truth(a != b),
        _ => {
            return Err(ExpressionError::OperandType { operation: format!("{op:?}"), given: dtype }.into());
        }
    };
    Scalar::apply(operation, &[a, b], dtype)
}
