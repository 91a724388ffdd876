use epilogue::prelude::*;

#[epilogue(nam = Bias)]
fn a(accum: Accum) -> Tensor {
    accum
}

#[epilogue(Bias)]
fn b(accum: Accum) -> Tensor {
    accum
}

#[epilogue(name = "Bias")]
fn c(accum: Accum) -> Tensor {
    accum
}

#[epilogue(name = Bias, name = Other)]
fn d(accum: Accum) -> Tensor {
    accum
}

fn main() {}
