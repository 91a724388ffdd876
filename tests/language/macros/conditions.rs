//! Conditions that are combined mean what they mean in Rust, for NaN too, and integers are compared with integers.

use epilogue::Error;
use epilogue::prelude::*;

/// The host computes this as Rust does.
#[elementwise]
#[allow(clippy::eq_op, clippy::nonminimal_bool, clippy::neg_cmp_op_on_partial_ord)]
fn combined(x: f32, y: f32) -> f32 {
    let outside = !(x < y) || x == 2.0;
    if x > 0.0 && !(y > 1.0 || x != x) {
        x + 10.0
    } else if !outside && (y >= 2.0 || y == 0.0) {
        y + 20.0
    } else {
        select(outside && y != 1.0, 30.0, 40.0)
    }
}

#[epilogue]
fn combinations(accum: Accum, c: Tensor) -> (Tensor, Tensor) {
    let called = combined(accum, c);
    let outside = !(accum < c) || accum == 2.0;
    let written = if accum > 0.0 && !(c > 1.0 || accum != accum) {
        accum + 10.0
    } else if !outside && (c >= 2.0 || c == 0.0) {
        c + 20.0
    } else {
        select(outside && c != 1.0, 30.0, 40.0)
    };
    (called, written)
}

#[test]
fn conditions_are_combined_as_in_rust() -> Result<(), Error> {
    let device = Device::cpu();
    let values = [f32::NAN, f32::NEG_INFINITY, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0];
    let n = values.len();
    let (a, b) = (device.tensor(&values, [n, 1])?, device.full::<f32>([1, n], 1.0)?);
    let columns: Vec<f32> = values.iter().flat_map(|_| values).collect();
    let c = device.tensor(&columns, [n, n])?;
    let (mut called, mut written) = (device.zeros::<f32>([n, n])?, device.zeros::<f32>([n, n])?);
    let gemm = Gemm::plan::<Combinations>(&device, &a, &b)?;
    gemm.run(&a, &b, Combinations { c: &c, called: &mut called, written: &mut written })?;
    let expected: Vec<f32> = values.iter().flat_map(|x| values.iter().map(|y| combined(*x, *y))).collect();
    assert_eq!(called.to_vec::<f32>()?, expected);
    assert_eq!(written.to_vec::<f32>()?, expected);
    Ok(())
}

#[test]
fn an_if_of_two_conditions_is_one_choice() {
    #[epilogue]
    fn both(accum: Accum, c: Tensor) -> Tensor {
        let d = if accum > 0.0 && c > 0.0 { accum } else { c };
        d
    }
    // Two loads, 0.0 twice, two comparisons, `&&`, a choice.
    assert_eq!(Both::tree().nodes().len(), 8);
}

#[epilogue]
fn masked(accum: Accum, labels: Tensor<i32>, kinds: RowVector<u8>) -> Tensor {
    let same = labels;
    let ignored = same == -100 || (255) == kinds;
    let d = if ignored {
        0.0
    } else if accum.cast::<i8>() > 1 {
        2.0
    } else {
        accum
    };
    d
}

#[test]
fn integers_are_compared_with_integers() -> Result<(), Error> {
    let device = Device::cpu();
    let (a, b) = (device.tensor(&[1.0_f32, 2.0], [2, 1])?, device.full::<f32>([1, 3], 1.0)?);
    let labels = device.tensor(&[-100_i32, 100, 0, 7, -100, 3], [2, 3])?;
    let kinds = device.tensor(&[0_u8, 255, 1], [3])?;
    let mut d = device.zeros::<f32>([2, 3])?;
    let gemm = Gemm::plan::<Masked>(&device, &a, &b)?;
    gemm.run(&a, &b, Masked { labels: &labels, kinds: &kinds, d: &mut d })?;
    assert_eq!(d.to_vec::<f32>()?, [0.0, 0.0, 1.0, 2.0, 0.0, 2.0]);
    Ok(())
}
