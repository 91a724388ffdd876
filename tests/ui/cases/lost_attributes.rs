use epilogue::prelude::*;

#[epilogue]
#[inline]
#[test]
fn f(accum: Accum, #[allow(unused)] c: Tensor) -> Tensor {
    #[rustfmt::skip]
    let d = accum + #[allow(unused)] c;
    d
}

fn main() {}
