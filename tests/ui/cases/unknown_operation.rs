use epilogue::prelude::*;

fn plain(x: f32) -> f32 {
    x
}

#[epilogue]
fn f(accum: Accum, c: Tensor) -> Tensor {
    let a = mish(accum);
    let b = maximum(a, 0.0);
    let s = sum(b);
    let r = rand();
    let p = permute(c, 1.0);
    let t = tahn(p);
    let o = plain(t);
    let d = o.mish().powi(2.0);
    d
}

/// Beside other mistakes.
#[epilogue]
fn g(accum: Accum) -> Tensor {
    let a = 2 * mish(accum) % missing;
    let d = plain(a);
    d
}

#[elementwise]
fn h(x: f32) -> f32 {
    softmax(x)
}

fn main() {}
