//! Primitive operations over rows.

use super::{Float, Vectorised, dispatch};
use crate::expr::Op;

/// Applies an operation to every element of as many operands as it has; the others are not read. A comparison gives 1
/// for true, 0 for false; a selection takes a truth value of this form first. Slices have the same length. One operand
/// of two may be a single value.
pub(crate) fn apply<T: Float>(op: Op, to: &mut [T], operands: [&[T]; 3]) {
    dispatch(Apply { op, to, operands });
}

struct Apply<'a, T> {
    op: Op,
    to: &'a mut [T],
    operands: [&'a [T]; 3],
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

#[inline(always)]
fn zip3<T: Float>(to: &mut [T], [x, y, z]: [&[T]; 3], f: impl Fn(T, T, T) -> T) {
    for (((to, &x), &y), &z) in to.iter_mut().zip(x).zip(y).zip(z) {
        *to = f(x, y, z);
    }
}

impl<T: Float> Vectorised for Apply<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { op, to, operands } = self;
        let [x, y, _] = operands;
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
            Op::Fma => zip3(to, operands, T::fma),
            Op::Select => zip3(to, operands, |c, x, y| if c == T::ZERO { y } else { x }),
        }
    }
}
