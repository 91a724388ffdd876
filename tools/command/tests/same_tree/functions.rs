//! Epilogues with everything that the language has, for both front ends: rustc compiles this file, and the command reads it.
#![allow(clippy::all, unused_qualifications, reason = "every form of the language, also those that nobody would write")]

use epilogue::prelude::*;
use std::f32::consts::{FRAC_1_SQRT_2 as HALF_ROOT, PI};

const LIMIT: f32 = -(2.0 + 0.1) * 3.0;
const TWICE: f32 = LIMIT / self::inner::THIRD;

mod inner {
    use super::TWICE;
    use epilogue::prelude::*;

    pub(crate) const THIRD: f32 = 1.0 / 3.0;

    /// One function of another's.
    #[elementwise]
    pub(crate) fn shifted(x: f32, by: f32) -> f32 {
        let y = super::squared_relu(x) + by;
        if !(y > TWICE) && y < 1.0 || x != x { y } else { -y }
    }

    pub(crate) mod deeper {
        use super::*;

        #[elementwise]
        pub(crate) fn soft(x: f32) -> f32 {
            let truth = x > 0.0 || x < -1.0;
            let x = if truth { shifted(x, THIRD) } else { x.max(-1.0).cast::<bf16>() };
            x
        }
    }
}

#[elementwise]
fn squared_relu(x: f32) -> f32 {
    let r = x.max(0.0);
    r * r
}

#[elementwise(cuda = "return x * x * x;")]
fn cubed(x: f32) -> f32 {
    x * x * x
}

use inner::deeper::{self, soft as softened};

/// Operators, literals, shadowing and assignments.
#[epilogue]
pub fn operators(accum: Accum, c: Tensor, bias: RowVector<f32>, scale: ColumnVector<bf16>, alpha: Scalar) -> Tensor {
    let x = alpha * accum + 0.1 * c - 0.1f32;
    let mut d = -x / (bias + 1e-3);
    d += scale * PI;
    d = d * HALF_ROOT;
    let alias = d;
    let d = { alias + LIMIT };
    let d = if d > TWICE && !(d < 0.0) || c == 1.0 { d } else { self::inner::THIRD };
    d
}

/// Calls and methods of every kind.
#[epilogue]
pub fn calls(accum: Accum) -> Tensor<f16> {
    let x = gelu(accum).max(0.5).clamp(-4.0, 4.0);
    let y = squared_relu(x) + self::cubed(x) + inner::shifted(x, 1.0) + inner::deeper::soft(x);
    let z = softened(y) + deeper::soft(y) + epilogue::ops::tanh(y) + select(y >= x, x, fma(x, y, 2.0));
    let d = z.cast::<f8e4m3>() + f32::EPSILON;
    d
}

/// Integers, positions and truth values.
#[epilogue]
pub fn places(
    accum: Accum,
    labels: ColumnVector<i64>,
    mask: Tensor<bool>,
) -> (Tensor, ColumnVector, Tensor<bool>, Tensor<i32>) {
    let here = column() == integer(labels);
    let d = if here || (row() + 2 * batch()).max(3) > -column() { accum } else { real(rows() - columns()) };
    let hits = reduction_op(if here { 1.0 } else { 0.0 }, Row, Add);
    let both = mask && !here;
    let place = min(row(), column());
    (d, hits, both, place)
}

/// Every reduction.
#[epilogue]
pub fn reductions(
    accum: Accum,
) -> (Tensor, ColumnVector, RowVector, DeviceScalar, RowPartials, ColumnPartials, RowVector) {
    let d = accum;
    let a = reduction_op(d, Row, Add);
    let b = reduction_op(d * 2.0, (Column, Batch), Max);
    let c = reduction_op(d, All, AbsMax);
    let e = reduction_op(d, Row, SumSquares, threadblock_shape.n);
    let f = reduction_op(d, Column, Min, threadblock_shape.m);
    let g = reduction_op(d, Column, Mul);
    (d, a, b, c, e, f, g)
}

/// Reductions as values: bound, shadowed, in the middle of an expression, in an `if`, of one another.
#[epilogue]
pub fn phases(
    accum: Accum,
    labels: ColumnVector<i64>,
    mask: Tensor,
) -> (Tensor, ColumnVector, ColumnVector<f16>, DeviceScalar) {
    let x = accum + mask;
    let largest = reduction_op(x, Row, Max);
    let e = exp(x - largest);
    let sum = reduction_op(e, Row, Add).max(1e-6);
    let mut d = e / sum;
    d *= 1.0 / (1.0 + reduction_op(d, All, AbsMax));
    let picked = reduction_op(if column() == integer(labels) { x } else { 0.0 }, Row, Add);
    let sum = if picked > 0.0 { log(sum) } else { -reduction_op(x, (Row, Batch), SumSquares).sqrt() };
    let loss = largest + sum - picked;
    let whole = reduction_op(x, All, Add) / real(rows() * columns());
    (d, loss, largest, whole)
}

