use epilogue::prelude::*;

#[epilogue]
fn f() -> Tensor {
    let d = accum;
    d
}

fn main() {}
