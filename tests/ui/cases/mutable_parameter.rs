use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum, mut c: Tensor) -> Tensor {
    c += accum;
    let d = c;
    d
}

fn main() {}
