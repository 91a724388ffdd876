use epilogue::prelude::*;

#[epilogue]
fn f(accum: Accum, a: Tensor<u64>, b: RowVector<String>) -> Tensor<char> {
    let z = accum + a + b;
    z
}

fn main() {}
