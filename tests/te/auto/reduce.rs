//! Automatic reductions on an emulated GPU, with the race detector on, compared with sums computed directly.

use epilogue::te::auto::Order;
use epilogue::te::{self, Axis, Binary, DType, Expr, Reducer, TeError, Tensor, var};
use epilogue::{Arch, Device, DeviceTensor, ElementType};
use epilogue_runtime::testing;
use half::{bf16, f16};
use proptest::prelude::*;

use crate::auto::shared::{emulated, laid_out, numbers};
use crate::values::integers_in;

fn row_sums() -> Result<Tensor, TeError> {
    let (n, m) = (var("n"), var("m"));
    let a = te::placeholder([n, m], "A");
    let k = te::reduce_axis((0, m), "k");
    te::compute([n], "B", |[i]| te::sum(a.at([i, k]), [k]))
}

#[test]
fn rows_of_any_shape() -> Result<(), TeError> {
    if testing::compiler("rows_of_any_shape").is_none() {
        return Ok(());
    }
    let device = emulated(Arch::SM_80);
    let kernel = te::auto::reduce(&row_sums()?)?.build(&device)?;
    for (n, m) in [(1, 1), (3, 5), (7, 64), (5, 1000), (0, 4), (4, 0), (1, 5000), (300, 33)] {
        let values = integers_in(n * m, (n * 1000 + m) as u64, -8..=8);
        let a = device.tensor(&values, [n, m])?;
        let mut b = device.full::<f32>([n], f32::NAN)?;
        kernel.run(&[(&a).into(), (&mut b).into()])?;
        let expected: Vec<f32> = (0..n).map(|i| values[i * m..(i + 1) * m].iter().sum()).collect();
        assert_eq!(b.to_vec::<f32>()?, expected, "{n} x {m}: {}", kernel.choice());
    }
    Ok(())
}

/// Reducers whose results are exact for small integers, in any order.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Sum,
    Max,
    Min,
    SumAndMax,
    ArgMax,
    /// 2x2 matrices of wrapping integers: associative, not commutative.
    Matrices,
}

const KINDS: [Kind; 6] = [Kind::Sum, Kind::Max, Kind::Min, Kind::SumAndMax, Kind::ArgMax, Kind::Matrices];

/// The larger value, at the lower index of equal ones.
fn argmax() -> Reducer {
    te::tuple_reducer(
        |x, y| {
            let same = x[1].clone().equal(&y[1]).and(x[0].clone().less(&y[0]));
            let left = x[1].clone().greater(&y[1]).or(same);
            vec![left.clone().select(&x[0], &y[0]), left.select(&x[1], &y[1])]
        },
        |types| vec![Expr::constant(2147483647.0, types[0]), Expr::constant(f64::NEG_INFINITY, types[1])],
        "argmax",
    )
}

fn matrices() -> Reducer {
    te::tuple_reducer(
        |x, y| {
            let dot = |i: usize, j: usize| &x[2 * i] * &y[j] + &x[2 * i + 1] * &y[2 + j];
            vec![dot(0, 0), dot(0, 1), dot(1, 0), dot(1, 1)]
        },
        |types| [1.0, 0.0, 0.0, 1.0].map(|x| Expr::constant(x, types[0])).to_vec(),
        "product",
    )
    .associative_only()
}

/// The reductions of `a[i, j, k]`, with the index of the axes.
fn body(kind: Kind, a: &Expr, place: &Expr, axes: &[Axis]) -> Vec<Expr> {
    let integer = || a.clone().cast(ElementType::I32);
    match kind {
        Kind::Sum => vec![te::sum(a, axes)],
        Kind::Max => vec![te::max(a, axes)],
        Kind::Min => vec![te::min(a, axes)],
        Kind::SumAndMax => te::tuple_reducer(
            |x, y| vec![&x[0] + &y[0], Expr::binary(Binary::Max, x[1].clone(), y[1].clone())],
            |types| vec![Expr::constant(0.0, types[0]), Expr::constant(f64::NEG_INFINITY, types[1])],
            "sum and maximum",
        )
        .over_all(&[a * 2.0, a.clone()], axes),
        Kind::ArgMax => argmax().over_all(&[place.clone(), a.clone()], axes),
        Kind::Matrices => matrices().over_all(&[integer(), integer() + 1, Expr::int(1), integer() * 2 - 3], axes),
    }
}

