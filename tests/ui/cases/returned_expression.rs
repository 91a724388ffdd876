use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum, c: Tensor) -> (Tensor, ColumnVector) {
    (2.0 * accum + c, reduction_op(c, Row, Add))
}

fn main() {}
