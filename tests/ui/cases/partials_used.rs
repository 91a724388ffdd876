use epilogue::prelude::*;

#[epilogue]
fn f0(accum: Accum) -> (Tensor, RowPartials) {
    let sums = reduction_op(accum, Row, Add, threadblock_shape.n);
    let d = accum / sums;
    (d, sums)
}

#[epilogue]
fn f1(accum: Accum) -> Tensor {
    let d = accum / reduction_op(accum, Column, Add, threadblock_shape.m);
    d
}

#[epilogue]
fn f2(accum: Accum) -> ColumnPartials {
    let mut sums = reduction_op(accum, Column, Add, threadblock_shape.m);
    sums += 1.0;
    sums
}

// Complete ones are values.
#[epilogue]
fn f3(accum: Accum) -> (Tensor, ColumnVector) {
    let mut sums = reduction_op(accum, Row, Add);
    sums += reduction_op(accum * sums, Row, Max);
    let d = accum / sums;
    (d, sums)
}

fn main() {}
