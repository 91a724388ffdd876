mod mine {
    pub(crate) fn plain(x: f32) -> f32 {
        x
    }
}

use epilogue::evt::*;
use epilogue::prelude::*;
use mine::*;

/// Only rustc knows the names that a glob import may bring.
#[epilogue]
fn f(accum: Accum) -> Tensor {
    let d = mine::triple(mish(plain(accum)));
    d
}

fn main() {}
