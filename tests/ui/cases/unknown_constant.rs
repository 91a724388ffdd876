use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum) -> Tensor {
    let d = SCALE * accum;
    d
}

fn main() {}
