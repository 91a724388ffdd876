use epilogue::prelude::*;

#[epilogue]
fn f(c: Tensor) -> Tensor {
    let d = 2.0 * c;
    d
}

fn main() {}
