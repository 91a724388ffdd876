use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum) -> Tensor {
    let positive = accum > 0.0;
    positive
}

fn main() {}
