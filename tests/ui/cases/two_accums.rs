use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum, other: Accum) -> Tensor {
    let d = accum + other;
    d
}

fn main() {}
