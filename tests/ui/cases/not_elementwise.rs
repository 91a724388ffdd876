use epilogue::prelude::*;

fn plain(x: f32) -> f32 {
    x
}

#[epilogue]
fn f(accum: Accum) -> Tensor {
    let d = plain(accum);
    d
}

fn main() {}
