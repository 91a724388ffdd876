use epilogue::prelude::*;

#[epilogue]
fn f0(accum: Accum) -> DeviceScalar {
    let loss = log(reduction_op(exp(accum), Row, Add));
    let total = reduction_op(loss, All, Add);
    total
}

#[epilogue]
fn f1(accum: Accum) -> ColumnVector {
    let sums = reduction_op(accum, Column, Add);
    let largest = reduction_op(sums * real(columns()), Row, Max);
    largest
}

#[epilogue]
fn f2(accum: Accum, bias: RowVector) -> Tensor {
    let first = reduction_op(accum, Row, Add);
    let second = reduction_op(accum - first, Row, Add);
    let third = reduction_op(if second > 0.0 { accum } else { first }, Row, Add);
    let mut x = accum;
    x /= third;
    let fourth = reduction_op(x, Column, Add);
    let d = accum + bias * reduction_op(accum * fourth, All, Add);
    d
}

#[epilogue]
fn f3(accum: Accum) -> RowPartials {
    let largest = reduction_op(accum, Row, Max);
    let sums = reduction_op(exp(accum - largest), Row, Add, threadblock_shape.n);
    sums
}

#[epilogue]
fn f4(accum: Accum) -> DeviceScalar {
    let squares = reduction_op(accum, All, SumSquares);
    let twice = { let root = sqrt(squares); reduction_op(root, All, Max) };
    twice
}

// Vectors that are given may be reduced, and chains of four.
#[epilogue]
fn f5(accum: Accum, bias: RowVector) -> (Tensor, DeviceScalar) {
    let total = reduction_op(bias, All, Add);
    let a = reduction_op(accum * total, Row, Add);
    let b = reduction_op(accum - a, Row, Add);
    let c = reduction_op(accum - b, Row, Add);
    let d = accum - c;
    (d, total)
}

fn main() {}
