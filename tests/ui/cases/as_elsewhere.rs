use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum, c: Tensor) -> Tensor {
    let a = f32::max(accum, c);
    let b = std::cmp::max(row(), column());
    let e = a ** 2.0 + real(b);
    let g = core::primitive::f32::powi(e, 2) + f64::hypot(a, c) + ::std::mem::take(c);
    let d = g * *c;
    d
}

#[epilogue]
fn reduced(accum: Accum) -> Tensor {
    let p = softmax(accum);
    let m = mean(accum);
    let s = accum.std() + accum.layer_norm();
    let d = p - m + s;
    d
}

#[elementwise]
fn clamped(x: f32) -> f32 {
    let mut y = f32::min(x, 1.0);
    for _ in 0..3 {
        y = y ** 2.0;
    }
    std::convert::identity(y)
}

fn main() {}