/// Reduces a list of values, in order.
fn expected(kind: Kind, values: &[(usize, f64)]) -> Vec<f64> {
    let fold = |start: f64, f: fn(f64, f64) -> f64| values.iter().fold(start, |x, (_, y)| f(x, *y));
    match kind {
        Kind::Sum => vec![fold(0.0, |x, y| x + y)],
        Kind::Max => vec![fold(f64::NEG_INFINITY, f64::max)],
        Kind::Min => vec![fold(f64::INFINITY, f64::min)],
        Kind::SumAndMax => vec![2.0 * fold(0.0, |x, y| x + y), fold(f64::NEG_INFINITY, f64::max)],
        Kind::ArgMax => {
            let best = values.iter().fold((2147483647, f64::NEG_INFINITY), |best, (i, x)| {
                if *x > best.1 || (*x == best.1 && *i < best.0) { (*i, *x) } else { best }
            });
            vec![best.0 as f64, best.1]
        }
        Kind::Matrices => {
            let mut m = [1i32, 0, 0, 1];
            for (_, x) in values {
                let x = *x as i32;
                let y = [x, x + 1, 1, x * 2 - 3];
                let dot =
                    |i: usize, j: usize| m[2 * i].wrapping_mul(y[j]).wrapping_add(m[2 * i + 1].wrapping_mul(y[2 + j]));
                m = [dot(0, 0), dot(0, 1), dot(1, 0), dot(1, 1)];
            }
            m.map(f64::from).to_vec()
        }
    }
}

/// A reduction of a rank-3 tensor over the axes of `mask`.
fn reduction(kind: Kind, element: ElementType, mask: [bool; 3]) -> Result<(Tensor, Vec<Tensor>), TeError> {
    let sizes = [var("n"), var("m"), var("l")];
    let a = te::placeholder_of(element, sizes, "A");
    let reduced: Vec<Axis> =
        (0..3).filter(|d| mask[*d]).map(|d| te::reduce_axis((0, sizes[d]), ["r0", "r1", "r2"][d])).collect();
    let kept: Vec<Expr> = (0..3).filter(|d| !mask[*d]).map(|d| sizes[d].into()).collect();
    let build = |outer: &[Axis]| {
        let (mut outer, mut inner) = (outer.iter(), reduced.iter());
        let indices: Vec<Expr> = (0..3)
            .map(|d| if mask[d] { inner.next() } else { outer.next() }.map_or(Expr::int(0), |axis| (*axis).into()))
            .collect();
        let place = (&indices[0] * sizes[1] + &indices[1]) * sizes[2] + &indices[2];
        body(kind, &a.at(indices), &place, &reduced)
    };
    let tensors = match kept.len() {
        0 => te::compute_all(kept, "B", |[]: [Axis; 0]| build(&[])),
        1 => te::compute_all(kept, "B", |axes: [Axis; 1]| build(&axes)),
        _ => te::compute_all(kept, "B", |axes: [Axis; 2]| build(&axes)),
    }?;
    Ok((a, tensors))
}

