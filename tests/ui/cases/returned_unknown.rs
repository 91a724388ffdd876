use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum) -> (Tensor, Tensor) {
    let output = 2.0 * accum;
    (outptu, D)
}

fn main() {}
