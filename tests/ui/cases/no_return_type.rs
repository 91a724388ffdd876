use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum) {
    let d = accum + 1.0;
    d
}

fn main() {}
