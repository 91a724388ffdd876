use epilogue::prelude::*;

#[epilogue]
fn f0(accum: Accum, bias: RowVector) -> (Tensor, Tensor) {
    let d = accum + bias;
    let r = 2.0 * bias;
    (d, r)
}

#[epilogue]
fn f1(accum: Accum, alpha: Scalar) -> Tensor {
    let d = 2.0 * alpha;
    d
}

#[epilogue]
fn f2(accum: Accum) -> Tensor {
    let sums = reduction_op(accum, Row, Add);
    sums
}

#[epilogue]
fn f3(accum: Accum) -> RowVector {
    let sums = reduction_op(accum, Row, Add);
    sums
}

#[epilogue]
fn f4(accum: Accum) -> ColumnVector {
    let sums = reduction_op(accum, Row, Add, threadblock_shape.n);
    sums
}

#[epilogue]
fn f5(accum: Accum) -> ColumnVector {
    let d = 2.0 * accum;
    d
}

#[epilogue]
fn f6(accum: Accum) -> TensorMut {
    let d = 2.0 * accum;
    d
}

fn main() {}
