use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum) -> Tensor {
    const SCALE: f32 = 2.0;
    let d = SCALE * accum;
    d
}

fn main() {}
