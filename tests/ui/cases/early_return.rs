use epilogue::prelude::*;

#[epilogue]
fn f0(accum: Accum, c: Tensor) -> Tensor {
    if c > 0.0 {
        return accum;
    }
    let d = accum + c;
    d
}

#[epilogue]
fn f1(accum: Accum, c: Tensor) -> Tensor {
    let d = accum + c;
    return d;
}

fn main() {}
