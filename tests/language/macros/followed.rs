//! Advice of the macros for names of other libraries, followed: it compiles, and means what that library means.

use epilogue::prelude::*;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// One row's outputs, of the epilogue `E` whose product is this row.
fn of_row<'a, E: Epilogue>(device: &Device, row: &[f32], arguments: E::Arguments<'a>) -> Outcome {
    let (a, b) = (device.full::<f32>([1, 1], 1.0)?, device.tensor(row, [1, row.len()])?);
    Gemm::plan::<E>(device, &a, &b)?.run(&a, &b, arguments)?;
    Ok(())
}

#[track_caller]
fn near(x: &DeviceTensor, expected: &[f64]) {
    let found = x.to_vec::<f32>().expect("values");
    assert_eq!(found.len(), expected.len());
    for (x, y) in found.into_iter().zip(expected) {
        assert!((f64::from(x) - y).abs() <= 1e-6 * y.abs().max(1.0), "{x} for {y}");
    }
}

/// For `sum`, `mean`, `var`, `std`, `norm`, `logsumexp` and `prod`.
#[epilogue]
fn numbers(
    x: Accum,
) -> (ColumnVector, ColumnVector, ColumnVector, ColumnVector, ColumnVector, ColumnVector, ColumnVector) {
    let sum = reduction_op(x, Row, Add);
    let m = reduction_op(x, Row, Mean);
    let v = reduction_op(x, Row, Variance);
    let s = sqrt(reduction_op(x, Row, Variance));
    let n = sqrt(reduction_op(x, Row, SumSquares));
    let l = reduction_op(x, Row, LogSumExp);
    let r = reduction_op(x, Row, Max);
    (sum, m, v, s, n, l, r)
}

#[test]
fn reductions_to_a_number() -> Outcome {
    let device = Device::cpu();
    let [mut sum, mut m, mut v, mut s, mut n, mut l, mut r] =
        std::array::from_fn(|_| device.zeros::<f32>([1]).expect("memory"));
    let outputs = Numbers { sum: &mut sum, m: &mut m, v: &mut v, s: &mut s, n: &mut n, l: &mut l, r: &mut r };
    of_row::<Numbers>(&device, &[1.0, 2.0, 6.0], outputs)?;
    near(&sum, &[9.0]);
    near(&m, &[3.0]);
    near(&v, &[14.0 / 3.0]);
    near(&s, &[(14.0_f64 / 3.0).sqrt()]);
    near(&n, &[41.0_f64.sqrt()]);
    near(&l, &[(1.0_f64.exp() + 2.0_f64.exp() + 6.0_f64.exp()).ln()]);
    near(&r, &[6.0]);
    Ok(())
}

/// For `softmax`.
#[epilogue]
fn soft(x: Accum) -> Tensor {
    let e = exp(x - reduction_op(x, Row, Max));
    let d = e / reduction_op(e, Row, Add);
    d
}

/// For `log_softmax`.
#[epilogue]
fn log_soft(x: Accum) -> Tensor {
    let d = x - reduction_op(x, Row, LogSumExp);
    d
}

/// For `layer_norm` and `rms_norm`.
#[epilogue]
fn norm(x: Accum) -> Tensor {
    let d = x * rsqrt(reduction_op(x * x, Row, Mean) + 1e-5);
    d
}

/// For `argmax` and `argmin`.
#[epilogue]
fn places(x: Accum) -> (ColumnVector<i64>, ColumnVector<i64>) {
    let i = reduction_op(x, Row, ArgMax);
    let j = reduction_op(x, Row, ArgMin);
    (i, j)
}

/// For `f32::max`, `std::cmp::max`, `**`, `hypot`, and a `for` loop.
#[epilogue]
fn elementwise_words(accum: Accum, c: Tensor) -> (Tensor, Tensor, Tensor) {
    let larger = max(accum, c) + real(max(row(), column()));
    let power = pow(accum, 3.0) + square(c) + sqrt(accum * accum + c * c);
    let halved = halved_three_times(accum);
    (larger, power, halved)
}

#[elementwise]
fn halved_three_times(x: f32) -> f32 {
    let mut y = x;
    y *= 0.5;
    y *= 0.5;
    y *= 0.5;
    y
}

#[test]
fn reductions_in_a_row() -> Outcome {
    let device = Device::cpu();
    let row = [1.0, 2.0, 6.0];
    let wide = row.map(f64::from);
    let (total, squares): (f64, f64) = (wide.iter().map(|x| x.exp()).sum(), wide.iter().map(|x| x * x).sum());
    let mut d = device.zeros::<f32>([1, 3])?;
    of_row::<Soft>(&device, &row, Soft { d: &mut d })?;
    near(&d, &wide.map(|x| x.exp() / total));
    of_row::<LogSoft>(&device, &row, LogSoft { d: &mut d })?;
    near(&d, &wide.map(|x| x - total.ln()));
    of_row::<Norm>(&device, &row, Norm { d: &mut d })?;
    near(&d, &wide.map(|x| x / (squares / 3.0 + 1e-5).sqrt()));
    let (mut i, mut j) = (device.zeros::<i64>([1])?, device.zeros::<i64>([1])?);
    of_row::<Places>(&device, &row, Places { i: &mut i, j: &mut j })?;
    assert_eq!((i.to_vec::<i64>()?, j.to_vec::<i64>()?), (vec![2], vec![0]));
    Ok(())
}

#[test]
fn words_of_rust() -> Outcome {
    let device = Device::cpu();
    let c = device.tensor(&[4f32, 0.0, -8.0], [1, 3])?;
    let [mut larger, mut power, mut halved] = std::array::from_fn(|_| device.zeros::<f32>([1, 3]).expect("memory"));
    let outputs = ElementwiseWords { c: &c, larger: &mut larger, power: &mut power, halved: &mut halved };
    of_row::<ElementwiseWords>(&device, &[3.0, 2.0, 6.0], outputs)?;
    near(&larger, &[4.0, 3.0, 8.0]);
    near(&power, &[27.0 + 16.0 + 5.0, 8.0 + 2.0, 216.0 + 64.0 + 10.0]);
    near(&halved, &[0.375, 0.25, 0.75]);
    Ok(())
}
