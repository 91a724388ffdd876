use epilogue::prelude::*;

#[epilogue]
fn f0(accum: Accum, beta: Scalar) -> Tensor {
    let d = bta * accum;
    d
}

#[epilogue]
fn f1(accum: Accum) -> Tensor {
    let d = accum + bias;
    d
}

#[epilogue]
fn f2(accum: Accum) -> Tensor {
    let a = {
        let inner = 2.0 * accum;
        inner
    };
    let d = a + inner;
    d
}

fn main() {}
