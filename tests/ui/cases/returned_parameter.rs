use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum, c: Tensor, s: Scalar) -> (Tensor, Tensor, DeviceScalar) {
    let d = accum + s * c;
    (d, c, s)
}

fn main() {}
