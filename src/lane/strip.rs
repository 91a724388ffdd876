//! Interprets steps on strips: one loop of vector code for each operation.

use epilogue_runtime::DataError;

use super::Operation;
use super::element::{Arithmetic, narrow_float};
use super::scalar::{Lanes, LanesMut, Scalar};
use crate::ElementType;
use crate::expr::Op;
use crate::simd::convert::integer_to_odd;
use crate::simd::{self, Vectorised, dispatch};

/// Runs `$body` with the lanes as `$x`.
macro_rules! of_class {
    ($lanes:expr, $x:ident => $body:expr) => {
        match $lanes {
            Lanes::F32($x) => $body,
            Lanes::F64($x) => $body,
            Lanes::I32($x) => $body,
            Lanes::I64($x) => $body,
        }
    };
}

/// Computes an operation. Operands have as many lanes as the result. If floats are computed of two floats, one operand
/// may be a single value.
///
/// # Errors
/// A divisor is 0.
pub(crate) fn compute(operation: Operation, to: LanesMut<'_>, operands: &[Lanes<'_>]) -> Result<(), DataError> {
    match (operation, to, operands) {
        (Operation::Apply(op), to, &[x, y]) if op.is_comparison() => compare(op, to, x, y),
        (Operation::Apply(Op::Select), to, &[c, x, y]) => select(to, c, x, y),
        (Operation::Cast(element), to, &[x]) => cast(element, to, x),
        (Operation::Truth, LanesMut::I32(to), &[x]) => {
            of_class!(x, x => is_not_zero(to, x));
        }
        (operation, LanesMut::F32(to), operands) => floats(operation, to, operands),
        (operation, LanesMut::F64(to), operands) => floats(operation, to, operands),
        (operation, LanesMut::I32(to), operands) => return i32::compute(operation, to, operands),
        (operation, LanesMut::I64(to), operands) => return i64::compute(operation, to, operands),
    }
    Ok(())
}

