//! Reductions over ranges that data give, on the CPU in every order and on the emulated GPUs: rows of a sparse matrix, and
//! sequences of several lengths, compared with plain loops.

use epilogue::te::auto::Order;
use epilogue::te::{self, DType, Expr, TeError, Tensor, ops, placeholder_of, var};
use epilogue::{Arch, Argument, Device, DeviceTensor, ElementType};
use epilogue_runtime::testing;

use crate::auto::shared::{emulated, laid_out, numbers};

const I32: ElementType = ElementType::I32;

/// Rows of several lengths, one after another: where each starts and the last ends.
fn starts(random: &mut fastrand::Rng, rows: usize, longest: usize) -> Vec<f64> {
    let mut all = vec![0.0];
    for row in 0..rows {
        let length = if random.u8(..3) == 0 { 0 } else { random.usize(..=longest) };
        all.push(all[row] + length as f64);
    }
    all
}

/// A tensor with its values and extents.
struct Given {
    tensor: Tensor,
    values: Vec<f64>,
    shape: Vec<usize>,
}

fn given(tensor: &Tensor, values: Vec<f64>, shape: &[usize]) -> Given {
    Given { tensor: tensor.clone(), values, shape: shape.to_vec() }
}

fn run(
    device: &Device,
    order: Order,
    outputs: &[(&Tensor, Vec<usize>)],
    inputs: &[Given],
    is_view: bool,
) -> Result<Vec<Vec<f64>>, TeError> {
    let tensors: Vec<&Tensor> = outputs.iter().map(|(tensor, _)| *tensor).collect();
    let kernel = te::auto::build(&tensors)?.order(order).build(device)?;
    let place = |given: &Given| {
        let mut axes: Vec<usize> = (0..given.shape.len()).collect();
        if is_view {
            axes.reverse();
        }
        laid_out(device, &given.values, given.tensor.dtype().in_memory(), &given.shape, &axes, usize::from(is_view))
    };
    let read: Vec<DeviceTensor> = inputs.iter().map(place).collect::<Result<_, _>>()?;
    let mut made = Vec::new();
    for (tensor, shape) in outputs {
        let (element, nothing) = (tensor.dtype().in_memory(), vec![0.0; shape.iter().product()]);
        made.push(match is_view && !shape.is_empty() {
            true => laid_out(device, &nothing, element, shape, &(0..shape.len()).rev().collect::<Vec<_>>(), 2)?,
            false => device.zeros_of(element, shape.as_slice())?,
        });
    }
    let mut arguments: Vec<(&Tensor, Argument<'_>)> = Vec::new();
    arguments.extend(inputs.iter().zip(&read).map(|(given, tensor)| (&given.tensor, tensor.into())));
    arguments.extend(outputs.iter().zip(&mut made).map(|((tensor, _), made)| (*tensor, made.into())));
    kernel.run_bound(&arguments)?;
    drop(arguments);
    made.iter().map(numbers).collect()
}

/// Runs it everywhere; all runs must give the same bits on a device, and what is wanted.
fn check(
    test: &str,
    outputs: &[(&Tensor, Vec<usize>)],
    inputs: &[Given],
    wanted: &[Vec<f64>],
    tolerance: f64,
) -> Result<(), TeError> {
    let gpus = testing::compiler(test).map(|_| [Arch::SM_80, Arch::SM_90A].map(emulated));
    let mut runs: Vec<(Device, Order, bool)> = vec![(Device::cpu(), Order::Device, true)];
    runs.extend([Order::Device, Order::Shape, Order::Exact].map(|order| (Device::cpu(), order, false)));
    runs.extend(gpus.into_iter().flatten().enumerate().map(|(place, gpu)| (gpu, Order::Device, place == 1)));
    for (device, order, is_view) in runs {
        let got = run(&device, order, outputs, inputs, is_view)?;
        for (place, (got, wanted)) in got.iter().zip(wanted).enumerate() {
            assert_eq!(got.len(), wanted.len());
            for (element, (got, wanted)) in got.iter().zip(wanted).enumerate() {
                let close = (got - wanted).abs() <= tolerance * wanted.abs().max(1.0);
                let is_right = close || got == wanted || got.is_nan() && wanted.is_nan();
                assert!(is_right, "output {place}, element {element} on {device}, {order:?}: {got}, not {wanted}");
            }
        }
    }
    Ok(())
}

/// A sparse matrix in CSR times vectors, and what is computed from its rows.
#[test]
fn rows_of_a_sparse_matrix() -> Result<(), TeError> {
    let (n, p, count, width) = (var("n"), var("p"), var("count"), var("width"));
    let (values, columns) = (te::placeholder([count], "values"), placeholder_of(I32, [count], "columns"));
    let (starts_of, x) = (placeholder_of(I32, [p], "starts"), te::placeholder([n, width], "x"));
    let rows = Expr::from(p) - 1;
    let row = |i: Expr, name: &str| te::reduce_axis((starts_of.at([i.clone()]), starts_of.at([i + 1])), name);
    let product = te::compute_over(vec![rows.clone(), width.into()], "product", |axes| {
        let k = row(axes[0].into(), "k");
        vec![te::sum(values.at([k]) * x.at((columns.at([k]), axes[1])), [k])]
    })?
    .swap_remove(0);
    let least = te::compute((rows.clone(),), "least", |[i]| {
        let k = row(i.into(), "k");
        te::min(values.at([k]), [k])
    })?;
    let mean = te::compute((rows.clone(),), "mean", |[i]| {
        let length = starts_of.at((i + 1,)) - starts_of.at([i]);
        least.at([i]) / length.max(1).cast(DType::F32)
    })?;
    let mut random = fastrand::Rng::with_seed(11);
    for (rows, longest, wide) in [(1, 4, 1), (37, 9, 3), (300, 5, 1), (2, 0, 2), (0, 1, 2)] {
        let from = starts(&mut random, rows, longest);
        let count = from[rows] as usize;
        let integers = |random: &mut fastrand::Rng, count: usize, below: i64| -> Vec<f64> {
            (0..count).map(|_| random.i64(0..below) as f64).collect()
        };
        let (weights, places) = (integers(&mut random, count, 9), integers(&mut random, count, 5));
        let table = integers(&mut random, 5 * wide, 7);
        let of_row = |row: usize| from[row] as usize..from[row + 1] as usize;
        let wanted_product: Vec<f64> = (0..rows * wide)
            .map(|at| of_row(at / wide).map(|k| weights[k] * table[places[k] as usize * wide + at % wide]).sum())
            .collect();
        let smallest = |row: usize| of_row(row).map(|k| weights[k]).fold(f64::INFINITY, f64::min);
        let wanted_least: Vec<f64> = (0..rows).map(smallest).collect();
        let wanted_mean = (0..rows).map(|row| smallest(row) / of_row(row).len().max(1) as f64).collect();
        let inputs = [
            given(&values, weights.clone(), &[count]),
            given(&columns, places.clone(), &[count]),
            given(&starts_of, from.clone(), &[rows + 1]),
            given(&x, table.clone(), &[5, wide]),
        ];
        let outputs = [(&product, vec![rows, wide]), (&least, vec![rows]), (&mean, vec![rows])];
        check("rows_of_a_sparse_matrix", &outputs, &inputs, &[wanted_product, wanted_least, wanted_mean], 1e-6)?;
    }
    Ok(())
}

/// A softmax of sequences of several lengths: two reductions, where the second reads the first, and a map that finds its
/// row by an index. Its elements are halves, and results of constant extents are views.
#[test]
fn a_softmax_of_sequences() -> Result<(), TeError> {
    let (rows, count) = (4usize, 11usize);
    let of = placeholder_of(ElementType::F16, [count], "scores");
    let (lengths, first) = (placeholder_of(I32, [rows], "lengths"), placeholder_of(I32, [rows], "first"));
    let row_of = placeholder_of(I32, [count], "row");
    let sequence = |i: te::Axis| te::reduce_axis((first.at([i]), first.at([i]) + lengths.at([i])), "k");
    let largest = te::compute([rows], "largest", |[i]| {
        let k = sequence(i);
        te::max(of.at([k]), [k])
    })?;
    let sums = te::compute([rows], "sums", |[i]| {
        let k = sequence(i);
        te::sum((of.at([k]).cast(DType::F32) - largest.at([i]).cast(DType::F32)).exp(), [k])
    })?;
    let softmax = te::compute([count], "softmax", |[k]| {
        let row = row_of.at([k]);
        (of.at([k]).cast(DType::F32) - largest.at([row.clone()]).cast(DType::F32)).exp() / sums.at([row])
    })?;
    let (scores, length): (Vec<f64>, _) = ((0..count).map(|k| ((k * 7) % 5) as f64 / 2.0).collect(), [3, 0, 6, 2]);
    let row_numbers: Vec<f64> = (0..rows).flat_map(|row| vec![row as f64; length[row]]).collect();
    let from: Vec<usize> = (0..rows).map(|row| length[..row].iter().sum()).collect();
    let of_row = |row: usize| scores[from[row]..from[row] + length[row]].to_vec();
    let top = |row: usize| of_row(row).into_iter().fold(f64::NEG_INFINITY, f64::max);
    let sum = |row: usize| of_row(row).iter().map(|x| (x - top(row)).exp()).sum::<f64>();
    let wanted = (0..count).map(|k| (scores[k] - top(row_numbers[k] as usize)).exp() / sum(row_numbers[k] as usize));
    let inputs = [
        given(&of, scores.clone(), &[count]),
        given(&lengths, length.map(|length| length as f64).to_vec(), &[rows]),
        given(&first, from.iter().map(|from| *from as f64).collect(), &[rows]),
        given(&row_of, row_numbers.clone(), &[count]),
    ];
    let outputs = [(&softmax, vec![count]), (&largest, vec![rows]), (&sums, vec![rows])];
    let wanted = [wanted.collect(), (0..rows).map(top).collect(), (0..rows).map(sum).collect()];
    check("a_softmax_of_sequences", &outputs, &inputs, &wanted, 1e-5)
}

/// A tuple, a condition, a total of no dimensions, and an axis whose end another reduced axis gives.
#[test]
fn other_reductions_over_ranges_by_data() -> Result<(), TeError> {
    let (n, m) = (var("n"), var("m"));
    let (x, ends) = (te::placeholder([n, m], "x"), placeholder_of(I32, [n], "ends"));
    let to_end = |i: Expr| te::reduce_axis((0, ends.at([i])), "k");
    let best = te::compute_all([n], "best", |[i]| {
        let k = to_end(i.into());
        let reducer = te::tuple_reducer(
            |a, b| {
                let left = a[1].greater_equal(&b[1]);
                vec![left.select(&a[0], &b[0]), left.select(&a[1], &b[1])]
            },
            |types| vec![Expr::from(-1), Expr::constant(f64::NEG_INFINITY, types[1])],
            "best",
        );
        reducer.associative_only().over_all(&[Expr::from(k), x.at([i, k])], [k])
    })?;
    let even = te::compute([n], "even", |[i]| {
        let k = to_end(i.into());
        te::Reducer::over_where(&te::sum_reducer(), x.at([i, k]), [k], k.floor_mod(2).equal(0))
    })?;
    let any = te::compute([n], "any", |[i]| {
        let k = to_end(i.into());
        te::any(x.at([i, k]).greater(6.5), [k])
    })?;
    let total = {
        let k = to_end(Expr::from(1));
        let j = te::reduce_axis((0, k + 1), "j");
        te::compute((), "total", |[]| te::sum(x.at([k, j]), [k, j]))?
    };
    let (rows, columns) = (5, 6);
    let values: Vec<f64> = (0..rows * columns).map(|at| ((at * 5) % 8) as f64).collect();
    let lengths = [6, 3, 0, 1, 5];
    let row = |i: usize| values[i * columns..i * columns + lengths[i]].to_vec();
    let top = |i: usize| row(i).into_iter().fold(f64::NEG_INFINITY, f64::max);
    let place = |i: usize| row(i).iter().position(|x| *x == top(i)).map_or(-1.0, |place| place as f64);
    let all = |f: &dyn Fn(usize) -> f64| (0..rows).map(f).collect::<Vec<f64>>();
    let wanted = [
        all(&place),
        all(&top),
        all(&|i| row(i).iter().step_by(2).sum()),
        vec![(0..3).map(|k| values[k * columns..=k * columns + k].iter().sum::<f64>()).sum()],
    ];
    let inputs = [
        given(&x, values.clone(), &[rows, columns]),
        given(&ends, lengths.map(|length| length as f64).to_vec(), &[rows]),
    ];
    let of_rows = || vec![rows];
    let outputs = [(&best[0], of_rows()), (&best[1], of_rows()), (&even, of_rows())];
    check("other_reductions_over_ranges_by_data", &outputs, &inputs, &wanted[..3], 1e-6)?;
    check("other_reductions_over_ranges_by_data", &[(&total, Vec::new())], &inputs, &wanted[3..], 1e-6)?;
    // Truth values are bytes.
    let device = Device::cpu();
    let mut made = device.zeros::<u8>([rows])?;
    let numbers: Vec<f32> = values.iter().map(|x| *x as f32).collect();
    let (xs, to) = (device.tensor(&numbers, [rows, columns])?, device.tensor(&lengths.map(|x| x as i32), [rows])?);
    let kernel = te::auto::build(&[&any])?.build(&device)?;
    kernel.run_bound(&[(&x, (&xs).into()), (&ends, (&to).into()), (&any, (&mut made).into())])?;
    let wanted: Vec<u8> = (0..rows).map(|i| u8::from(row(i).iter().any(|x| *x > 6.5))).collect();
    assert_eq!(made.to_vec::<u8>()?, wanted);
    Ok(())
}

/// Ends beyond the tensor, and starts before it, are errors of the data; an end below its start is no element.
#[test]
fn ranges_that_leave_the_tensor() -> Result<(), TeError> {
    let (n, m) = (var("n"), var("m"));
    let (x, ends) = (te::placeholder([m], "x"), placeholder_of(I32, (n, 2), "ends"));
    let sums = te::compute([n], "sums", |[i]| {
        let k = te::reduce_axis((ends.at((i, 0)), ends.at((i, 1))), "k");
        te::sum(x.at([k]), [k])
    })?;
    let gpus = testing::compiler("ranges_that_leave_the_tensor").map(|_| [Arch::SM_80, Arch::SM_90A].map(emulated));
    for device in gpus.into_iter().flatten().chain([Device::cpu()]) {
        let of = |ends_given: [f64; 4]| {
            let inputs = [given(&x, vec![1.0; 5], &[5]), given(&ends, ends_given.to_vec(), &[2, 2])];
            run(&device, Order::Device, &[(&sums, vec![2])], &inputs, false)
        };
        for outside in [[0.0, 6.0, 0.0, 1.0], [0.0, 0.0, -1.0, 1.0], [0.0, 1.0, 0.0, 2e9]] {
            assert!(matches!(of(outside), Err(TeError::Data(_))), "{outside:?} on {device}");
        }
        assert_eq!(of([5.0, 5.0, 3.0, -7.0])?, [[0.0, 0.0]]);
        assert_eq!(of([0.0, 5.0, 4.0, 5.0])?, [[5.0, 1.0]]);
    }
    Ok(())
}

/// A size that no tensor has, which a program could not get.
#[test]
fn a_size_that_no_tensor_has() -> Result<(), TeError> {
    let (n, size) = (var("n"), var("size"));
    let ends = placeholder_of(I32, [n], "ends");
    let counts = te::compute([n], "counts", |[i]| {
        let k = te::reduce_axis((0, ends.at([i])), "k");
        te::sum(k + size, [k])
    })?;
    let error = te::auto::build(&[&counts]).expect_err("nothing gives the size").to_string();
    let wanted = "counts, a range by data that needs the size size, which no tensor that it reads has, is not supported by te::auto";
    assert_eq!(error, wanted);
    let lengths = ops::sum(&ends, 0)?;
    assert!(te::auto::build(&[&lengths]).is_ok());
    Ok(())
}
