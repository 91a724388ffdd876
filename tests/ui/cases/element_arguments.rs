use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum<f32>, a: Scalar<f32>, b: Tensor<f32, 2>, c: Tensor<&f32>, d: Tensor<>) -> RowPartials<f16> {
    let z = reduction_op(a * accum + b, Row, Add, threadblock_shape.n);
    z
}

fn main() {}
