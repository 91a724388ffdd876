use epilogue::prelude::{elementwise, epilogue};

#[elementwise]
fn softsign(x: f32) -> f32 {
    x / (1.0 + x.abs())
}

#[epilogue]
fn f(accum: Accum) -> Tensor {
    let d = softsgin(tanh(accum));
    d
}

fn main() {}
