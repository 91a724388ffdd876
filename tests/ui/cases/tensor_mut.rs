use epilogue::prelude::*;

#[epilogue]
fn f0(accum: Accum, c: TensorMut) -> Tensor {
    let d = accum + c;
    d
}

#[epilogue]
fn f1(accum: Accum, c: TensorMut) -> (Tensor, Tensor) {
    let d = accum + c;
    (d, c)
}

#[epilogue]
fn f2(accum: Accum, c: TensorMut<f16>) -> Tensor<f32> {
    c += accum;
    c
}

fn main() {}
