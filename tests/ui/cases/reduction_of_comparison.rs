use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum) -> DeviceScalar {
    let count = reduction_op(accum > 0.0, All, Add);
    count
}

fn main() {}
