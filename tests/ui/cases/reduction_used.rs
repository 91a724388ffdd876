use epilogue::prelude::*;

#[epilogue]
fn f0(accum: Accum) -> (Tensor, ColumnVector) {
    let sums = reduction_op(accum, Row, Add);
    let d = accum / sums;
    (d, sums)
}

#[epilogue]
fn f1(accum: Accum) -> Tensor {
    let d = accum / reduction_op(accum, Row, Add);
    d
}

#[epilogue]
fn f2(accum: Accum) -> ColumnVector {
    let sums = reduction_op(accum, Row, Add);
    let copy = sums;
    copy
}

#[epilogue]
fn f3(accum: Accum) -> ColumnVector {
    let mut sums = reduction_op(accum, Row, Add);
    sums += 1.0;
    sums
}

fn main() {}
