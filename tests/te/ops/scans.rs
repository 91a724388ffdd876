//! Recurrences.

use epilogue::te::auto::{Kernel, Order};
use epilogue::te::{self, Expr, TeError, Tensor, ops, var};
use epilogue::{Arch, Device, ElementType};

use super::{FLOATS, close, devices, download, matrix, normal, rounded, run, upload};

#[test]
fn scans_of_floats() -> Result<(), TeError> {
    if epilogue_runtime::testing::compiler("scans_of_floats").is_none() {
        return Ok(());
    }
    for device in devices() {
        for element in FLOATS {
            for (steps, columns) in [(1, 3), (50, 1), (3000, 2), (200, 40)] {
                let values = rounded(element, &normal(steps * columns, 11));
                let gates =
                    rounded(element, &normal(steps * columns, 12).iter().map(|x| 0.5 + x / 16.0).collect::<Vec<_>>());
                let shape = [steps, columns];
                let a = matrix(element);
                let g = te::placeholder_of(element, a.shape(), "G");
                let input = upload(&device, element, &values, &shape)?;
                let gate = upload(&device, element, &gates, &shape)?;
                let (mut sums, mut states) = (values.clone(), values.clone());
                for at in columns..steps * columns {
                    sums[at] += sums[at - columns];
                    states[at] += gates[at] * states[at - columns];
                }
                let kernel = te::auto::scan(&ops::cumsum(&a, 0)?)?.build(&device)?;
                let what = |kernel: &Kernel| format!("{steps}x{columns} {element}: {}", kernel.choice());
                let got = run(&kernel, &[&input], &shape)?;
                close(element, &got, &sums, 16.0, steps as f64, &what(&kernel));
                let scan = te::auto::scan(&ops::linear_recurrence(&g, &a)?)?;
                let names: Vec<String> = scan.parameters().iter().map(Tensor::name).collect();
                let kernel = scan.build(&device)?;
                let inputs = if names[0] == "G" { [&gate, &input] } else { [&input, &gate] };
                let got = run(&kernel, &inputs, &shape)?;
                close(element, &got, &states, 16.0, 4.0, &what(&kernel));
            }
        }
    }
    Ok(())
}

/// The bits are the same for every order in which blocks and warps run.
#[test]
fn every_run_gives_the_same_bits() -> Result<(), TeError> {
    if epilogue_runtime::testing::compiler("every_run_gives_the_same_bits").is_none() {
        return Ok(());
    }
    let a = matrix(ElementType::F32);
    let values = normal(40_000, 9);
    let mut results: Vec<[Vec<f64>; 2]> = Vec::new();
    for (seed, workers, resident) in [(1, 1, 256), (2, 2, 7), (3, 4, 64)] {
        let options = ptx_vm::Options::default().seed(seed).workers(workers).resident_blocks(resident);
        let device = Device::emulated_with(Arch::SM_80, options)?;
        let row = upload(&device, ElementType::F32, &values, &[1, values.len()])?;
        let sum = te::auto::reduce(&ops::sum(&a, [1])?)?.build(&device)?;
        let scan = te::auto::scan(&ops::cumsum(&a, 1)?)?.build(&device)?;
        let pair = [run(&sum, &[&row], &[1])?, run(&scan, &[&row], &[1, values.len()])?];
        assert!(sum.choice().contains("blocks per output") && scan.choice().contains("shared"), "{}", scan.choice());
        results.push(pair);
    }
    assert!(results.iter().all(|pair| *pair == results[0]));
    Ok(())
}

