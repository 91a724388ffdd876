use epilogue::prelude::*;

#[epilogue]
fn f0(accum: Accum) -> RowPartials {
    let means = reduction_op(accum, Row, Mean, threadblock_shape.n);
    means
}

#[epilogue]
fn f1(accum: Accum) -> ColumnVector<bool> {
    let any = reduction_op(accum, Row, Any);
    any
}

#[epilogue]
fn f2(accum: Accum) -> ColumnVector {
    let mean = reduction_op(accum > 0.0, Row, Mean);
    mean
}

#[epilogue]
fn f3(accum: Accum) -> ColumnVector {
    let all = reduction_op(row() < column(), Row, All);
    let d = all + 1.0;
    d
}

#[epilogue]
fn f4(accum: Accum) -> ColumnVector {
    let first = reduction_op(accum, Row, Variance);
    let second = reduction_op(accum * first, Row, Mean);
    let third = reduction_op(accum - second, Row, LogSumExp);
    third
}

#[epilogue]
fn f5(accum: Accum, scale: ColumnVector) -> ColumnVector {
    let d = reduction_op(scale, Row, LogSumExp);
    d
}

#[epilogue]
fn f6(accum: Accum) -> ColumnVector<f32> {
    let all = reduction_op(accum > 0.0, Row, All);
    all
}

#[epilogue]
fn f7(accum: Accum) -> DeviceScalar {
    let index = reduction_op(row(), All, Mean);
    let spread = reduction_op(accum, All, Var);
    spread
}

#[epilogue]
fn f9(accum: Accum) -> (ColumnVector<i64>, RowPartials, DeviceScalar<f32>) {
    let batched = reduction_op(accum, (Row, Batch), ArgMax);
    let partials = reduction_op(accum, Row, ArgMin, threadblock_shape.n);
    let place = reduction_op(accum, All, ArgMax);
    (batched, partials, place)
}

#[epilogue]
fn f10(accum: Accum) -> Tensor {
    let largest = reduction_op(accum, Row, ArgMax);
    let least = reduction_op(column(), Row, ArgMin);
    let d = accum + largest;
    d
}

// Vectors that differ along the axis, and a chain of four.
#[epilogue]
fn f8(accum: Accum, bias: RowVector) -> (Tensor, ColumnVector, DeviceScalar<bool>) {
    let log_sum = reduction_op(bias, Row, LogSumExp);
    let spread = reduction_op(accum - log_sum, Row, Variance);
    let any = reduction_op(bias > 0.0, All, Any);
    let d = if any { accum } else { spread };
    (d, log_sum, any)
}

#[epilogue]
fn f11(accum: Accum) -> (Tensor, ColumnVector<i32>, DeviceScalar<i64>) {
    let index = reduction_op(accum, Row, ArgMax);
    let place = reduction_op(accum, All, ArgMin) + 1;
    let d = if reduction_op(accum, Column, ArgMax) == row() && column() == index { 1.0 } else { 0.0 };
    (d, index, place)
}

fn main() {}
