use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum, c: Tensor, c: RowVector) -> Tensor {
    let d = accum + c;
    d
}

fn main() {}
