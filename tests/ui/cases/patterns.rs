use epilogue::prelude::*;

#[epilogue]
fn f0(accum: Accum, c: Tensor) -> Tensor {
    let (a, b) = (accum, c);
    let d = a + b;
    d
}

#[epilogue]
fn f1(accum: Accum) -> Tensor {
    let _ = accum;
    let ref d = accum;
    let e @ _ = accum;
    e
}

#[epilogue]
fn f2(accum: Accum) -> Tensor {
    let d = match accum {
        x => x,
    };
    d
}

#[epilogue]
fn f3(accum: Accum) -> Tensor {
    let d = if let x = accum { x } else { 0.0 };
    d
}

#[epilogue]
fn f4(accum: Accum) -> Tensor {
    let Some(d) = accum else { return };
    d
}

#[epilogue]
fn f5(accum: Accum) -> Tensor {
    let d;
    d = accum;
    d
}

fn main() {}
