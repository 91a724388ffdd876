use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum) -> Tensor {
    let d = accum.maximum(0.0);
    d
}

fn main() {}
