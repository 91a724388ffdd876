//! 64-bit integers without a sign, by operations of those with one.
//!
//! A u64 is held as the i64 of its bits. Sums, products, bit operations, shifts, tests for equality and conversions
//! among integers are the same for both, and devices compute them. Operations that depend on the uppermost bit are written here.

use super::expression::{Binary, Expr};
use crate::ElementType;
use crate::te::dtype::DType;

/// An operation that depends on the uppermost bit; `None` of others.
pub(super) fn binary(op: Binary, a: &Expr, b: &Expr) -> Option<Expr> {
    Some(match op {
        Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge => Expr::binary(op, ordered(a), ordered(b)),
        Binary::Min => a.less(b).select(a, b),
        Binary::Max => a.less(b).select(b, a),
        Binary::FloorDiv => quotient(a, b),
        Binary::FloorMod => match power_of_two(b) {
            Some(_) => Expr::binary(Binary::BitAnd, a.clone(), b - 1),
            None => a - quotient(a, b) * b,
        },
        _ => return None,
    })
}

/// An i64 that is less than another exactly if the u64 is.
fn ordered(x: &Expr) -> Expr {
    match x.as_int() {
        Some(value) => Expr::wrapped(value ^ i64::MIN, DType::I64),
        None => Expr::binary(Binary::BitXor, x.cast(DType::I64), Expr::wrapped(i64::MIN, DType::I64)),
    }
}

fn power_of_two(x: &Expr) -> Option<u32> {
    let value = x.as_int()?.cast_unsigned();
    value.is_power_of_two().then(|| value.trailing_zeros())
}

fn shifted_right(x: &Expr, by: i64) -> Expr {
    Expr::binary(Binary::Shr, x.clone(), Expr::wrapped(by, DType::U64))
}

/// By a divisor of 2^63 or more, 1 or 0. By others, twice the quotient of the half, which may be 1 too small
/// (Warren, Hacker's Delight, "Unsigned division").
fn quotient(a: &Expr, by: &Expr) -> Expr {
    if let Some(places) = power_of_two(by) {
        return shifted_right(a, places.into());
    }
    let one = |holds: Expr| holds.select(Expr::wrapped(1, DType::U64), Expr::wrapped(0, DType::U64));
    let signed = by.as_int().map_or_else(|| by.cast(DType::I64), |by| Expr::wrapped(by, DType::I64));
    let half = shifted_right(a, 1).cast(DType::I64).floor_div(&signed);
    let most = half.cast(DType::U64) * 2;
    let rest = a - &most * by;
    signed.less(0).select(one(a.greater_equal(by)), most + one(rest.greater_equal(by)))
}

/// The nearest floating-point number. The half is rounded, with a bit that stands for the lost one, and doubled.
pub(super) fn to_float(x: &Expr, to: DType) -> Expr {
    let half = Expr::binary(Binary::BitOr, shifted_right(x, 1), Expr::binary(Binary::BitAnd, x.clone(), 1.into()));
    let signed = x.cast(DType::I64);
    signed.less(0).select(half.cast(DType::I64).cast(to) * 2.0, signed.cast(to))
}

/// Cut toward zero, at most the greatest u64; of negative numbers and NaN 0.
pub(super) fn from_float(x: &Expr) -> Expr {
    let is_wide = matches!(x.dtype(), DType::F32 | DType::Number(ElementType::F64));
    let x = if is_wide { x.clone() } else { x.cast(DType::F32) };
    // A NaN goes through a maximum; it is converted to 0.
    let (least, beyond) = (x.max(0.0), 9_223_372_036_854_775_808.0);
    let upper = (&x - beyond).cast(DType::I64).cast(DType::U64);
    let upper = Expr::binary(Binary::BitXor, upper, Expr::wrapped(i64::MIN, DType::U64));
    x.greater_equal(beyond).select(upper, least.cast(DType::I64).cast(DType::U64))
}
