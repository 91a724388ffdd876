use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum, c: Tensor) -> Tensor {
    let a = c[0];
    let b = accum.x;
    let d = [accum, c];
    let e = (accum, c);
    let g = Pair { accum };
    a
}

fn main() {}
