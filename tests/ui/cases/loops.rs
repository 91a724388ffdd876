use epilogue::prelude::*;

#[epilogue]
fn f0(accum: Accum) -> Tensor {
    let mut d = accum;
    while d > 1.0 {
        d *= 0.5;
    }
    d
}

#[epilogue]
fn f1(accum: Accum) -> Tensor {
    let mut d = accum;
    for _ in 0..3 {
        d *= 0.5;
    }
    d
}

#[epilogue]
fn f2(accum: Accum) -> Tensor {
    let d = loop {
        break accum;
    };
    d
}

fn main() {}
