use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum) -> Tensor {
    let a = 2 * accum;
    let b = 2.0f64 * a;
    let c = 0x10 + b;
    let d = true;
    let e = "text";
    let g = 2u8 * 'x';
    c
}

fn main() {}
