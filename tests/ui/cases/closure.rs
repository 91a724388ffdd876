use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum) -> Tensor {
    let twice = |x| 2.0 * x;
    let d = twice(accum);
    d
}

fn main() {}
