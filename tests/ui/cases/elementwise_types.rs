use epilogue::prelude::*;

#[elementwise]
fn positive(x: f32) -> f32 {
    x > 0.0
}

#[elementwise]
fn unknown(x: f32) -> f32 {
    x.frobnicate() + sech(x)
}

fn main() {}
