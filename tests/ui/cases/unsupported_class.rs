use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum, a: Vec<f32>, b: f32, c: [Tensor; 2], d: DeviceTensor, e: Tensr, f: impl Fn()) -> Matrix {
    let z = accum + a;
    z
}

fn main() {}
