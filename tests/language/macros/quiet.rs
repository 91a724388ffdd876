//! Code that the language allows, without a single warning.
#![deny(warnings, clippy::pedantic)]

use epilogue::Borrowed;
use epilogue::prelude::*;

const SCALE: f32 = 0.5;

/// Named otherwise.
#[epilogue(name = Other)]
#[must_use]
fn named(accum: Accum, _unused: Tensor, mut total: TensorMut) -> (Tensor, TensorMut) {
    let accum = (accum + SCALE) * std::f32::consts::E;
    #[allow(unused_variables)]
    let unused = accum * 2.0;
    let _also_unused = accum;
    total *= 2.0;
    (accum, total)
}

/// A reducer whose words don't all use all of its values.
#[reducer]
mod spread {
    const IDENTITY: (f32, f32) = (f32::NEG_INFINITY, f32::INFINITY);

    fn lift(x: f32) -> (f32, f32) {
        (x, x)
    }

    fn combine(a: (f32, f32), (most, mut least): (f32, f32)) -> (f32, f32) {
        least = min(least, a.1);
        (a.0.max(most), least)
    }

    fn finish(s: (f32, f32)) -> f32 {
        s.0 - s.1
    }
}

/// With a backward pass that nobody plans.
#[epilogue(backward)]
#[allow(dead_code)]
fn with_backward(accum: Accum, bias: RowVector) -> (Tensor, Tensor, ColumnVector) {
    let z = accum + bias;
    let y = gelu(z);
    let spread = reduction_op(z, Row, spread);
    (y, z, spread)
}

#[cfg(any())]
#[epilogue]
fn never(accum: Accum) -> Missing {
    accum
}

/// A condition after the attribute holds for all it makes.
#[epilogue]
#[cfg(any())]
fn never(accum: Accum) -> Tensor {
    let d = missing(accum);
    d
}

#[elementwise]
#[cfg(any())]
fn never(x: f32) -> f32 {
    missing(x)
}

#[elementwise]
#[inline]
#[deprecated]
fn old(x: f32) -> f32 {
    let mut y: f32 = x;
    y -= {
        let z = y.abs();
        1.0 * z
    };
    (-y).max(0.0)
}

macro_rules! generated {
    ($name:ident, $value:expr) => {
        #[epilogue]
        fn $name(accum: Accum) -> Tensor {
            let d = $value * accum;
            d
        }
    };
}
generated!(generated, 1.0 + 1.0);

macro_rules! scaled {
    ($name:ident, $x:ident, $value:expr) => {
        #[elementwise]
        fn $name($x: f32) -> f32 {
            $value * $x
        }
    };
}
scaled!(minus, x, x - 1.0);

fn run<'a>(c: &'a DeviceTensor, total: &'a mut DeviceTensor, accum: &'a mut DeviceTensor) -> Other<Borrowed<'a>> {
    Other { _unused: c, total, accum }
}

fn one(d: &mut DeviceTensor) -> Generated<Borrowed<'_>> {
    Generated { d }
}

#[test]
fn no_warning() {
    let _ = run;
    let _ = one;
    assert_eq!(<Generated as Epilogue>::tree().nodes().len(), 5);
    // One operand is one operand: (3 - 1) * 3.
    assert!((minus(3.0) - 6.0).abs() < 1e-6);
    #[allow(deprecated)]
    let value = old(-3.0);
    assert!(value > 5.0);
}
