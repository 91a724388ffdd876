use epilogue::prelude::*;

#[epilogue]
fn generic<T>(accum: Accum, c: Tensor<T>) -> Tensor
where
    T: Element,
{
    let d = accum + c;
    d
}

#[epilogue]
fn borrowing<'a>(accum: Accum) -> Tensor {
    accum
}

fn main() {}