/// One long row is shared by threads, and many rows are not: the bits are the same.
#[test]
fn a_row_has_the_same_bits_whoever_sums_it() -> Result<(), TeError> {
    let device = Device::cpu();
    let a = matrix(ElementType::F32);
    let values: Vec<f32> = normal(70_001, 21).iter().map(|x| *x as f32).collect();
    let kernel = te::auto::scan(&ops::cumsum(&a, 1)?)?.build(&device)?;
    let shared = run(&kernel, &[&device.tensor(&values, [1, values.len()])?], &[1, values.len()])?;
    assert!(kernel.choice().contains("groups of 16 neighbours"), "{}", kernel.choice());
    let rows = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) + 1;
    let all = device.tensor(&values.repeat(rows), [rows, values.len()])?;
    let all = run(&kernel, &[&all], &[rows, values.len()])?;
    assert!(all.chunks(values.len()).all(|row| row == shared));
    let mut sum = 0.0f64;
    for (got, x) in shared.iter().zip(&values) {
        sum += f64::from(*x);
        assert!((got - sum).abs() < 1e-2, "{got} for {sum}");
    }
    Ok(())
}

/// Exact order gives the bits of the plain loop, even for non-linear updates.
#[test]
fn exact_scans_have_the_bits_of_the_loop() -> Result<(), TeError> {
    if epilogue_runtime::testing::compiler("exact_scans_have_the_bits_of_the_loop").is_none() {
        return Ok(());
    }
    let (steps, columns) = (300, 5);
    let values: Vec<f32> = normal(steps * columns, 4).iter().map(|x| *x as f32).collect();
    let mut wanted = values.clone();
    for at in columns..steps * columns {
        wanted[at] += wanted[at - columns] * 0.75;
    }
    let a = matrix(ElementType::F32);
    let shape = a.shape();
    let state = te::placeholder(shape.clone(), "state");
    let init = te::compute([Expr::int(1), shape[1].clone()], "init", |[t, i]| a.at([t, i]))?;
    let update = te::compute(shape, "update", |[t, i]| state.at([t - 1, i.into()]) * 0.75 + a.at([t, i]))?;
    let scan = te::scan(&init, &update, &state, &[])?;
    for device in devices() {
        for order in [Order::Exact, Order::Shape] {
            let kernel = te::auto::scan(&scan)?.order(order).build(&device)?;
            let input = device.tensor(&values, [steps, columns])?;
            let got: Vec<f32> = run(&kernel, &[&input], &[steps, columns])?.into_iter().map(|x| x as f32).collect();
            assert_eq!(got, wanted, "{}", kernel.choice());
        }
    }
    Ok(())
}

#[test]
fn scans_along_other_dimensions_in_reverse_and_exclusive() -> Result<(), TeError> {
    if epilogue_runtime::testing::compiler("scans_along_other_dimensions_in_reverse_and_exclusive").is_none() {
        return Ok(());
    }
    let (rows, steps) = (3, 70);
    let values: Vec<f64> = (0..rows * steps).map(|i| f64::from(i as u32 % 11) - 5.0).collect();
    let a = matrix(ElementType::F32);
    for device in devices() {
        let input = upload(&device, ElementType::F32, &values, &[rows, steps])?;
        let kernel = te::auto::scan(&ops::cumsum(&a, 1)?)?.build(&device)?;
        let mut result = device.zeros::<f32>([rows, steps])?;
        kernel.run(&[(&input).into(), (&mut result).into()])?;
        let mut wanted = values.clone();
        for row in wanted.chunks_mut(steps) {
            (1..steps).for_each(|t| row[t] += row[t - 1]);
        }
        assert_eq!(download(&result)?, wanted, "{}", kernel.choice());

        // Suffix sums: the scan runs over the reversed input, and its output is reversed.
        let (m, n) = (a.shape()[1].clone(), a.shape()[0].clone());
        let state = te::placeholder([m.clone(), n.clone()], "state");
        let last = m.clone() - 1;
        let init = te::compute([Expr::int(1), n.clone()], "init", |[t, i]| a.at([Expr::from(i), last.clone() - t]))?;
        let update = te::compute([m.clone(), n.clone()], "update", |[t, i]| {
            state.at([t - 1, i.into()]) + a.at([Expr::from(i), last.clone() - t])
        })?;
        let scan = te::scan(&init, &update, &state, &[])?;
        let reversed = te::compute([m, n], "suffix", |[t, i]| scan.at([last.clone() - t, i.into()]))?;
        let kernel = te::auto::scan(&reversed)?.build(&device)?;
        let mut view = result.transpose()?;
        kernel.run(&[(&input).into(), (&mut view).into()])?;
        let mut wanted = values.clone();
        for row in wanted.chunks_mut(steps) {
            (0..steps - 1).rev().for_each(|t| row[t] += row[t + 1]);
        }
        assert_eq!(download(&result)?, wanted, "{}", kernel.choice());
    }
    Ok(())
}

