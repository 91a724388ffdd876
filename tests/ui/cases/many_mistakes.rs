use epilogue::prelude::*;

/// Every mistake is reported, and only the mistakes: `Everything` exists with its fields.
#[epilogue]
fn everything(accum: Accum, c: Tensr, alpha: Scalar, beta: Scalar, bias: RowVector) -> (Tensor, ColumnVector, Tensor) {
    let scaled = 2 * alpha;
    while scaled > 1.0 {}
    let d = scaled * accum + bta * c;
    let sums = reduction_op(d, Rows, Sum);
    let e = sums + 1.0;
    (d, sums, bias)
}

fn run<'a>(c: &'a DeviceTensor, bias: &'a DeviceTensor, [d, sums]: [&'a mut DeviceTensor; 2]) -> usize {
    let everything = Everything { c, alpha: 1.0, beta: 0.0, bias, d, sums };
    epilogue::Arguments::arguments(everything).len()
}

fn main() {}
