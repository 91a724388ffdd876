#![deny(unused)]

use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum, c: Tensor) -> Tensor {
    let mut d = accum;
    let e = 2.0 * d;
    d
}

fn main() {
    let _ = <F as epilogue::Epilogue>::tree();
    let _ = |f: F| f;
}
