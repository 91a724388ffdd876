use epilogue::prelude::*;

#[elementwise]
fn lerp(x: f32, y: f32, t: f32) -> f32 {
    x + t * (y - x)
}

#[epilogue]
fn f(accum: Accum) -> Tensor {
    let d = lerp(accum);
    d
}

#[epilogue]
fn g(accum: Accum, c: Tensor) -> Tensor {
    let d = lerp(accum, c, 0.5, 1.0);
    d
}

fn main() {}
