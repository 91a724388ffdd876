use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum) -> (Tensor, Tensor) {
    let d = 2.0 * accum;
    (d, d)
}

fn main() {}
