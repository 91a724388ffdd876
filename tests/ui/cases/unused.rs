#![deny(unused_variables, unused_mut)]
#![allow(dead_code)]

use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum, c: Tensor) -> Tensor {
    let mut d = accum;
    let e = 2.0 * d;
    d
}

fn main() {}