fn floats<T: Scalar + Arithmetic>(operation: Operation, to: &mut [T], operands: &[Lanes<'_>]) {
    match (operation, operands) {
        (Operation::Apply(op), operands) => {
            let operand = |i: usize| T::slice(operands[i.min(operands.len() - 1)]);
            simd::apply(op, to, [operand(0), operand(1), operand(2)]);
        }
        (Operation::Round(element), &[x]) => T::round_to(element, to, T::slice(x)),
        (Operation::Copy, &[x]) => to.copy_from_slice(T::slice(x)),
        _ => debug_assert!(false, "{operation:?} of floats {operands:?}"),
    }
}

/// Integers of a class.
trait Integer: Scalar {
    fn compute(operation: Operation, to: &mut [Self], operands: &[Lanes<'_>]) -> Result<(), DataError>;
}

macro_rules! integers {
    ($($ty:ty: $unsigned:ty),*) => {$(
        impl Integer for $ty {
            fn compute(operation: Operation, to: &mut [Self], operands: &[Lanes<'_>]) -> Result<(), DataError> {
                let operand = |i: usize| Self::slice(operands[i.min(operands.len() - 1)]);
                let (x, y) = (operand(0), operand(1));
                match operation {
                    Operation::FloorDiv | Operation::FloorMod if y.contains(&0) => {
                        return Err(DataError::DivisionByZero { divisor: None });
                    }
                    Operation::FloorDiv => zip(to, x, y, |x: Self, y| {
                        let down = x.wrapping_rem(y) != 0 && (x < 0) != (y < 0);
                        x.wrapping_div(y).wrapping_sub(Self::from(down))
                    }),
                    Operation::FloorMod => zip(to, x, y, |x: Self, y| {
                        let rest = x.wrapping_rem(y);
                        if rest != 0 && (rest < 0) != (y < 0) { rest + y } else { rest }
                    }),
                    Operation::Apply(Op::Add) => zip(to, x, y, Self::wrapping_add),
                    Operation::Apply(Op::Sub) => zip(to, x, y, Self::wrapping_sub),
                    Operation::Apply(Op::Mul) => zip(to, x, y, Self::wrapping_mul),
                    Operation::Apply(Op::Min) => zip(to, x, y, Self::min),
                    Operation::Apply(Op::Max) => zip(to, x, y, Self::max),
                    Operation::Apply(Op::Neg) => map(to, x, Self::wrapping_neg),
                    Operation::And => zip(to, x, y, |x, y| x & y),
                    Operation::Or => zip(to, x, y, |x, y| x | y),
                    Operation::Xor => zip(to, x, y, |x, y| x ^ y),
                    // A negative number of places is a large one without its sign. The shift itself is masked, so that it is
                    // compiled to vectors.
                    Operation::ShiftLeft => zip(to, x, y, |x: Self, y| {
                        let shifted = x.wrapping_shl(y as u32);
                        if (y as $unsigned) < <$unsigned>::BITS as $unsigned { shifted } else { 0 }
                    }),
                    Operation::ShiftRight => zip(to, x, y, |x: Self, y| {
                        x >> (y as $unsigned).min(<$unsigned>::BITS as $unsigned - 1)
                    }),
                    Operation::ShiftUnsigned => zip(to, x, y, |x: Self, y| {
                        let shifted = (x as $unsigned).wrapping_shr(y as u32) as Self;
                        if (y as $unsigned) < <$unsigned>::BITS as $unsigned { shifted } else { 0 }
                    }),
                    Operation::Not => map(to, x, |x| Self::from(x == 0)),
                    Operation::Copy => to.copy_from_slice(x),
                    _ => debug_assert!(false, "{operation:?} of integers {operands:?}"),
                }
                Ok(())
            }
        }
    )*};
}

integers!(i32: u32, i64: u64);

fn compare(op: Op, to: LanesMut<'_>, x: Lanes<'_>, y: Lanes<'_>) {
    match (to, x, y) {
        (LanesMut::F32(to), Lanes::F32(x), Lanes::F32(y)) => simd::apply(op, to, [x, y, y]),
        (LanesMut::F64(to), Lanes::F64(x), Lanes::F64(y)) => simd::apply(op, to, [x, y, y]),
        (LanesMut::I32(to), Lanes::F32(x), Lanes::F32(y)) => truths(op, to, x, y, [0, 1]),
        (LanesMut::I32(to), Lanes::F64(x), Lanes::F64(y)) => truths(op, to, x, y, [0, 1]),
        (LanesMut::I32(to), Lanes::I32(x), Lanes::I32(y)) => truths(op, to, x, y, [0, 1]),
        (LanesMut::I32(to), Lanes::I64(x), Lanes::I64(y)) => truths(op, to, x, y, [0, 1]),
        (LanesMut::F32(to), Lanes::I64(x), Lanes::I64(y)) => truths(op, to, x, y, [0.0, 1.0]),
        (LanesMut::F64(to), Lanes::I64(x), Lanes::I64(y)) => truths(op, to, x, y, [0.0, 1.0]),
        (to, x, y) => debug_assert!(false, "{op:?} of {x:?} and {y:?} in {to:?}"),
    }
}

/// The second of two values where a comparison holds, else the first.
fn truths<T: PartialOrd + Copy, U: Copy>(op: Op, to: &mut [U], x: &[T], y: &[T], [no, yes]: [U; 2]) {
    let truth = |holds: bool| if holds { yes } else { no };
    match op {
        Op::Lt => zip(to, x, y, |x, y| truth(x < y)),
        Op::Le => zip(to, x, y, |x, y| truth(x <= y)),
        Op::Gt => zip(to, x, y, |x, y| truth(x > y)),
        Op::Ge => zip(to, x, y, |x, y| truth(x >= y)),
        Op::Eq => zip(to, x, y, |x, y| truth(x == y)),
        _ => zip(to, x, y, |x, y| truth(x != y)),
    }
}

fn is_not_zero<T: Scalar>(to: &mut [i32], x: &[T]) {
    map(to, x, |x| i32::from(x != T::default()));
}

fn select(to: LanesMut<'_>, c: Lanes<'_>, x: Lanes<'_>, y: Lanes<'_>) {
    match (to, c) {
        (LanesMut::F32(to), Lanes::F32(c)) => simd::apply(Op::Select, to, [c, f32::slice(x), f32::slice(y)]),
        (LanesMut::F64(to), Lanes::F64(c)) => simd::apply(Op::Select, to, [c, f64::slice(x), f64::slice(y)]),
        (LanesMut::F32(to), Lanes::I32(c)) => dispatch(Choose { to, c, x: f32::slice(x), y: f32::slice(y) }),
        (LanesMut::F64(to), Lanes::I32(c)) => dispatch(Choose { to, c, x: f64::slice(x), y: f64::slice(y) }),
        (LanesMut::I32(to), Lanes::I32(c)) => dispatch(Choose { to, c, x: i32::slice(x), y: i32::slice(y) }),
        (LanesMut::I64(to), Lanes::I32(c)) => dispatch(Choose { to, c, x: i64::slice(x), y: i64::slice(y) }),
        (LanesMut::I64(to), Lanes::F32(c)) => dispatch(Choose { to, c, x: i64::slice(x), y: i64::slice(y) }),
        (LanesMut::I64(to), Lanes::F64(c)) => dispatch(Choose { to, c, x: i64::slice(x), y: i64::slice(y) }),
        (to, c) => debug_assert!(false, "a choice by {c:?} in {to:?}"),
    }
}

#[allow(clippy::unnecessary_cast, reason = "one of the types is the class's own")]
fn cast(element: ElementType, to: LanesMut<'_>, x: Lanes<'_>) {
    match (element, to) {
        (ElementType::F64, LanesMut::F64(to)) => of_class!(x, x => map(to, x, |x| x as f64)),
        (ElementType::F32, LanesMut::F32(to)) => of_class!(x, x => map(to, x, |x| x as f32)),
        (_, LanesMut::F32(to)) => match x {
            Lanes::F32(x) => f32::round_to(element, to, x),
            Lanes::F64(x) => map(to, x, |x| narrow_float(element, x)),
            Lanes::I32(x) => map(to, x, |x| narrow_float(element, f64::from(x))),
            Lanes::I64(x) => map(to, x, |x| narrow_float(element, integer_to_odd(x))),
        },
        (ElementType::I64 | ElementType::U64, LanesMut::I64(to)) => of_class!(x, x => map(to, x, |x| x as i64)),
        (ElementType::U32, LanesMut::I64(to)) => of_class!(x, x => map(to, x, |x| i64::from(x as u32))),
        (ElementType::I16, LanesMut::I32(to)) => of_class!(x, x => map(to, x, |x| i32::from(x as i16))),
        (ElementType::U16, LanesMut::I32(to)) => of_class!(x, x => map(to, x, |x| i32::from(x as u16))),
        (ElementType::I8, LanesMut::I32(to)) => of_class!(x, x => map(to, x, |x| i32::from(x as i8))),
        (ElementType::U8, LanesMut::I32(to)) => of_class!(x, x => map(to, x, |x| i32::from(x as u8))),
        (ElementType::I32, LanesMut::I32(to)) => of_class!(x, x => map(to, x, |x| x as i32)),
        (_, to) => debug_assert!(false, "{x:?} cast to {element} in {to:?}"),
    }
}

struct Map<'a, T, U, F> {
    to: &'a mut [U],
    x: &'a [T],
    f: F,
}

fn map<T: Copy, U>(to: &mut [U], x: &[T], f: impl Fn(T) -> U) {
    dispatch(Map { to, x, f });
}

impl<T: Copy, U, F: Fn(T) -> U> Vectorised for Map<'_, T, U, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (to, x) in self.to.iter_mut().zip(self.x) {
            *to = (self.f)(*x);
        }
    }
}

struct Zip<'a, T, U, F> {
    to: &'a mut [U],
    x: &'a [T],
    y: &'a [T],
    f: F,
}

fn zip<T: Copy, U>(to: &mut [U], x: &[T], y: &[T], f: impl Fn(T, T) -> U) {
    dispatch(Zip { to, x, y, f });
}

impl<T: Copy, U, F: Fn(T, T) -> U> Vectorised for Zip<'_, T, U, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for ((to, x), y) in self.to.iter_mut().zip(self.x).zip(self.y) {
            *to = (self.f)(*x, *y);
        }
    }
}

struct Choose<'a, T, C> {
    to: &'a mut [T],
    c: &'a [C],
    x: &'a [T],
    y: &'a [T],
}

impl<T: Copy, C: Scalar> Vectorised for Choose<'_, T, C> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (((to, c), x), y) in self.to.iter_mut().zip(self.c).zip(self.x).zip(self.y) {
            *to = if *c == C::default() { *y } else { *x };
        }
    }
}
