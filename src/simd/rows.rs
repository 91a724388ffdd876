//! Primitive operations over rows.

use super::{Float, Vectorised, dispatch};
use crate::expr::Op;

/// Applies a unary operation to every element. The slices must have the same length.
pub(crate) fn unary<T: Float>(op: Op, to: &mut [T], x: &[T]) {
    dispatch(Unary { op, to, x });
}

/// Applies a binary operation to pairs of elements; a comparison gives 1 for true, 0 for false. The slices must have
/// the same length, or an operand is a single value.
pub(crate) fn binary<T: Float>(op: Op, to: &mut [T], x: &[T], y: &[T]) {
    dispatch(Binary { op, to, x, y });
}

/// `Op::Fma`, or `Op::Select` (with a truth value from [`binary`] as its first operand). The slices must have the same
/// length.
pub(crate) fn select_fma<T: Float>(op: Op, to: &mut [T], x: &[T], y: &[T], z: &[T]) {
    dispatch(Ternary { op, to, x, y, z });
}

struct Unary<'a, T> {
    op: Op,
    to: &'a mut [T],
    x: &'a [T],
}

#[inline(always)]
fn map<T: Float>(to: &mut [T], x: &[T], f: impl Fn(T) -> T) {
    for (to, &x) in to.iter_mut().zip(x) {
        *to = f(x);
    }
}

/// Sine or cosine: the vector code for all elements; then scalar code for the few arguments that are too large for it.
#[inline(always)]
fn periodic<T: Float>(to: &mut [T], x: &[T], vector: impl Fn(T) -> T, scalar: impl Fn(f64) -> f64) {
    map(to, x, vector);
    let reducible = x.iter().fold(true, |all, x| all & x.sine_reducible());
    if !reducible {
        for (to, x) in to.iter_mut().zip(x).filter(|(_, x)| !x.sine_reducible()) {
            *to = T::from_f64(scalar(x.to_f64()));
        }
    }
}

impl<T: Float> Unary<'_, T> {
    #[inline(always)]
    fn fused_if<const FMA: bool>(self) {
        let Self { op, to, x } = self;
        match op {
            Op::Neg => map(to, x, |x| -x),
            Op::Abs => map(to, x, T::abs),
            Op::Exp => map(to, x, T::exp::<FMA>),
            Op::Exp2 => map(to, x, T::exp2::<FMA>),
            Op::Log => map(to, x, T::log::<FMA>),
            Op::Log2 => map(to, x, T::log2),
            Op::Log1p => map(to, x, T::log1p::<FMA>),
            Op::Sqrt => map(to, x, T::sqrt),
            // In f64, so that an f32 is rounded only once.
            Op::Rsqrt => map(to, x, |x| T::from_f64(1.0 / x.to_f64().sqrt())),
            Op::Recip => map(to, x, |x| T::ONE / x),
            Op::Tanh => map(to, x, T::tanh::<FMA>),
            Op::Erf => map(to, x, T::erf::<FMA>),
            Op::Sin => periodic(to, x, T::sin, libm::sin),
            Op::Cos => periodic(to, x, T::cos, libm::cos),
            Op::Floor => map(to, x, T::floor),
            Op::Ceil => map(to, x, T::ceil),
            Op::Round => map(to, x, T::round),
            Op::Add
            | Op::Sub
            | Op::Mul
            | Op::Div
            | Op::Min
            | Op::Max
            | Op::Pow
            | Op::Lt
            | Op::Le
            | Op::Gt
            | Op::Ge
            | Op::Eq
            | Op::Ne
            | Op::Fma
            | Op::Select => debug_assert!(false, "{op:?} is not unary"),
        }
    }
}

impl<T: Float> Vectorised for Unary<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        self.fused_if::<FMA>();
    }
}

struct Binary<'a, T> {
    op: Op,
    to: &'a mut [T],
    x: &'a [T],
    y: &'a [T],
}

#[inline(always)]
fn zip<T: Float>(to: &mut [T], x: &[T], y: &[T], f: impl Fn(T, T) -> T) {
    match (x, y) {
        (&[x], y) if to.len() != 1 => map(to, y, |y| f(x, y)),
        (x, &[y]) if to.len() != 1 => map(to, x, |x| f(x, y)),
        (x, y) => {
            for ((to, &x), &y) in to.iter_mut().zip(x).zip(y) {
                *to = f(x, y);
            }
        }
    }
}

#[inline(always)]
fn truth<T: Float>(c: bool) -> T {
    if c { T::ONE } else { T::ZERO }
}

impl<T: Float> Vectorised for Binary<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { op, to, x, y } = self;
        match op {
            Op::Add => zip(to, x, y, |x, y| x + y),
            Op::Sub => zip(to, x, y, |x, y| x - y),
            Op::Mul => zip(to, x, y, |x, y| x * y),
            Op::Div => zip(to, x, y, |x, y| x / y),
            Op::Min => zip(to, x, y, T::minimum),
            Op::Max => zip(to, x, y, T::maximum),
            Op::Pow => zip(to, x, y, T::pow),
            Op::Lt => zip(to, x, y, |x, y| truth(x < y)),
            Op::Le => zip(to, x, y, |x, y| truth(x <= y)),
            Op::Gt => zip(to, x, y, |x, y| truth(x > y)),
            Op::Ge => zip(to, x, y, |x, y| truth(x >= y)),
            Op::Eq => zip(to, x, y, |x, y| truth(x == y)),
            Op::Ne => zip(to, x, y, |x, y| truth(x != y)),
            Op::Neg
            | Op::Abs
            | Op::Exp
            | Op::Exp2
            | Op::Log
            | Op::Log2
            | Op::Log1p
            | Op::Sqrt
            | Op::Rsqrt
            | Op::Recip
            | Op::Tanh
            | Op::Erf
            | Op::Sin
            | Op::Cos
            | Op::Floor
            | Op::Ceil
            | Op::Round
            | Op::Fma
            | Op::Select => debug_assert!(false, "{op:?} is not binary"),
        }
    }
}

struct Ternary<'a, T> {
    op: Op,
    to: &'a mut [T],
    x: &'a [T],
    y: &'a [T],
    z: &'a [T],
}

impl<T: Float> Vectorised for Ternary<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { op, to, x, y, z } = self;
        let operands = to.iter_mut().zip(x).zip(y).zip(z);
        if op == Op::Select {
            for (((to, &c), &x), &y) in operands {
                *to = if c == T::ZERO { y } else { x };
            }
        } else {
            debug_assert!(op == Op::Fma, "{op:?} is not ternary");
            for (((to, &x), &y), &z) in operands {
                *to = x.fma(y, z);
            }
        }
    }
}
