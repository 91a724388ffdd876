use epilogue::prelude::*;

#[elementwise(cude = "return x;")]
fn a(x: f32) -> f32 {
    x
}

#[elementwise(cuda = "x")]
fn b(x: f32) -> f32 {
    x
}

#[elementwise(cuda = x)]
fn c(x: f32) -> f32 {
    x
}

fn main() {}