#[test]
fn selective_scan_is_mambas() -> Result<(), TeError> {
    if epilogue_runtime::testing::compiler("selective_scan_is_mambas").is_none() {
        return Ok(());
    }
    let (steps, batch, channels, states) = (40, 2, 3, 4);
    let (t, b, d, n) = (var("t"), var("b"), var("d"), var("n"));
    let x = te::placeholder([t, b, d], "x");
    let delta = te::placeholder([t, b, d], "delta");
    let a = te::placeholder([d, n], "a");
    let input = te::placeholder([t, b, n], "B");
    let tensor = ops::selective_scan(&x, &delta, &a, &input)?;
    let data = [
        ("x", normal(steps * batch * channels, 1), vec![steps, batch, channels]),
        (
            "delta",
            normal(steps * batch * channels, 2).iter().map(|x| x.abs() / 4.0).collect(),
            vec![steps, batch, channels],
        ),
        ("a", normal(channels * states, 3).iter().map(|x| -x.abs()).collect(), vec![channels, states]),
        ("B", normal(steps * batch * states, 4), vec![steps, batch, states]),
    ];
    let mut wanted = vec![0.0; steps * batch * channels * states];
    for at in 0..wanted.len() {
        let (n, d) = (at % states, at / states % channels);
        let (b, t) = (at / states / channels % batch, at / states / channels / batch);
        let (tbd, tbn) = ((t * batch + b) * channels + d, (t * batch + b) * states + n);
        let before = if t == 0 { 0.0 } else { wanted[at - batch * channels * states] };
        let delta = data[1].1[tbd];
        wanted[at] = (delta * data[2].1[d * states + n]).exp() * before + delta * data[3].1[tbn] * data[0].1[tbd];
    }
    for device in devices() {
        let scan = te::auto::scan(&tensor)?;
        assert!(scan.is_parallel_in_time());
        let kernel = scan.build(&device)?;
        let mut inputs = Vec::new();
        for parameter in &kernel.parameters()[..4] {
            let (_, values, shape) = data.iter().find(|(name, ..)| *name == parameter.name()).expect("an input");
            inputs.push(upload(&device, ElementType::F32, values, shape)?);
        }
        let got = run(&kernel, &inputs.iter().collect::<Vec<_>>(), &[steps, batch, channels, states])?;
        close(ElementType::F32, &got, &wanted, 64.0, 1.0, &kernel.choice());
    }
    Ok(())
}

