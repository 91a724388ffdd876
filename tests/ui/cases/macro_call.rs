use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum) -> Tensor {
    println!("{accum}");
    let d = max!(accum, 0.0);
    d
}

fn main() {}
