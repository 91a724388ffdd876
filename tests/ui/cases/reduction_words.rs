use epilogue::prelude::*;

#[epilogue]
fn f0(accum: Accum) -> ColumnVector {
    let r = reduction_op(accum, Row, Sum);
    r
}

#[epilogue]
fn f1(accum: Accum) -> ColumnVector {
    let r = reduction_op(accum, Rows, add);
    r
}

#[epilogue]
fn f2(accum: Accum) -> ColumnVector {
    let r = reduction_op(accum, Batch, Avg);
    r
}

#[epilogue]
fn f3(accum: Accum) -> ColumnVector {
    let r = reduction_op(accum, (Row, Column), 1.0);
    r
}

#[epilogue]
fn f4(accum: Accum) -> ColumnVector {
    let r = reduction_op(accum, Row);
    r
}

#[epilogue]
fn f5(accum: Accum) -> ColumnVector {
    let r = accum.reduction_op(Row, Add);
    r
}

#[epilogue]
fn f6(accum: Accum) -> ColumnVector {
    let r = reduction_op(accum, "row", "Add");
    r
}

fn main() {}