/// One launch, in which the states stay in registers: the arguments include no memory for them.
#[test]
fn selective_scan_output_is_mambas() -> Result<(), TeError> {
    if epilogue_runtime::testing::compiler("selective_scan_output_is_mambas").is_none() {
        return Ok(());
    }
    let (steps, batch, channels, states) = (50, 2, 5, 16);
    let (t, b, d, n) = (var("t"), var("b"), var("d"), var("n"));
    let inputs = |element| {
        [
            te::placeholder_of(element, [t, b, d], "x"),
            te::placeholder_of(element, [t, b, d], "delta"),
            te::placeholder([d, n], "a"),
            te::placeholder_of(element, [t, b, n], "B"),
            te::placeholder_of(element, [t, b, n], "C"),
            te::placeholder([d], "skip"),
        ]
    };
    for device in devices() {
        for element in [ElementType::F32, ElementType::BF16] {
            let (tbd, tbn) = (vec![steps, batch, channels], vec![steps, batch, states]);
            let small = |len, seed| normal(len, seed).iter().map(|x| x.abs() / 4.0).collect::<Vec<_>>();
            let f32 = ElementType::F32;
            let data = [
                ("x", element, rounded(element, &normal(tbd.iter().product(), 1)), tbd.clone()),
                ("delta", element, rounded(element, &small(tbd.iter().product(), 2)), tbd.clone()),
                (
                    "a",
                    f32,
                    rounded(f32, &normal(channels * states, 3).iter().map(|x| -x.abs()).collect::<Vec<_>>()),
                    vec![channels, states],
                ),
                ("B", element, rounded(element, &normal(tbn.iter().product(), 4)), tbn.clone()),
                ("C", element, rounded(element, &normal(tbn.iter().product(), 5)), tbn),
                ("skip", f32, rounded(f32, &normal(channels, 6)), vec![channels]),
            ];
            let mut wanted = vec![0.0; steps * batch * channels];
            for at in 0..batch * channels {
                let (b, d) = (at / channels, at % channels);
                let mut state = vec![0.0; states];
                for t in 0..steps {
                    let x = (t * batch + b) * channels + d;
                    let mut sum = data[5].2[d] * data[0].2[x];
                    for (n, state) in state.iter_mut().enumerate() {
                        let (delta, s) = (data[1].2[x], (t * batch + b) * states + n);
                        *state =
                            (delta * data[2].2[d * states + n]).exp() * *state + delta * data[3].2[s] * data[0].2[x];
                        sum += data[4].2[s] * *state;
                    }
                    wanted[x] = sum;
                }
            }
            for order in [Order::Device, Order::Shape] {
                let [x, delta, a, b, c, skip] = inputs(element);
                let tensor = ops::selective_scan_output(&x, &delta, &a, &b, &c, Some(&skip))?;
                let kernel = te::auto::scan(&tensor)?.order(order).build(&device)?;
                assert_eq!(kernel.parameters().len(), 7);
                let mut given = Vec::new();
                for parameter in &kernel.parameters()[..6] {
                    let (_, element, values, shape) =
                        data.iter().find(|(name, ..)| *name == parameter.name()).expect("an input");
                    given.push(upload(&device, *element, values, shape)?);
                }
                let got = run(&kernel, &given.iter().collect::<Vec<_>>(), &tbd)?;
                close(element, &got, &wanted, 256.0, 8.0, &format!("{element} {order:?}: {}", kernel.choice()));
            }
        }
    }
    Ok(())
}

/// Running sums have the shape of their input, along any dimension, with or without elements.
#[test]
fn running_sums_along_any_dimension() -> Result<(), TeError> {
    if epilogue_runtime::testing::compiler("running_sums_along_any_dimension").is_none() {
        return Ok(());
    }
    for device in devices() {
        for shape in [vec![7], vec![3, 4, 5], vec![2, 1, 3, 40], vec![0, 3], vec![3, 0]] {
            let len: usize = shape.iter().product();
            let values: Vec<f64> = (0..len).map(|i| f64::from(i as u32 % 7) - 2.0).collect();
            let elements = [ElementType::F32, ElementType::F16];
            for (element, dimension) in elements.into_iter().flat_map(|e| (0..shape.len()).map(move |d| (e, d))) {
                let extents: Vec<Expr> = (0..shape.len()).map(|d| var(&format!("n{d}")).into()).collect();
                let a = te::placeholder_of(element, extents, "A");
                let input = upload(&device, element, &values, &shape)?;
                let sums = ops::cumsum(&a, dimension)?;
                let inner: usize = shape[dimension + 1..].iter().product();
                let mut wanted = values.clone();
                for at in 0..len {
                    if !(at / inner).is_multiple_of(shape[dimension]) {
                        wanted[at] += wanted[at - inner];
                    }
                }
                let kernel = te::auto::scan(&sums)?.build(&device)?;
                let what = format!("{element} {shape:?} along {dimension}: {}", kernel.choice());
                assert_eq!(run(&kernel, &[&input], &shape)?, wanted, "{what}");
                if element != ElementType::F32 {
                    continue;
                }
                let plain = te::lower(&te::create_schedule(&[&sums]), &[&a, &sums], "main")?.build(&device)?;
                let mut result = device.zeros_of(element, &shape)?;
                plain.run(&[(&input).into(), (&mut result).into()])?;
                assert_eq!(download(&result)?, wanted, "{what}");
            }
        }
    }
    Ok(())
}