#[derive(Clone, Debug)]
struct Case {
    kind: Kind,
    element: ElementType,
    mask: [bool; 3],
    shape: [usize; 3],
    layout: [usize; 3],
    gap: usize,
    order: Order,
    seed: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let extent = prop_oneof![1 => Just(0usize), 4 => Just(1), 10 => 2usize..24, 3 => 24usize..300];
    let mask = proptest::sample::select(vec![1usize, 2, 4, 3, 5, 6, 7]);
    let layout = proptest::sample::select(vec![[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]);
    let elements = vec![ElementType::F32, ElementType::F16, ElementType::BF16, ElementType::F64, ElementType::I32];
    let order = proptest::sample::select(vec![Order::Device, Order::Device, Order::Shape, Order::Exact]);
    let what = (proptest::sample::select(KINDS.to_vec()), proptest::sample::select(elements), mask);
    (what, [extent.clone(), extent.clone(), extent], layout, 0usize..3, order, any::<u64>()).prop_map(
        |((kind, element, mask), shape, layout, gap, order, seed)| Case {
            kind,
            // The identity of a maximum is an infinity.
            element: if element == ElementType::I32 && !matches!(kind, Kind::Sum | Kind::Matrices) {
                ElementType::F32
            } else {
                element
            },
            mask: [mask & 1 != 0, mask & 2 != 0, mask & 4 != 0],
            shape,
            layout,
            gap,
            order,
            seed,
        },
    )
}

fn check(device: &Device, case: &Case) -> Result<(), TeError> {
    let Case { kind, element, mask, shape, layout, gap, order, seed } = case.clone();
    if shape.iter().product::<usize>() > 20_000 {
        return Ok(());
    }
    let (_, outputs) = reduction(kind, element, mask)?;
    let kernel = te::auto::reduce_all(&outputs.iter().collect::<Vec<_>>())?.order(order).build(device)?;
    let values = integers_in::<f32>(shape.iter().product(), seed, -8..=8);
    let a = laid_out(device, &values, element, &shape, &layout, gap)?;
    let results = twice(device, &kernel, &outputs, &a, &kept(shape, mask))?;
    let groups = groups(&values, shape, mask);
    for (value, result) in results.iter().enumerate() {
        let wanted: Vec<f64> = groups.iter().map(|group| rounded(expected(kind, group)[value], result)).collect();
        assert_eq!(numbers(result)?, wanted, "value {value}: {}\n{}", kernel.choice(), kernel.source());
    }
    Ok(())
}

/// The extents that are not reduced.
fn kept(shape: [usize; 3], mask: [bool; 3]) -> Vec<usize> {
    (0..3).filter(|d| !mask[*d]).map(|d| shape[d]).collect()
}

/// The kernel's results for `a`. It runs twice: the second launch uses the counters as the first has left them.
fn twice(
    device: &Device,
    kernel: &te::auto::Kernel,
    outputs: &[Tensor],
    a: &DeviceTensor,
    kept: &[usize],
) -> Result<Vec<DeviceTensor>, TeError> {
    let mut results = Vec::new();
    for output in outputs {
        let DType::Number(element) = output.dtype() else { continue };
        results.push(device.zeros_of(element, kept)?);
    }
    let mut arguments = vec![a.into()];
    arguments.extend(results.iter_mut().map(epilogue::Argument::from));
    kernel.run(&arguments)?;
    kernel.run(&arguments)?;
    drop(arguments);
    Ok(results)
}

/// The indices and values that each output reduces.
fn groups(values: &[f32], shape: [usize; 3], mask: [bool; 3]) -> Vec<Vec<(usize, f64)>> {
    let mut groups = vec![Vec::new(); kept(shape, mask).iter().product()];
    for (place, value) in values.iter().enumerate() {
        let index = [place / (shape[1] * shape[2]), place / shape[2] % shape[1], place % shape[2]];
        let group = (0..3).filter(|d| !mask[*d]).fold(0, |at, d| at * shape[d] + index[d]);
        groups[group].push((place, f64::from(*value)));
    }
    groups
}

/// The value after rounding to the tensor's type.
fn rounded(value: f64, tensor: &DeviceTensor) -> f64 {
    match tensor.element_type() {
        ElementType::F16 => f16::from_f64(value).into(),
        ElementType::BF16 => bf16::from_f64(value).into(),
        _ => value,
    }
}

#[test]
fn any_axes_of_any_layout_by_any_reducer() {
    if testing::compiler("any_axes_of_any_layout_by_any_reducer").is_none() {
        return;
    }
    let device = emulated(Arch::SM_80);
    let config = ProptestConfig { cases: testing::cases(40), failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(case in cases())| {
        if let Err(error) = check(&device, &case) {
            panic!("{error}");
        }
    });
}

#[test]
fn any_axes_of_any_layout_by_any_reducer_on_the_cpu() {
    let device = Device::cpu();
    let config = ProptestConfig { cases: testing::cases(400), failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(case in cases())| {
        if let Err(error) = check(&device, &case) {
            panic!("{error}");
        }
    });
}

#[test]
fn blocks_share_long_rows_and_few_columns() -> Result<(), TeError> {
    if testing::compiler("blocks_share_long_rows_and_few_columns").is_none() {
        return Ok(());
    }
    share_long_rows_and_few_columns(&emulated(Arch::SM_80), "blocks per output")
}

/// Halfway between two values, except for a bit that is lost by way of f32.
#[test]
fn numbers_are_rounded_once_on_the_cpu() -> Result<(), TeError> {
    let device = Device::cpu();
    let cases = [
        (ElementType::F16, 1.0 + 2f64.powi(-11) + 2f64.powi(-40), 1.0 + 2f32.powi(-10)),
        (ElementType::BF16, 1.0 + 2f64.powi(-8) + 2f64.powi(-40), 1.0 + 2f32.powi(-7)),
        (ElementType::F16, 1.0 + 2f64.powi(-11), 1.0),
    ];
    for (element, x, expected) in cases {
        let a = te::placeholder_of(ElementType::F64, [var("n")], "A");
        let k = te::reduce_axis((0, a.shape()[0].clone()), "k");
        let rounded = |x: Expr| x.cast(DType::Number(element)).cast(DType::Number(ElementType::F32));
        let b = te::compute([1], "B", |[_]| te::sum(rounded(a.at([k])), [k]))?;
        let given = device.tensor(&[x], [1])?;
        let mut sum = device.zeros::<f32>([1])?;
        te::auto::reduce(&b)?.build(&device)?.run(&[(&given).into(), (&mut sum).into()])?;
        assert_eq!(sum.to_vec::<f32>()?, [expected], "{x:e} as {element}");
    }
    Ok(())
}

/// Sums of tensors in memory are vector code from memory to lanes, for any shape and strides. The values are small
/// integers, so that the tree doesn't matter.
#[test]
fn plain_sums_on_the_cpu_come_straight_from_memory() -> Result<(), TeError> {
    let device = Device::cpu();
    let shapes = [[1, 70, 1000], [3, 500, 300], [1, 5000, 5], [1, 9, 40_000], [40_000, 1, 3], [2, 3, 70_001]];
    for (shape, layout) in shapes.into_iter().flat_map(|shape| [[0, 1, 2], [2, 0, 1], [1, 2, 0]].map(|l| (shape, l))) {
        for mask in [[false, false, true], [false, true, false], [true, false, true], [true, true, true]] {
            for (kind, element) in [
                (Kind::Sum, ElementType::F32),
                (Kind::Sum, ElementType::F64),
                (Kind::Max, ElementType::F16),
                (Kind::Min, ElementType::BF16),
                (Kind::Sum, ElementType::I32),
            ] {
                let values = integers_in::<f32>(shape.iter().product(), 3, -8..=8);
                let (_, outputs) = reduction(kind, element, mask)?;
                let kernel = te::auto::reduce(&outputs[0])?.build(&device)?;
                let a = laid_out(&device, &values, element, &shape, &layout, 1)?;
                let kept: Vec<usize> = (0..3).filter(|d| !mask[*d]).map(|d| shape[d]).collect();
                let mut result = device.zeros_of(element, &kept)?;
                kernel.run(&[(&a).into(), (&mut result).into()])?;
                assert!(kernel.choice().ends_with("straight from memory"), "{}", kernel.choice());
                let mut groups: Vec<Vec<(usize, f64)>> = vec![Vec::new(); kept.iter().product()];
                for (place, value) in values.iter().enumerate() {
                    let index = [place / (shape[1] * shape[2]), place / shape[2] % shape[1], place % shape[2]];
                    let group = (0..3).filter(|d| !mask[*d]).fold(0, |at, d| at * shape[d] + index[d]);
                    groups[group].push((place, f64::from(*value)));
                }
                let wanted: Vec<f64> = groups.iter().map(|group| rounded(expected(kind, group)[0], &result)).collect();
                assert_eq!(numbers(&result)?, wanted, "{shape:?} {mask:?} {kind:?} {element}: {}", kernel.choice());
            }
        }
    }
    Ok(())
}

/// A kernel's tree may have more lanes than a strip.
#[test]
fn the_order_of_the_shape_on_the_cpu_takes_as_many_lanes_as_a_kernel_has_threads() -> Result<(), TeError> {
    let device = Device::cpu();
    let a = te::placeholder([var("n"), var("m")], "A");
    let kernel = te::auto::reduce(&te::ops::softmax(&a, 1)?)?.order(Order::Shape).build(&device)?;
    let values: Vec<f32> = (0..3 * 9000).map(|i| (i % 13) as f32 * 0.25).collect();
    let (x, mut y) = (device.tensor(&values, [3, 9000])?, device.zeros::<f32>([3, 9000])?);
    kernel.run(&[(&x).into(), (&mut y).into()])?;
    for (row, given) in y.to_vec::<f32>()?.chunks(9000).zip(values.chunks(9000)) {
        let total: f64 = given.iter().map(|x| f64::from(*x).exp()).sum();
        for (y, x) in row.iter().zip(given) {
            let want = f64::from(*x).exp() / total;
            assert!((f64::from(*y) - want).abs() <= 1e-5 * want, "{y} instead of {want}");
        }
    }
    Ok(())
}

#[test]
fn parts_of_long_rows_on_the_cpu() -> Result<(), TeError> {
    share_long_rows_and_few_columns(&Device::cpu(), "on the CPU")
}

fn share_long_rows_and_few_columns(device: &Device, choice: &str) -> Result<(), TeError> {
    for (shape, mask) in [
        ([1, 1, 70_001], [false, false, true]),
        ([1, 90_000, 2], [false, true, false]),
        ([3, 1, 30_000], [false, false, true]),
        ([40_000, 1, 3], [true, false, true]),
    ] {
        for kind in [Kind::Sum, Kind::ArgMax, Kind::Matrices] {
            let values = integers_in::<f32>(shape.iter().product(), 7, -8..=8);
            let (_, outputs) = reduction(kind, ElementType::F32, mask)?;
            let kernel = te::auto::reduce_all(&outputs.iter().collect::<Vec<_>>())?.build(device)?;
            let a = device.tensor(&values, shape)?;
            let results = twice(device, &kernel, &outputs, &a, &kept(shape, mask))?;
            assert!(kernel.choice().contains(choice), "{}", kernel.choice());
            let groups = groups(&values, shape, mask);
            for (value, result) in results.iter().enumerate() {
                let wanted: Vec<f64> = groups.iter().map(|group| expected(kind, group)[value]).collect();
                assert_eq!(numbers(result)?, wanted, "{shape:?} {kind:?} value {value}: {}", kernel.choice());
            }
        }
    }
    Ok(())
}

#[test]
fn results_too_long_for_the_caches() -> Result<(), TeError> {
    // 36 MB of sums, then 36 MB of small floats; the first element is not at the beginning of a cache line.
    let (device, count) = (Device::cpu(), 9_000_001);
    let values: Vec<i8> = (0..count * 2).map(|i| (i % 251) as i8).collect();
    let a = device.tensor(&values, [count, 2])?;
    let sums = device.zeros::<i32>([count + 1])?;
    let (n, k) = (var("n"), te::reduce_axis((0, 2), "k"));
    let of = te::placeholder_of(ElementType::I8, [Expr::from(n), 2.into()], "A");
    let sum = te::compute([n], "B", |[i]| te::sum(of.at([i, k]).cast(ElementType::I32), [k]))?;
    te::auto::reduce(&sum)?.build(&device)?.run(&[(&a).into(), (&mut sums.slice(0, 1..count + 1)?).into()])?;
    let got = sums.to_vec::<i32>()?;
    let wanted = |i: usize| i32::from(values[2 * i]) + i32::from(values[2 * i + 1]);
    assert_eq!(got[0], 0);
    assert!((0..count).all(|i| got[i + 1] == wanted(i)));

    let x = te::placeholder_of(ElementType::I8, [Expr::from(n), 2.into()], "A");
    let halves = te::compute([Expr::from(n), 2.into()], "H", |[i, j]| {
        (x.at([i, j]).cast(ElementType::F32) * 0.5).cast(ElementType::F16)
    })?;
    let results = device.zeros::<f16>([count * 2 + 1])?;
    let mut result = results.slice(0, 1..count * 2 + 1)?.reshape([count, 2])?;
    te::auto::map(&halves)?.build(&device)?.run(&[(&a).into(), (&mut result).into()])?;
    let got = results.to_vec::<f16>()?;
    assert!(values.iter().enumerate().all(|(i, x)| got[i + 1] == f16::from_f32(f32::from(*x) * 0.5)));
    Ok(())
}

/// The indices of the largest and of the smallest element, for rows of any length and type: the first of equal ones,
/// and the first NaN before all others.
#[test]
fn places_of_extremes_on_the_cpu() -> Result<(), TeError> {
    let device = Device::cpu();
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    for (rows, count) in [(1, 1), (5, 1), (3, 31), (70, 300), (1, 257), (9, 0), (1, 100_000), (3, 40_001), (600, 33)] {
        for (odd, element) in
            [(0, ElementType::F32), (1, ElementType::F32), (2, ElementType::F16), (0, ElementType::I32)]
        {
            let mut values = integers_in::<f32>(rows * count, 11, -8..=8);
            for (place, value) in values.iter_mut().enumerate().filter(|(place, _)| odd > 0 && place % 97 == 13) {
                *value = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0][place % 4];
            }
            if odd == 1 {
                values[..count].fill(f32::NEG_INFINITY);
            }
            let a = te::placeholder_of(element, [1, rows as i32, count as i32], "a");
            for largest in [true, false] {
                let found = if largest { te::ops::argmax(&a, [2])? } else { te::ops::argmin(&a, [2])? };
                let kernel = te::auto::build(&[&found])?.build(&device)?;
                let given = laid_out(&device, &values, element, &[1, rows, count], &[0, 1, 2], 0)?;
                let better = |x: f32, y: f32| (if largest { x > y } else { x < y }) || (x.is_nan() && !y.is_nan());
                let want: Vec<i32> = (0..rows)
                    .map(|row| {
                        let own = &values[row * count..(row + 1) * count];
                        let best = |best: usize, i: usize| if better(own[i], own[best]) { i } else { best };
                        if own.is_empty() { -1 } else { (0..count).fold(0, best) as i32 }
                    })
                    .collect();
                for pool in [None, Some(&alone)] {
                    let mut places = device.zeros::<i32>([1, rows])?;
                    let mut run = || kernel.run(&[(&given).into(), (&mut places).into()]);
                    match pool {
                        Some(pool) => pool.install(&mut run)?,
                        None => run()?,
                    }
                    assert_eq!(places.to_vec::<i32>()?, want, "{rows} x {count} {element}: {}", kernel.choice());
                }
                assert!(kernel.choice().contains("straight from memory"), "{}", kernel.choice());
            }
        }
    }
    Ok(())
}

