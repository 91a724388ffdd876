use epilogue::prelude::*;

#[epilogue]
fn f(a: Accum, b: Accum, c: Accum, d: Accum, e: Accum) -> Tensor {
    let x = a + b + c + d + e;
    x
}

fn main() {}
