//! Maps without any reduction: on an emulated GPU with the race detector on, and on the CPU.

use epilogue::te::auto::Order;
use epilogue::te::{self, Expr, TeError, placeholder_of, var};
use epilogue::{Arch, Argument, Device, ElementType};
use epilogue_runtime::testing;
use half::{bf16, f16};
use proptest::prelude::*;

use crate::auto::chain::Rows;
use crate::auto::shared::{emulated, laid_out, order as order_in_memory};
use crate::values::integers_in;

/// An expression that reads reductions is not a map, and the error says so.
#[test]
fn what_maps_refuse() -> Result<(), TeError> {
    let rows = Rows::new(ElementType::F32, 2);
    let sum = rows.reduced("sum", |x, axes| te::sum(x, axes), |x, _| x)?;
    let shifted = rows.points("shifted", |x, i, _| x + sum.at([rows.n - 1 - i]))?;
    let error = te::auto::map(&shifted).map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "reading sum, another reduction, in one kernel (`te::auto::build` makes several) is not supported by te::auto"
    );
    let error = te::auto::map(&sum).map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "sum, which is not computed element by element (`te::auto::build` takes it), is not supported by te::auto"
    );
    Ok(())
}

/// Gathers, several outputs, types, layouts.
#[test]
fn maps_of_any_shape() {
    if testing::compiler("maps_of_any_shape").is_none() {
        return;
    }
    let devices = [Device::cpu(), emulated(Arch::SM_80)];
    let extent = || prop_oneof![1 => Just(0usize), 2 => Just(1), 6 => 2usize..70];
    let config = ProptestConfig { cases: testing::cases(40), failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(n in extent(), m in extent(), turned: [bool; 3], gap in 0usize..3, half: bool, seed: u64)| {
        for device in &devices {
            let element = if half { ElementType::F16 } else { ElementType::F32 };
            if let Err(error) = map_of(device, element, [n, m], turned, gap, seed) {
                panic!("{n} x {m} on {device}: {error}");
            }
        }
    });
}

/// `x·2 + row` and the element at an index from data, which is 0 for negative indices.
fn map_of(
    device: &Device,
    element: ElementType,
    [n, m]: [usize; 2],
    turned: [bool; 3],
    gap: usize,
    seed: u64,
) -> Result<(), TeError> {
    let (rows, columns) = (var("n"), var("m"));
    let a = placeholder_of(element, [rows, columns], "points");
    let row = placeholder_of(ElementType::F32, [columns], "outputs");
    let index = placeholder_of(ElementType::I32, [rows, columns], "I");
    let outputs = te::compute_all([rows, columns], "made", |[i, j]| {
        let chosen = index.at([i, j]);
        let gathered = a.at([Expr::from(i), chosen.clone()]).cast(ElementType::F32);
        let sum = a.at([i, j]).cast(ElementType::F32) * 2.0 + row.at([j]);
        vec![sum, chosen.less(0).select(Expr::constant(0.0, te::DType::F32), gathered).cast(element)]
    })?;
    let kernel = te::auto::map_all(&outputs.iter().collect::<Vec<_>>())?.build(device)?;
    let values = integers_in::<f32>(n * m, seed, -4..=4);
    let bias = integers_in::<f32>(m, seed ^ 1, -4..=4);
    let mut random = fastrand::Rng::with_seed(seed ^ 2);
    let chosen: Vec<f32> = (0..n * m).map(|_| random.i32(-1..m as i32) as f32).collect();
    let x = laid_out(device, &values, element, &[n, m], &order_in_memory(2, turned[0]), gap)?;
    let b = device.tensor(&bias, [m])?;
    let i = laid_out(device, &chosen, ElementType::I32, &[n, m], &order_in_memory(2, turned[1]), gap)?;
    let mut sum = laid_out(device, &vec![-1.0; n * m], ElementType::F32, &[n, m], &order_in_memory(2, turned[2]), gap)?;
    let mut gathered = laid_out(device, &vec![-1.0; n * m], element, &[n, m], &[0, 1], gap)?;
    let mut arguments = Vec::new();
    for parameter in &kernel.parameters()[..3] {
        arguments.push(Argument::from(if *parameter == a {
            &x
        } else if *parameter == row {
            &b
        } else {
            &i
        }));
    }
    arguments.extend([(&mut sum).into(), (&mut gathered).into()]);
    kernel.run(&arguments)?;
    drop(arguments);
    let wanted: Vec<f32> = values.iter().enumerate().map(|(at, x)| x * 2.0 + bias[at % m]).collect();
    assert_eq!(sum.to_vec::<f32>()?, wanted, "{}\n{}", kernel.choice(), kernel.source());
    let pick = |at: usize| if chosen[at] < 0.0 { 0.0 } else { values[at / m * m + chosen[at] as usize] };
    let wanted: Vec<f32> = (0..n * m).map(pick).collect();
    let got = match element {
        ElementType::F16 => gathered.to_vec::<f16>()?.into_iter().map(f32::from).collect(),
        _ => gathered.to_vec::<f32>()?,
    };
    assert_eq!(got, wanted, "{}\n{}", kernel.choice(), kernel.source());
    Ok(())
}