/// Reductions that are made of others.
#[epilogue]
pub fn composed(accum: Accum, bias: RowVector) -> (Tensor, ColumnVector<bool>, ColumnVector, RowVector, DeviceScalar) {
    let x = accum + bias;
    let open = reduction_op(x > 0.0, Row, Any);
    let mean = reduction_op(x, Row, Mean);
    let spread = reduction_op(x, (Column, Batch), Variance);
    let log_sum = reduction_op(x, All, LogSumExp) - 1.0;
    let all = reduction_op(open && x < 1e4, All, All);
    let d = if all { x - mean } else { spread };
    (d, open, mean, spread, log_sum)
}

/// Where elements are.
#[epilogue]
pub fn extremes(accum: Accum) -> (Tensor, ColumnVector<i32>, RowVector<i64>, DeviceScalar<i64>) {
    let most = reduction_op(accum, Row, ArgMax);
    let least = max(reduction_op(accum, Column, ArgMin), 1);
    let place = reduction_op(accum, All, ArgMax) + 1;
    let d = if column() == most && row() != least { accum } else { real(place) };
    (d, most, least, place)
}

/// Random numbers of two seeds.
#[epilogue]
pub fn chances(accum: Accum, p: Scalar, seed: Seed, other: Seed, mask: Bits) -> (Tensor, Tensor<bool>, Bits) {
    let keep = random(seed) >= p && random(other, 4294967295) < 0.5;
    let d = if keep { accum / (1.0 - p) } else { random((seed), 1) - random(seed) };
    let both = keep && mask;
    (d, keep, both)
}

/// Several accumulators, a tensor that is changed in place, a name of the struct's own.
#[epilogue(name = Gated)]
pub fn gated_in_place(
    gate: Accum,
    up: Accum,
    mut state: TensorMut<f32>,
    _unused: DeviceScalar<f64>,
) -> (TensorMut, Tensor) {
    state = 0.5 * state + silu(gate) * up;
    let copy = state;
    (state, copy)
}

/// Names that other languages keep.
#[epilogue]
pub fn r#match(r#in: Accum, float: RowVector) -> Tensor {
    let r#type = r#in + float;
    r#type
}

/// Reducers: their functions have all that an elementwise function has, and tuples.
#[reducer]
mod soft_max {
    use super::{LIMIT, squared_relu};

    type Pair = (f32, f32);
    const NOTHING: f32 = f32::NEG_INFINITY;
    const IDENTITY: Pair = (self::NOTHING, 0.0);

    fn lift(x: f32) -> Pair {
        let scaled = x * 1.5f32;
        (scaled, 1.0)
    }

    fn combine(a: (f32, f32), (most, mut sum): Pair) -> Pair {
        let (high, low) = if a.0 < most { (most, a.0) } else { a };
        sum += a.1 - low.max(most);
        let (high, sum) = (sum, high);
        (sum, high)
    }

    fn finish(s: Pair) -> f32 {
        s.0 + log(s.1) * squared_relu(LIMIT)
    }
}

pub(crate) mod of_one {
    pub(crate) mod number {
        use epilogue::prelude::*;

        #[reducer]
        pub(crate) mod norm {
            const IDENTITY: f32 = 0.0;

            fn lift(x: f32) -> f32 {
                x * x
            }

            fn combine(a: f32, b: f32) -> f32 {
                a + b
            }

            fn finish(s: f32) -> f32 {
                sqrt(s)
            }
        }
    }
}

use of_one::number;

/// Reductions of the file's own.
#[epilogue]
pub fn own_reductions(accum: Accum) -> (Tensor, ColumnVector, DeviceScalar) {
    let most = reduction_op(accum, Row, soft_max);
    let norm = reduction_op(accum - most, (All, Batch), number::norm);
    let d = accum / norm;
    (d, most, norm)
}

/// Its backward pass is an epilogue of the file, too.
#[epilogue(backward(through = y, saved(z), gradients(bias), gradients_of_all(scale)), name = WithBackward)]
pub fn with_backward(accum: Accum, bias: RowVector, scale: ColumnVector<f32>) -> (Tensor, Tensor) {
    let z = accum + bias;
    let y = gelu(z) * scale;
    (y, z)
}
