use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum) -> Tensor {
    let d: Tensor<f16> = 2.0 * accum;
    d
}

fn main() {}
