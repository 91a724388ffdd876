use epilogue::prelude::*;

#[epilogue]
fn f0(accum: Accum) -> Tensor {
    let d = if accum > 0.0 { accum };
    d
}

#[epilogue]
fn f1(accum: Accum) -> Tensor {
    let d = if accum > 0.0 { accum } else if accum < -1.0 { 0.0 };
    d
}

#[epilogue]
fn f2(accum: Accum) -> Tensor {
    let d = if accum > 0.0 { let _x = accum; } else { accum };
    d
}

#[epilogue]
fn f3(accum: Accum, c: Tensor) -> Tensor {
    let d = if accum > 0.0 && c { accum } else { c };
    d
}

#[epilogue]
fn f4(accum: Accum, c: Tensor) -> Tensor {
    let mut x = c;
    let d = if accum > 0.0 || { x += 1.0; x > 0.0 } { accum } else { x };
    d
}

#[epilogue]
fn f5(accum: Accum) -> Tensor {
    let d = if !accum { accum } else { 0.0 };
    d
}

#[epilogue]
fn f6(accum: Accum) -> Tensor {
    let b = if accum > 0.0 { accum > 1.0 } else { accum };
    let d = if b { accum } else { 0.0 };
    d
}

#[epilogue]
fn f7(accum: Accum) -> Tensor {
    let d = if (accum > 0.0) == (accum > 1.0) { accum } else { 0.0 };
    d
}

fn main() {}
