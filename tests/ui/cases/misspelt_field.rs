use epilogue::prelude::*;

#[epilogue]
fn bias(accum: Accum, c: Tensor, alpha: Scalar) -> Tensor {
    let d = alpha * accum + c;
    d
}

fn run<'a>(c: &'a DeviceTensor, d: &'a mut DeviceTensor) -> Bias<epilogue::Borrowed<'a>> {
    Bias { alpah: 1.0, c, d }
}

fn main() {}
