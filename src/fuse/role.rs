//! Roles of a product's axes, and conversions that a product makes by itself.

use crate::ElementType;
use crate::te::DType;
use crate::te::expr::expression::{Expr, Kind};

/// The role of a product's axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Batch,
    Row,
    Column,
    Depth,
}

/// The expression below conversions that change no value.
pub(super) fn exact(x: &Expr) -> &Expr {
    let mut x = x;
    while let Kind::Cast(inner) = x.kind()
        && widens(inner.dtype(), x.dtype())
    {
        x = inner;
    }
    x
}

/// Whether every value of one type is a value of another. Floats of fewer than 32 bits are computed in f32.
fn widens(from: DType, to: DType) -> bool {
    use ElementType::{BF16, F8E4M3, F8E5M2, F16, F32, F64, I8, I32, I64, U8};
    let (DType::Number(from), DType::Number(to)) = (from, to) else { return false };
    match from {
        F16 | BF16 => matches!(to, F32 | F64),
        F8E4M3 | F8E5M2 => matches!(to, F16 | BF16 | F32 | F64),
        F32 => to == F64,
        I8 | U8 => matches!(to, I32 | I64 | F32 | F64),
        I32 => matches!(to, I64 | F64),
        _ => false,
    }
}
