use epilogue::prelude::*;

#[epilogue]
fn bias(accum: Accum, c: Tensor, alpha: Scalar) -> Tensor {
    let d = alpha * accum + c;
    d
}

fn run(gemm: &Gemm<Bias>, a: &DeviceTensor, c: &DeviceTensor, d: &mut DeviceTensor) -> Result<(), epilogue::Error> {
    gemm.run(a, a, Bias { c, d: c, alpha: 1.0 })?;
    gemm.run(a, a, Bias { c, d, alpha: "1" })?;
    let arguments = Bias { c: vec![1.0], d, alpha: 1.0 };
    gemm.run(a, a, arguments)
}

fn arguments(c: &DeviceTensor, d: &mut DeviceTensor) -> Bias {
    Bias { c, d, alpha: 1.0 }
}

fn main() {}
