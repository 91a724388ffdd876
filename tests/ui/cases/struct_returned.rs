use epilogue::prelude::*;

struct Outputs {
    d: f32,
    sums: f32,
}

#[epilogue]
fn f(accum: Accum) -> Outputs {
    let d = accum;
    let sums = reduction_op(d, Row, Add);
    Outputs { d, sums }
}

#[epilogue]
fn g(accum: Accum) -> (Tensor, ColumnVector) {
    let d = accum;
    let sums = reduction_op(d, Row, Add);
    Outputs { d, sums }
}

fn main() {}
