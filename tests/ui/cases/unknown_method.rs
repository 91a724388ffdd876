use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum) -> Tensor {
    let d = accum.frobnicate(2.0);
    d
}

fn main() {}
