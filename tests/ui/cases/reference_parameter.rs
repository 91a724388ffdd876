use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum, c: &Tensor, d: &mut Tensor) -> Tensor {
    let e = accum + c;
    e
}

fn main() {}
