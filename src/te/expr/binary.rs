//! The operations of two operands.

use crate::expr::Op;
use crate::te::dtype::DType;

/// Operations of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// `a / b` of floating-point numbers.
    Div,
    /// `a / b` of integers, rounded down.
    FloorDiv,
    /// `a - b * floor(a / b)` of integers.
    FloorMod,
    /// The smaller; NaN if either is NaN.
    Min,
    /// The larger; NaN if either is NaN.
    Max,
    /// `a < b`
    Lt,
    /// `a <= b`
    Le,
    /// `a > b`
    Gt,
    /// `a >= b`
    Ge,
    /// `a == b`
    Eq,
    /// `a != b`
    Ne,
    /// Both hold; the second is evaluated only if the first holds.
    And,
    /// At least one holds; the second is evaluated only if the first does not hold.
    Or,
    /// The bits that two integers have both.
    BitAnd,
    /// The bits that one of two integers has, or both.
    BitOr,
    /// The bits that one of two integers has, and not both.
    BitXor,
    /// `a * 2^b` of integers, which wraps. It is 0 if `b` is negative or no less than the number of bits.
    Shl,
    /// `a / 2^b` of integers, rounded down. If `b` is negative or no less than the number of bits, it is 0, or -1 of a
    /// negative `a`.
    Shr,
}

impl Binary {
    /// The binary form of a primitive operation, if it has one.
    pub(super) const fn of(op: Op) -> Option<Self> {
        Some(match op {
            Op::Add => Self::Add,
            Op::Sub => Self::Sub,
            Op::Mul => Self::Mul,
            Op::Div => Self::Div,
            Op::Min => Self::Min,
            Op::Max => Self::Max,
            Op::Lt => Self::Lt,
            Op::Le => Self::Le,
            Op::Gt => Self::Gt,
            Op::Ge => Self::Ge,
            Op::Eq => Self::Eq,
            Op::Ne => Self::Ne,
            _ => return None,
        })
    }

    /// Whether it is an operation on the bits of integers.
    #[must_use]
    pub const fn is_bitwise(self) -> bool {
        matches!(self, Self::BitAnd | Self::BitOr | Self::BitXor | Self::Shl | Self::Shr)
    }

    /// The value of an operation on the bits of two integers of a type; `None` of another operation.
    pub(crate) const fn of_bits(self, a: i64, b: i64, dtype: DType) -> Option<i64> {
        // A negative number of places is a large one without its sign.
        let is_within = 0 <= b && b < 64;
        Some(dtype.wrap(match self {
            Self::BitAnd => a & b,
            Self::BitOr => a | b,
            Self::BitXor => a ^ b,
            Self::Shl if is_within => a << b,
            Self::Shl => 0,
            Self::Shr if dtype.is_unsigned() && !is_within => 0,
            Self::Shr if dtype.is_unsigned() => ((a as u64) >> b) as i64,
            Self::Shr => a >> if is_within { b } else { 63 },
            _ => return None,
        }))
    }

    /// Whether the result is a truth value.
    #[must_use]
    pub const fn is_truth(self) -> bool {
        matches!(self, Self::Lt | Self::Le | Self::Gt | Self::Ge | Self::Eq | Self::Ne | Self::And | Self::Or)
    }
}
