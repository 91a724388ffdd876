use epilogue::prelude::*;

#[elementwise]
fn factorial(n: f32) -> f32 {
    if n > 1.0 { n * factorial(n - 1.0) } else { 1.0 }
}

#[elementwise]
fn sum(x: f32) -> f32 {
    let r = reduction_op(x, Row, Add);
    r
}

#[elementwise]
fn early(x: f32) -> f32 {
    return x;
}

#[elementwise]
fn nothing(x: f32) -> f32 {
    let y = x;
}

#[elementwise]
fn typed(x: f32) -> f32 {
    let y: f64 = x;
    y
}

#[elementwise]
fn steps(x: f32) -> f32 {
    let mut y = x;
    for _ in 0..3 {
        y *= 0.5;
    }
    y
}

#[elementwise]
fn twice(x: f32) -> f32 {
    2 * x
}

fn main() {}
