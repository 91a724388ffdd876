use epilogue::prelude::*;

const TWO: f32 = 2.0;

#[epilogue]
fn f0(accum: Accum, half: Tensor<f16>, alpha: Scalar, mask: Tensor<bool>) -> Tensor {
    let a = integer(half);
    let b = integer(alpha);
    let c = integer(accum);
    let e = integer(accum + 1.0);
    let g = integer(TWO);
    let d = real(accum) + real(mask) + real(2);
    d
}

#[epilogue]
fn f1(accum: Accum, total: TensorMut<i32>) -> Tensor<i32> {
    total += 1.0;
    let again = integer(total);
    total = if again > 3 { accum } else { total };
    total
}

#[epilogue]
fn f2(accum: Accum, c: Tensor<i32>) -> Tensor {
    let a = row(1);
    let b = integer() + columns(accum);
    let d = real(row(), column());
    d
}

#[epilogue]
fn f3(accum: Accum) -> Tensor {
    let k = 3;
    let d = if row() > 99999999999999999999 { accum } else { 0.0 };
    d
}

fn main() {}
