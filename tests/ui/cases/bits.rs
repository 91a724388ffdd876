use epilogue::prelude::*;

#[epilogue]
fn f0(accum: Accum, mask: Bits, other: Bits<bool>) -> (Bits, Bits, Tensor) {
    let keep = mask && accum > 0.0;
    let d = mask * accum;
    let e = accum;
    (keep, e, d)
}

#[epilogue]
fn f1(accum: Accum, mut mask: Bits, bias: RowVector, c: TensorMut<bool>) -> (Bits, Bits, Bits, Bits) {
    mask = accum > 0.0;
    let positive = bias > 0.0;
    let place = row() * column();
    let sums = reduction_op(mask, Row, Add, threadblock_shape.n);
    c = accum > bias;
    (positive, place, sums, c)
}

#[epilogue]
fn f2(accum: Accum, mask: Bits) -> (Tensor, Tensor<f32>, Bits) {
    let d = accum + integer(mask);
    let e = mask;
    let f = if mask { accum } else { 0 };
    (d, e, mask)
}

fn main() {}
