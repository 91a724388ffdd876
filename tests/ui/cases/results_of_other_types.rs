use epilogue::prelude::*;

#[epilogue]
fn f0(accum: Accum) -> (Tensor<f16>, Tensor<i32>, Tensor<bool>, Tensor<bool>) {
    let keep = accum > 0.0;
    let mask = keep && row() > 2;
    let number = accum + 1.0;
    let place = row() + column();
    (keep, mask, number, place)
}

#[epilogue]
fn f1(accum: Accum) -> (ColumnVector<f32>, RowVector, ColumnVector<bool>) {
    let place = row() * 2;
    let line = row();
    let any = reduction_op(accum, Row, Max);
    (place, line, any)
}

#[epilogue]
fn f2(accum: Accum, total: TensorMut<bool>) -> Tensor<bool> {
    total = total && accum > 0.0;
    total = accum;
    total
}

#[epilogue]
fn f3(accum: Accum, mask: Tensor<bool>) -> Tensor {
    let a = mask + accum;
    let b = mask == mask;
    let d = relu(mask) * a;
    d
}

fn main() {}
