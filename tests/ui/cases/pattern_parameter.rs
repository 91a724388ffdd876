use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum, (a, b): Tensor, _: Tensor, ref c: Tensor) -> Tensor {
    let d = accum + a + b + c;
    d
}

fn main() {}
