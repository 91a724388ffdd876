use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum, c: Tensor, r#c: Tensor) -> Tensor {
    let d = accum + c;
    d
}

#[epilogue]
fn g(accum: Accum, accum: Accum) -> Tensor {
    let d = accum;
    d
}

#[epilogue]
fn h(accum: Accum, c: Tensor) -> (Tensor, Tensor) {
    let d = accum + c;
    (d, d)
}

fn main() {}
