use epilogue::prelude::*;

#[epilogue]
fn f0(accum: Accum) -> (Tensor, ColumnVector) {
    let d = 2.0 * accum;
    d
}

#[epilogue]
fn f1(accum: Accum) -> Tensor {
    let d = 2.0 * accum;
    let sums = reduction_op(d, Row, Add);
    (d, sums)
}

fn main() {}
