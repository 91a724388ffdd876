use epilogue::prelude::*;

#[elementwise]
fn a(x: f64) -> f32 {
    x
}

#[elementwise]
fn b(x: f32) {
    x
}

#[elementwise]
fn c(x: &[f32], (y, z): f32) -> Vec<f32> {
    x
}

#[elementwise]
fn d() -> f32 {
    1.0
}

#[elementwise]
unsafe fn e<T>(x: f32) -> f32 {
    x
}

#[elementwise]
fn g(x: f32, x: f32) -> f32 {
    x
}

fn main() {}
