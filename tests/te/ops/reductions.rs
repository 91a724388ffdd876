//! Reductions, and operations that use them.

use epilogue::te::auto::Order;
use epilogue::te::{self, Expr, ExpressionError, LoweringError, TeError, Tensor, ops, var};
use epilogue::{Argument, Device, DeviceTensor, ElementType};

use super::{FLOATS, close, devices, download, matrix, normal, rounded, run, upload};

#[test]
fn rows_and_columns_of_every_type() -> Result<(), TeError> {
    if epilogue_runtime::testing::compiler("rows_and_columns_of_every_type").is_none() {
        return Ok(());
    }
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    let square = |x: &[f64]| {
        let m = x.iter().sum::<f64>() / x.len() as f64;
        x.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / (x.len() as f64 - 1.0)
    };
    let norm = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
    let lse = |x: &[f64]| x.iter().map(|x| x.exp()).sum::<f64>().ln();
    type Reference<'a> = &'a dyn Fn(&[f64]) -> f64;
    for device in devices() {
        for element in FLOATS {
            for (n, m) in [(5, 64), (2, 777)] {
                let a = matrix(element);
                let values = rounded(element, &normal(n * m, (n + m) as u64));
                let input = upload(&device, element, &values, &[n, m])?;
                for dimension in [0, 1] {
                    let lines: Vec<Vec<f64>> = if dimension == 1 {
                        values.chunks(m).map(<[f64]>::to_vec).collect()
                    } else {
                        (0..m).map(|j| (0..n).map(|i| values[i * m + j]).collect()).collect()
                    };
                    let cases: [(&str, Tensor, Reference<'_>); 5] = [
                        ("sum", ops::sum(&a, [dimension])?, &|x| x.iter().sum()),
                        ("mean", ops::mean(&a, [dimension])?, &mean),
                        ("var", ops::var(&a, [dimension], 1.0)?, &square),
                        ("norm", ops::norm(&a, [dimension])?, &norm),
                        ("logsumexp", ops::logsumexp(&a, [dimension])?, &lse),
                    ];
                    for (name, tensor, reference) in cases {
                        let kernel = te::auto::reduce(&tensor)?.build(&device)?;
                        let got = run(&kernel, &[&input], &[lines.len()])?;
                        let wanted: Vec<f64> = lines.iter().map(|line| reference(line)).collect();
                        let scale = if name == "sum" { lines[0].len() as f64 } else { 1.0 };
                        let what = format!("{name} over {dimension} of {n}x{m} {element}: {}", kernel.choice());
                        close(element, &got, &wanted, 16.0, scale, &what);
                    }
                }
            }
        }
    }
    Ok(())
}

#[test]
fn normalisations_in_one_launch() -> Result<(), TeError> {
    if epilogue_runtime::testing::compiler("normalisations_in_one_launch").is_none() {
        return Ok(());
    }
    let softmax = |x: &[f64]| -> Vec<f64> {
        let total: f64 = x.iter().map(|x| x.exp()).sum();
        x.iter().map(|x| x.exp() / total).collect()
    };
    let log_softmax = |x: &[f64]| -> Vec<f64> { softmax(x).into_iter().map(f64::ln).collect() };
    let layer_norm = |x: &[f64]| -> Vec<f64> {
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let var = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / x.len() as f64;
        x.iter().map(|x| (x - mean) / (var + 1e-5).sqrt()).collect()
    };
    let rms_norm = |x: &[f64]| -> Vec<f64> {
        let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        x.iter().map(|x| x / (mean + 1e-5).sqrt()).collect()
    };
    type Reference<'a> = &'a dyn Fn(&[f64]) -> Vec<f64>;
    for device in devices() {
        for element in FLOATS {
            for (n, m) in [(6, 37), (9, 64), (70, 6)] {
                let a = matrix(element);
                let values = rounded(element, &normal(n * m, (n * m) as u64));
                let input = upload(&device, element, &values, &[n, m])?;
                for dimension in [0, 1] {
                    let cases: [(&str, Tensor, Reference<'_>); 4] = [
                        ("softmax", ops::softmax(&a, dimension)?, &softmax),
                        ("log_softmax", ops::log_softmax(&a, dimension)?, &log_softmax),
                        ("layer_norm", ops::layer_norm(&a, [dimension], None, None, 1e-5)?, &layer_norm),
                        ("rms_norm", ops::rms_norm(&a, [dimension], None, 1e-5)?, &rms_norm),
                    ];
                    for (name, tensor, reference) in cases {
                        let kernel = te::auto::reduce(&tensor)?.build(&device)?;
                        let got = run(&kernel, &[&input], &[n, m])?;
                        let mut wanted = vec![0.0; n * m];
                        let lines = if dimension == 1 { n } else { m };
                        for line in 0..lines {
                            let at = |k: usize| if dimension == 1 { line * m + k } else { k * m + line };
                            let length = if dimension == 1 { m } else { n };
                            let values: Vec<f64> = (0..length).map(|k| values[at(k)]).collect();
                            for (k, x) in reference(&values).into_iter().enumerate() {
                                wanted[at(k)] = x;
                            }
                        }
                        let what = format!("{name} over {dimension} of {n}x{m} {element}: {}", kernel.choice());
                        close(element, &got, &wanted, 200.0, 0.25, &what);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Infinities and NaN, in rows and in columns: the results of the definition, as PyTorch computes it. Many rows are
/// computed by machine code, two at a time if they are short. A row then has the same bits beside any other row. This
/// also holds for an odd number of rows, and for outputs of 16 bits: values between two passes then lie beside the
/// tensors.
#[test]
fn rows_have_the_same_bits_beside_any_other() -> Result<(), TeError> {
    let device = Device::cpu();
    for (n, m) in [(1801, 37), (171, 384), (67, 1000), (65, 1024), (65, 1040)] {
        for element in FLOATS {
            let a = matrix(element);
            let mut values = rounded(element, &normal(n * m, (n + m) as u64));
            let input = upload(&device, element, &values, &[n, m])?;
            values.rotate_left(m);
            let turned = upload(&device, element, &values, &[n, m])?;
            for (name, tensor) in [
                ("softmax", ops::softmax(&a, 1)?),
                ("log_softmax", ops::log_softmax(&a, 1)?),
                ("layer_norm", ops::layer_norm(&a, [1], None, None, 1e-5)?),
                ("logsumexp", ops::logsumexp(&a, [1])?),
            ] {
                let kernel = te::auto::reduce(&tensor)?.build(&device)?;
                let of = |input: &DeviceTensor| -> Result<Vec<u8>, TeError> {
                    let shape = if name == "logsumexp" { vec![n] } else { vec![n, m] };
                    let mut output = device.zeros_of(element, shape)?;
                    kernel.run(&[Argument::from(input), (&mut output).into()])?;
                    Ok(output.to_bytes()?)
                };
                let mut rows = of(&input)?;
                let bytes_of_row = rows.len() / n;
                rows.rotate_left(bytes_of_row);
                assert!(rows == of(&turned)?, "{name} of {element}, {n}x{m}");
            }
        }
    }
    Ok(())
}

#[test]
fn softmax_of_infinities_and_nan() -> Result<(), TeError> {
    if epilogue_runtime::testing::compiler("softmax_of_infinities_and_nan").is_none() {
        return Ok(());
    }
    let (nan, infinity) = (f64::NAN, f64::INFINITY);
    let rows = [
        ([1.0, -infinity, 1.0, -infinity, 1.0, 1.0], [0.25, 0.0, 0.25, 0.0, 0.25, 0.25]),
        ([-infinity; 6], [nan; 6]),
        ([0.0, infinity, 1.0, 2.0, 3.0, 4.0], [nan; 6]),
        ([0.0, 1.0, 2.0, nan, 3.0, 4.0], [nan; 6]),
        ([3e38, -3e38, 0.0, -1e38, -2e38, -3e37], [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
    ];
    let (n, m) = (rows.len(), 6);
    let a = matrix(ElementType::F32);
    let log = |x: f64| if x == 0.0 { -infinity } else { x.ln() };
    for device in devices() {
        for dimension in [0, 1] {
            let shape = if dimension == 1 { [n, m] } else { [m, n] };
            let place = |at: usize| if dimension == 1 { (at / m, at % m) } else { (at % n, at / n) };
            let values: Vec<f64> = (0..n * m).map(|at| rows[place(at).0].0[place(at).1]).collect();
            let input = upload(&device, ElementType::F32, &values, &shape)?;
            let same = |x: f64, y: f64| x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() < 1e-6;
            let kernel = te::auto::reduce(&ops::softmax(&a, dimension)?)?.build(&device)?;
            let got = run(&kernel, &[&input], &shape)?;
            for (at, got) in got.into_iter().enumerate() {
                let wanted = rows[place(at).0].1[place(at).1];
                assert!(same(got, wanted), "softmax {at} over {dimension} on {device}: {got}, not {wanted}");
            }
            let kernel = te::auto::reduce(&ops::log_softmax(&a, dimension)?)?.build(&device)?;
            let got = run(&kernel, &[&input], &shape)?;
            for (at, got) in got.into_iter().enumerate().filter(|(at, _)| place(*at).0 < 4) {
                let wanted = log(rows[place(at).0].1[place(at).1]);
                assert!(same(got, wanted), "log_softmax {at} over {dimension} on {device}: {got}, not {wanted}");
            }
        }
    }
    Ok(())
}

#[test]
fn layer_norm_has_weight_and_bias() -> Result<(), TeError> {
    if epilogue_runtime::testing::compiler("layer_norm_has_weight_and_bias").is_none() {
        return Ok(());
    }
    let (n, m) = (4, 33);
    for device in devices() {
        let size = var("m");
        let a = te::placeholder([Expr::from(var("n")), size.into()], "A");
        let (w, b) = (te::placeholder([size], "W"), te::placeholder([size], "bias"));
        let tensor = ops::layer_norm(&a, [1], Some(&w), Some(&b), 0.0)?;
        let kernel = te::auto::reduce(&tensor)?.build(&device)?;
        let (x, weight, bias) = (normal(n * m, 1), normal(m, 2), normal(m, 3));
        let f32 = ElementType::F32;
        let inputs = [
            upload(&device, f32, &x, &[n, m])?,
            upload(&device, f32, &weight, &[m])?,
            upload(&device, f32, &bias, &[m])?,
        ];
        let got = run(&kernel, &inputs.iter().collect::<Vec<_>>(), &[n, m])?;
        let mut wanted = Vec::new();
        for row in x.chunks(m) {
            let mean = row.iter().sum::<f64>() / m as f64;
            let var = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / m as f64;
            wanted.extend((0..m).map(|j| (row[j] - mean) / var.sqrt() * weight[j] + bias[j]));
        }
        close(f32, &got, &wanted, 100.0, 1.0, "layer_norm");
    }
    Ok(())
}

/// NaN wins, and the first of several; of equal values, the lowest index; without elements, −1.
#[test]
fn argmax_and_argmin_have_one_answer_on_every_schedule() -> Result<(), TeError> {
    if epilogue_runtime::testing::compiler("argmax_and_argmin_have_one_answer_on_every_schedule").is_none() {
        return Ok(());
    }
    let nan = f64::NAN;
    let infinity = f64::INFINITY;
    for device in devices() {
        for length in [0usize, 1, 5, 40, 700, 9000] {
            let mut rows = vec![vec![1.0; length], vec![-infinity; length], vec![infinity; length], vec![nan; length]];
            let mut random = fastrand::Rng::with_seed(length as u64);
            rows.push((0..length).map(|_| f64::from(random.i32(0..4))).collect());
            rows.push((0..length).map(|i| if i % 7 == 3 { nan } else { f64::from(random.i32(0..4)) }).collect());
            let first = |row: &[f64], better: fn(f64, f64) -> bool| -> f64 {
                let nan = row.iter().position(|x| x.is_nan());
                let best = row.iter().enumerate().fold(None, |best: Option<(usize, f64)>, (i, x)| match best {
                    Some((_, y)) if !better(*x, y) => best,
                    _ => Some((i, *x)),
                });
                nan.or(best.map(|(i, _)| i)).map_or(-1.0, |i| i as f64)
            };
            let values: Vec<f64> = rows.concat();
            let a = matrix(ElementType::F32);
            let wanted_max: Vec<f64> = rows.iter().map(|row| first(row, |x, y| x > y)).collect();
            let wanted_min: Vec<f64> = rows.iter().map(|row| first(row, |x, y| x < y)).collect();
            let input = upload(&device, ElementType::F32, &values, &[rows.len(), length])?;
            // These lines as columns.
            let columns: Vec<f64> = (0..length).flat_map(|i| rows.iter().map(move |row| row[i])).collect();
            let columns = upload(&device, ElementType::F32, &columns, &[length, rows.len()])?;
            for order in [Order::Device, Order::Shape, Order::Exact] {
                for (dimension, input) in [(1, &input), (0, &columns)] {
                    let kernel = te::auto::reduce(&ops::argmax(&a, dimension)?)?.order(order).build(&device)?;
                    let what = format!("{length} {order:?}: {}", kernel.choice());
                    assert_eq!(run(&kernel, &[input], &[rows.len()])?, wanted_max, "argmax {what}");
                    let kernel = te::auto::reduce(&ops::argmin(&a, dimension)?)?.order(order).build(&device)?;
                    assert_eq!(run(&kernel, &[input], &[rows.len()])?, wanted_min, "argmin {what}");
                }
            }
        }
    }
    Ok(())
}

/// A tree that depends only on the shape gives the same bits on the CPU and on the GPU, for any layout.
#[test]
fn the_order_of_the_shape_gives_the_same_bits_everywhere() -> Result<(), TeError> {
    if epilogue_runtime::testing::compiler("the_order_of_the_shape_gives_the_same_bits_everywhere").is_none() {
        return Ok(());
    }
    for (n, m) in [(1, 7), (3, 100), (2, 5000), (1, 70_000), (300, 40)] {
        let values = normal(n * m, m as u64);
        let a = matrix(ElementType::F32);
        for tensor in [ops::sum(&a, [1])?, ops::var(&a, [1], 0.0)?, ops::norm(&a, [1])?] {
            let mut results = Vec::new();
            for device in devices() {
                let kernel = te::auto::reduce(&tensor)?.order(Order::Shape).build(&device)?;
                let input = upload(&device, ElementType::F32, &values, &[n, m])?;
                results.push(run(&kernel, &[&input], &[n])?);
                let mut turned = device.zeros::<f32>([m, n])?.transpose()?;
                turned.copy_from(&values.iter().map(|x| *x as f32).collect::<Vec<_>>())?;
                results.push(run(&kernel, &[&turned], &[n])?);
            }
            for other in &results[1..] {
                assert_eq!(&results[0], other, "{} of {n}x{m}", tensor.name());
            }
        }
    }
    Ok(())
}

#[test]
fn conditions_guards_and_computed_indices() -> Result<(), TeError> {
    if epilogue_runtime::testing::compiler("conditions_guards_and_computed_indices").is_none() {
        return Ok(());
    }
    let (n, m) = (var("n"), var("m"));
    let a = te::placeholder([n, m], "A");
    let places = te::placeholder_of(ElementType::I32, [n], "P");
    let k = te::reduce_axis((0, m), "k");
    // Padded: the neighbour to the right, or 0 beyond the end.
    let padded = te::compute([n], "padded", |[i]| {
        let inside = (k + 1).less(m);
        te::sum(a.at([i, k]) + inside.select(a.at([Expr::from(i), k + 1]), 0.0), [k])
    })?;
    // Only where the element is positive, in the row that P gives.
    let chosen = te::compute([n], "chosen", |[i]| {
        let x = a.at([places.at([i]), k.into()]);
        te::sum_reducer().over_where(x.clone(), [k], x.greater(0.0))
    })?;
    let (rows, columns) = (5usize, 23usize);
    let values: Vec<f64> = (0..rows * columns).map(|i| f64::from((i * 7 % 13) as u32) - 6.0).collect();
    for device in devices() {
        let input = upload(&device, ElementType::F32, &values, &[rows, columns])?;
        let kernel = te::auto::reduce(&padded)?.build(&device)?;
        let wanted: Vec<f64> =
            values.chunks(columns).map(|row| row.iter().sum::<f64>() + row[1..].iter().sum::<f64>()).collect();
        assert_eq!(run(&kernel, &[&input], &[rows])?, wanted, "{}", kernel.source());
        let order = [3.0, 3.0, 0.0, 4.0, 1.0];
        let places = upload(&device, ElementType::I32, &order, &[rows])?;
        let kernel = te::auto::reduce(&chosen)?.build(&device)?;
        let names: Vec<String> = kernel.parameters().iter().map(Tensor::name).collect();
        let inputs = if names[0] == "A" { [&input, &places] } else { [&places, &input] };
        let wanted: Vec<f64> = order
            .iter()
            .map(|row| values[*row as usize * columns..][..columns].iter().filter(|x| **x > 0.0).sum())
            .collect();
        assert_eq!(run(&kernel, &inputs, &[rows])?, wanted, "{}", kernel.source());
        // An index outside is an error, not a number.
        let outside = upload(&device, ElementType::I32, &[0.0, 1.0, 5.0, 0.0, 0.0], &[rows])?;
        let inputs = if names[0] == "A" { [&input, &outside] } else { [&outside, &input] };
        assert!(run(&kernel, &inputs, &[rows]).is_err());
    }
    Ok(())
}

#[test]
fn misuse_is_refused_with_the_tensors_name() -> Result<(), TeError> {
    let device = Device::cpu();
    let a = matrix(ElementType::F32);
    let kernel = te::auto::reduce(&ops::sum(&a, [1])?)?.build(&device)?;
    let input = device.zeros::<f32>([4, 6])?;
    let mut b = device.zeros::<f32>([4])?;
    let message = |arguments: &[Argument<'_>]| kernel.run(arguments).unwrap_err().to_string();
    assert!(message(&[(&input).into()]).contains("A, sum"));
    let wide = device.zeros::<f64>([4, 6])?;
    assert!(message(&[(&wide).into(), (&mut b).into()]).contains("argument A: elements of type f32"));
    let flat = device.zeros::<f32>([24])?;
    assert!(message(&[(&flat).into(), (&mut b).into()]).contains("argument A: 2 dimensions"));
    let mut short = device.zeros::<f32>([3])?;
    assert!(message(&[(&input).into(), (&mut short).into()]).contains("argument sum: dimension 0 is n, which is 4"));
    let mut one = device.zeros::<f32>([1])?.broadcast_to([4])?;
    assert!(message(&[(&input).into(), (&mut one).into()]).contains("in one place"));
    let mut own = input.slice(1, 0..1)?.reshape([4])?;
    assert!(message(&[(&input).into(), (&mut own).into()]).contains("shares memory with A"));
    assert!(message(&[(&b).into(), (&mut own).into()]).contains("argument A"));

    assert!(matches!(ops::sum(&a, [2]), Err(TeError::Expression(ExpressionError::NoSuchAxis { dimension: 2, .. }))));
    assert!(matches!(ops::sum(&a, [1, 1]), Err(TeError::Expression(ExpressionError::RepeatedAxis { .. }))));
    let integers = matrix(ElementType::I32);
    assert!(matches!(ops::softmax(&integers, 1), Err(TeError::Expression(ExpressionError::OperandType { .. }))));
    // No reduction; a read outside.
    let plain = te::compute([var("n")], "plain", |[i]| a.at([i, i]))?;
    assert!(matches!(te::auto::reduce(&plain), Err(TeError::Lowering(LoweringError::Target { .. }))));
    let size = var("n");
    let vector = te::placeholder([size], "V");
    let k = te::reduce_axis((0, size), "k");
    let beyond = te::compute((), "beyond", |[]: [te::Axis; 0]| te::sum(vector.at([k + 1]), [k]))?;
    let kernel = te::auto::reduce(&beyond)?.build(&device)?;
    let error = kernel.run(&[(&b).into(), (&mut device.zeros::<f32>([])?).into()]).unwrap_err().to_string();
    assert!(error.contains("V is read at indices 1 to 4 of its dimension 0, which has 4"), "{error}");
    Ok(())
}

/// Every operation over no elements, along rows and down columns: the same in every order and on every device.
#[test]
fn operations_over_nothing() -> Result<(), TeError> {
    let has_compiler = epilogue_runtime::testing::compiler("operations_over_nothing").is_some();
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    for device in devices().into_iter().take(if has_compiler { 2 } else { 1 }) {
        for element in [ElementType::F32, ElementType::F16, ElementType::F64] {
            for dimension in [0, 1] {
                let a = matrix(element);
                let mut cases = vec![
                    ("sum", ops::sum(&a, dimension)?, 0.0),
                    ("prod", ops::prod(&a, dimension)?, 1.0),
                    ("max", ops::max(&a, dimension)?, -inf),
                    ("min", ops::min(&a, dimension)?, inf),
                    ("mean", ops::mean(&a, dimension)?, nan),
                    ("norm", ops::norm(&a, dimension)?, 0.0),
                    ("logsumexp", ops::logsumexp(&a, dimension)?, -inf),
                    ("argmax", ops::argmax(&a, dimension)?, -1.0),
                    ("argmin", ops::argmin(&a, dimension)?, -1.0),
                ];
                for correction in [0.0, 1.0, 2.5, -1.0] {
                    cases.push(("var", ops::var(&a, dimension, correction)?, nan));
                    cases.push(("std", ops::std(&a, dimension, correction)?, nan));
                }
                let shape = if dimension == 0 { [0, 3] } else { [3, 0] };
                let input = upload(&device, element, &[], &shape)?;
                let is = |x: f64, wanted: f64| x == wanted || x.is_nan() && wanted.is_nan();
                if device != Device::cpu() {
                    // All of them together, which are few kernels.
                    if element != ElementType::F32 {
                        continue;
                    }
                    let all: Vec<&Tensor> = cases.iter().map(|(_, tensor, _)| tensor).collect();
                    let kernel = te::auto::build(&all)?.build(&device)?;
                    let of = |tensor: &Tensor| match tensor.dtype() {
                        te::DType::I32 => ElementType::I32,
                        _ => element,
                    };
                    let made = all.iter().map(|tensor| device.zeros_of(of(tensor), [3]));
                    let mut made = made.collect::<Result<Vec<_>, _>>()?;
                    let mut arguments: Vec<(&Tensor, Argument<'_>)> = vec![(&a, (&input).into())];
                    arguments.extend(all.iter().zip(&mut made).map(|(tensor, made)| (*tensor, made.into())));
                    kernel.run_bound(&arguments)?;
                    drop(arguments);
                    for ((name, _, wanted), made) in cases.iter().zip(&made) {
                        let got = download(made)?;
                        assert!(got.iter().all(|x| is(*x, *wanted)), "{name} over {dimension} on {device}: {got:?}");
                    }
                    continue;
                }
                for (name, tensor, wanted) in cases {
                    for order in [Order::Device, Order::Shape, Order::Exact] {
                        let kernel = te::auto::reduce(&tensor)?.order(order).build(&device)?;
                        let got = run(&kernel, &[&input], &[3])?;
                        let what = format!("{name} over {dimension} of {shape:?} {element}, {order:?}");
                        assert!(got.iter().all(|x| is(*x, wanted)), "{what}: {got:?}");
                    }
                }
            }
        }
    }
    Ok(())
}
