use epilogue::prelude::*;

#[epilogue]
fn f0(accum: Accum, x: Tensor) -> Tensor {
    let a = accum + row();
    let b = column() * x;
    let d = if column() < 2.0 * accum { a } else { b };
    d
}

#[epilogue]
fn f1(accum: Accum, labels: ColumnVector<i64>, past: Scalar) -> Tensor {
    let hot = if column() == labels { 1.0 } else { 0.0 };
    let d = if column() > row() + past { hot } else { accum };
    d
}

#[epilogue]
fn f2(accum: Accum) -> Tensor {
    let mut place = row() + 1;
    place += 0.5;
    place *= accum;
    let d = accum * (2 * row() + column());
    d
}

#[epilogue]
fn f3(accum: Accum) -> (Tensor, Tensor) {
    let d = if accum > 0.0 { row() } else { accum };
    let e = if accum > 0.0 { 1.0 } else { column() };
    (d, e)
}

#[epilogue]
fn f4(accum: Accum) -> Tensor {
    let half = row() / 2;
    let d = accum * real(half);
    d
}

fn main() {}
