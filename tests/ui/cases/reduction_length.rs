use epilogue::prelude::*;

#[epilogue]
fn f0(accum: Accum) -> RowPartials {
    let r = reduction_op(accum, Row, Add, threadblock_shape.m);
    r
}

#[epilogue]
fn f1(accum: Accum) -> ColumnPartials {
    let r = reduction_op(accum, Column, Add, threadblock_shape.n);
    r
}

#[epilogue]
fn f2(accum: Accum) -> DeviceScalar {
    let r = reduction_op(accum, All, Add, threadblock_shape.n);
    r
}

#[epilogue]
fn f3(accum: Accum) -> RowPartials {
    let r = reduction_op(accum, (Row, Batch), Add, threadblock_shape.n);
    r
}

#[epilogue]
fn f4(accum: Accum) -> RowPartials {
    let r = reduction_op(accum, Row, Add, threadblock_shape.k);
    r
}

#[epilogue]
fn f5(accum: Accum) -> RowPartials {
    let r = reduction_op(accum, Row, Add, 128);
    r
}

fn main() {}
