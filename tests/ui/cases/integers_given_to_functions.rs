use epilogue::prelude::*;

#[epilogue]
fn f0(accum: Accum) -> Tensor {
    let a = tanh(row());
    let b = (column() - 1).sqrt();
    let c = max(accum, column());
    let d = row().cast::<f16>() + accum.cast::<bool>();
    d
}

#[epilogue]
fn f1(accum: Accum) -> ColumnVector {
    let s = reduction_op(column(), Row, Max);
    s
}

#[elementwise]
fn place(x: f32) -> f32 {
    x + real(row())
}

#[epilogue]
fn f2(accum: Accum) -> Tensor {
    let d = if row() && accum > 0.0 || !column() { accum } else { 0.0 };
    d
}

fn main() {}
