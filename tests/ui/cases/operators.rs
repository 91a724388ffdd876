use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum, c: Tensor) -> Tensor {
    let a = accum % 2.0;
    let b = accum ^ c;
    let d = accum & c;
    let e = accum << 2.0;
    let g = accum?;
    let h = 0.0..accum;
    let i = column() % 2;
    let j = accum * real((row() + 1) % columns());
    a
}

fn main() {}
