use epilogue::prelude::*;

#[epilogue]
fn f0(accum: Accum) -> Tensor {
    let d = accum;
    d += 1.0;
    d
}

#[epilogue]
fn f1(accum: Accum, c: Tensor) -> Tensor {
    c += accum;
    let d = c;
    d
}

#[epilogue]
fn f2(accum: Accum) -> Tensor {
    accum = 2.0 * accum;
    accum
}

#[epilogue]
fn f3(accum: Accum) -> Tensor {
    let mut d = accum;
    if accum > 0.0 {
        d = 0.0;
    }
    d
}

#[epilogue]
fn f4(accum: Accum) -> Tensor {
    let mut d = accum;
    let e = if accum > 0.0 {
        d = 0.0;
        d
    } else {
        d
    };
    e
}

#[epilogue]
fn f5(accum: Accum) -> Tensor {
    let mut d = accum;
    d %= 2.0;
    e += 1.0;
    let f = d = 2.0;
    d
}

fn main() {}
