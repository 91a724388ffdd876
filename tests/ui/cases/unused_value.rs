use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum, c: Tensor) -> Tensor {
    accum + c;
    relu(accum);
    if accum > 0.0 { accum } else { c };
    accum
}

fn main() {}