/// An index outside its tensor is an error, on every device, and nothing else.
#[test]
fn an_index_outside_its_tensor_is_an_error() -> Result<(), TeError> {
    let n = var("n");
    let (a, i) = (te::placeholder([n], "A"), placeholder_of(ElementType::I32, [n], "I"));
    let out = te::compute([n], "out", |[x]| a.at([i.at([x])]))?;
    let device = Device::cpu();
    let kernel = te::auto::map(&out)?.build(&device)?;
    let (values, indices) = (device.tensor(&[1f32, 2.0, 3.0], [3])?, device.tensor(&[0, 3, 1], [3])?);
    let mut result = device.zeros::<f32>([3])?;
    let arguments: Vec<Argument<'_>> =
        kernel.parameters()[..2].iter().map(|p| Argument::from(if *p == a { &values } else { &indices })).collect();
    let arguments: Vec<Argument<'_>> = arguments.into_iter().chain([(&mut result).into()]).collect();
    let error = kernel.run(&arguments).unwrap_err();
    assert!(error.to_string().contains("an index of dimension 0 is 3"), "{error}");
    Ok(())
}

/// A map of functions, with results of a type; gives the values and the text.
fn functions(device: &Device, result: ElementType, order: Order, x: &[f32]) -> Result<(Vec<f32>, String), TeError> {
    let n = var("n");
    let a = placeholder_of(ElementType::F32, [n], "A");
    let y = te::compute([n], "Y", |[i]| {
        let x = a.at([i]);
        let of = |function, x: &Expr| Expr::call(function, vec![x.clone()]);
        let sum = of(epilogue::ops::gelu::function(), &x) + of(epilogue::ops::silu::function(), &x);
        let root = of(epilogue::ops::sqrt::function(), &(&x * &x + 1.0));
        (sum + of(epilogue::ops::exp::function(), &(&x * 0.25)) + of(epilogue::ops::tanh::function(), &x) / root)
            .cast(result)
    })?;
    let kernel = te::auto::map(&y)?.order(order).build(device)?;
    let (input, mut output) = (device.tensor(x, [x.len()])?, device.zeros_of(result, [x.len()])?);
    kernel.run(&[(&input).into(), (&mut output).into()])?;
    let values = match result {
        ElementType::F16 => output.to_vec::<f16>()?.into_iter().map(f32::from).collect(),
        ElementType::BF16 => output.to_vec::<bf16>()?.into_iter().map(f32::from).collect(),
        _ => output.to_vec::<f32>()?,
    };
    Ok((values, kernel.source()))
}

#[test]
fn functions_are_as_accurate_as_their_results() -> Result<(), TeError> {
    if testing::compiler("functions_are_as_accurate_as_their_results").is_none() {
        return Ok(());
    }
    let device = emulated(Arch::SM_80);
    let mut random = fastrand::Rng::with_seed(7);
    let x: Vec<f32> = (0..3000).map(|_| random.f32() * 12.0 - 6.0).collect();
    let (exact, source) = functions(&device, ElementType::F32, Order::Device, &x)?;
    assert!(!source.contains("= epilogue::math::approx11") && !source.contains("ops::approx11::"), "{source}");
    // Half a unit of the result, and the error of functions where terms cancel.
    for (result, unit) in [(ElementType::F16, 2f32.powi(-11)), (ElementType::BF16, 2f32.powi(-8))] {
        let (close, source) = functions(&device, result, Order::Device, &x)?;
        assert!(source.contains("ops::approx11::gelu"), "{source}");
        for ((x, close), exact) in x.iter().zip(&close).zip(&exact) {
            let bound = exact.abs() * unit + 2f32.powi(-14);
            assert!((close - exact).abs() <= bound, "{close} for {exact} of {x}: {result}");
        }
        let (_, source) = functions(&device, result, Order::Shape, &x)?;
        assert!(!source.contains("ops::approx11::"), "{source}");
    }
    Ok(())
}

/// A name may have characters that would end a comment or a string of the kernel's text.
#[test]
fn names_have_any_characters() -> Result<(), TeError> {
    if testing::compiler("names_have_any_characters").is_none() {
        return Ok(());
    }
    let name = "x*/\n#error \"c\"\\";
    let n = var(name);
    let x = te::placeholder([n], name);
    let y = te::compute([n], name, |[i]| x.at([i]) + 1.0)?;
    let device = emulated(Arch::SM_80);
    let (given, mut made) = (device.tensor(&[1f32, 2.0], [2])?, device.zeros::<f32>([2])?);
    te::auto::build(&[&y])?.build(&device)?.run_bound(&[(&x, (&given).into()), (&y, (&mut made).into())])?;
    assert_eq!(made.to_vec::<f32>()?, [2.0, 3.0]);
    Ok(())
}
