use epilogue::prelude::*;

mod mine {
    use epilogue::prelude::elementwise;

    #[elementwise]
    pub(super) fn double(x: f32) -> f32 {
        2.0 * x
    }
}
use mine::double;

#[epilogue]
fn f(accum: Accum) -> Tensor {
    let d = dobule(accum);
    d
}

#[epilogue]
fn g(accum: Accum, c: Tensor) -> Tensor {
    let d = c(double(accum));
    d
}

fn main() {}
