use epilogue::prelude::*;

#[epilogue]
fn f(c: Tensor, accum: Accum) -> Tensor {
    let d = accum + c;
    d
}

fn main() {}