/// Code that a run compiled is used by the next one, on other tensors with these shapes; other shapes and strides have
/// separate code.
#[test]
fn runs_on_the_cpu_follow_each_other_on_any_tensors() -> Result<(), TeError> {
    let device = Device::cpu();
    let a = te::placeholder([var("n"), var("m")], "A");
    let kernel = te::auto::reduce(&te::ops::softmax(&a, 1)?)?.build(&device)?;
    for (round, (n, m)) in [(2, 5), (2, 5), (5, 2), (8, 64), (8, 64), (0, 3), (8, 64), (300, 700), (300, 700), (1, 1)]
        .into_iter()
        .enumerate()
    {
        let values = integers_in::<f32>(n * m, round as u64, -8..=8);
        let (x, mut y) = (device.tensor(&values, [n, m])?, device.full::<f32>([n, m], f32::NAN)?);
        kernel.run(&[(&x).into(), (&mut y).into()])?;
        for (got, given) in y.to_vec::<f32>()?.chunks(m).zip(values.chunks(m)) {
            let total: f64 = given.iter().map(|x| f64::from(*x).exp()).sum();
            for (got, x) in got.iter().zip(given) {
                let want = f64::from(*x).exp() / total;
                assert!((f64::from(*got) - want).abs() <= 1e-6 * want, "{n} x {m}: {got} for {want}");
            }
        }
    }
    Ok(())
}
