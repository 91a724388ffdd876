use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum) -> Tensor {
    let a = accum as f16;
    let b = a.cast();
    let c = b.cast::<f16>(1.0);
    let d = c.cast::<f16, f32>();
    d
}

fn main() {}
