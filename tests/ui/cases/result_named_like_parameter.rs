use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum, c: Tensor) -> Tensor {
    let c = accum + c;
    c
}

fn main() {}
