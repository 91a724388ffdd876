use epilogue::prelude::*;

#[epilogue]
fn f0(accum: Accum) -> Tensor {
    let d = 2.0 * accum;
}

#[epilogue]
fn f1(accum: Accum) -> Tensor {
    let d = 2.0 * accum;
    d;
}

#[epilogue]
fn f2(accum: Accum) -> Tensor {
    
}

#[epilogue]
fn f3(accum: Accum) -> Tensor {
    let d = 2.0 * accum;
    ()
}

fn main() {}
