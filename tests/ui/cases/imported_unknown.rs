mod mine {
    pub(crate) fn plain(x: f32) -> f32 {
        x
    }
}

use epilogue::evt::*;
use epilogue::prelude::*;
use mine::*;

/// What a glob import may bring, rustc knows.
#[epilogue]
fn f(accum: Accum) -> Tensor {
    let d = mine::triple(mish(plain(accum)));
    d
}

fn main() {}
