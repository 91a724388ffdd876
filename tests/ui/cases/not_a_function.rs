use epilogue::prelude::*;

#[epilogue]
struct Bias {
    accum: f32,
}

#[elementwise]
const HALF: f32 = 0.5;

fn main() {}
