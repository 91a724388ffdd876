use epilogue::prelude::*;

const COUNT: i32 = 3;

#[epilogue]
fn f(accum: Accum) -> Tensor {
    let d = COUNT * accum + std::f64::consts::PI;
    d
}

fn main() {}
