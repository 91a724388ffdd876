use epilogue::prelude::*;

#[epilogue]
fn f0(accum: Accum) -> Tensor {
    let positive = accum > 0.0;
    let d = accum * positive;
    d
}

#[epilogue]
fn f1(accum: Accum) -> Tensor {
    let d = if accum { 1.0 } else { 0.0 };
    d
}

#[epilogue]
fn f2(accum: Accum) -> Tensor {
    let d = -(accum > 0.0);
    d
}

fn main() {}
