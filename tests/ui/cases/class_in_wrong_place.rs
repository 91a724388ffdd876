use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum, a: RowPartials) -> (Scalar, Accum) {
    let z = accum + a;
    let s = reduction_op(z, All, Add);
    (s, z)
}

fn main() {}
