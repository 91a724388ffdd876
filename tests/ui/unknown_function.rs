use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum) -> Tensor {
    let d = tahn(accum);
    d
}

fn main() {}
