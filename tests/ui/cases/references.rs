use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum) -> Tensor {
    let r = &accum;
    let d = *r + 1.0;
    d
}

fn main() {}
