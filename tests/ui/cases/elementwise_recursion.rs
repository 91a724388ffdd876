use epilogue::prelude::*;

#[elementwise]
fn ping(x: f32) -> f32 {
    if x > 0.0 { pong(x - 1.0) } else { x }
}

#[elementwise]
fn pong(x: f32) -> f32 {
    ping(x)
}

fn main() {}
