//! Every choice of dimensions, direction and extents, compared with loops; and arguments that don't fit.

use epilogue::te::ops::{Dimensions, Running};
use epilogue::te::{self, Array, ExpressionError, TeError, Tensor, ops, var};
use epilogue::{Device, ElementType};
use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::{devices, download, upload};

const SHAPE: [usize; 3] = [3, 4, 5];

fn cube() -> Tensor {
    te::placeholder([var("a"), var("b"), var("c")], "A")
}

fn values() -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(11);
    (0..60).map(|_| f64::from(random.i32(-4..5))).collect()
}

/// Runs an operation on a device with an automatic schedule, and with its default schedule in the interpreter.
fn everywhere(result: &Tensor, a: &Tensor, scan: bool, shape: &[usize]) -> Result<Vec<Vec<f64>>, TeError> {
    let element = result.dtype().in_memory();
    let mut all = Vec::new();
    for device in devices() {
        let automatic = if scan { te::auto::scan(result)? } else { te::auto::reduce(result)? };
        let (input, mut output) =
            (upload(&device, ElementType::F32, &values(), &SHAPE)?, device.zeros_of(element, shape)?);
        automatic.build(&device)?.run(&[(&input).into(), (&mut output).into()])?;
        let bytes = || output.to_bytes().map(|bytes| bytes.into_iter().map(f64::from).collect());
        all.push(if element == ElementType::U8 { bytes()? } else { download(&output)? });
    }
    let program = te::lower(&te::create_schedule(&[result]), &[a, result], "main")?;
    let mut arrays = [Array::new(ElementType::F32, &SHAPE, &values())?, Array::unwritten(result.dtype(), shape)];
    program.interpret(&mut arrays)?;
    all.push(arrays[1].values());
    Ok(all)
}

/// The elements that are reduced to each result, with their indices.
fn groups(dimensions: &[usize]) -> Vec<Vec<f64>> {
    let kept: usize = (0..3).filter(|d| !dimensions.contains(d)).map(|d| SHAPE[d]).product();
    let mut groups = vec![Vec::new(); kept];
    for (at, value) in values().into_iter().enumerate() {
        let index = [at / 20, at / 5 % 4, at % 5];
        let place = (0..3).filter(|d| !dimensions.contains(d)).fold(0, |place, d| place * SHAPE[d] + index[d]);
        groups[place].push(value);
    }
    groups
}

#[test]
fn reductions_over_any_dimensions() -> Result<(), TeError> {
    if epilogue_runtime::testing::compiler("reductions_over_any_dimensions").is_none() {
        return Ok(());
    }
    let first = |group: &[f64], best: f64| group.iter().position(|x| *x == best).map_or(-1.0, |place| place as f64);
    let greatest = |group: &[f64]| group.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = |group: &[f64]| group.iter().copied().fold(f64::INFINITY, f64::min);
    type Operation<'a> = (&'a str, fn(&Tensor, Dimensions) -> Result<Tensor, TeError>, Box<dyn Fn(&[f64]) -> f64 + 'a>);
    let operations: [Operation<'_>; 5] = [
        ("sum", |a, d| ops::sum(a, d), Box::new(|group| group.iter().sum())),
        ("argmax", |a, d| ops::argmax(a, d), Box::new(|group| first(group, greatest(group)))),
        ("argmin", |a, d| ops::argmin(a, d), Box::new(|group| first(group, least(group)))),
        ("all", |a, d| ops::all(a, d), Box::new(|group| f64::from(group.iter().all(|x| *x != 0.0)))),
        ("any", |a, d| ops::any(a, d), Box::new(|group| f64::from(group.iter().any(|x| *x != 0.0)))),
    ];
    for (name, operation, reference) in operations {
        for dimensions in [&[0][..], &[1], &[2], &[0, 2], &[1, 2], &[2, 0], &[0, 1, 2]] {
            let wanted: Vec<f64> = groups(dimensions).iter().map(|group| reference(group)).collect();
            for kept in [false, true] {
                let whole = if dimensions.len() == 3 { Dimensions::all() } else { Dimensions::from(dimensions) };
                let whole = if kept { whole.kept() } else { whole };
                let a = cube();
                let result = operation(&a, whole)?;
                let left = |d: &usize| kept || !dimensions.contains(d);
                let extent = |d: usize| if dimensions.contains(&d) { 1 } else { SHAPE[d] };
                let shape: Vec<usize> = (0..3).filter(left).map(extent).collect();
                for got in everywhere(&result, &a, false, &shape)? {
                    assert_eq!(got, wanted, "{name} over {dimensions:?}, kept: {kept}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn sums_that_run_in_every_way() -> Result<(), TeError> {
    if epilogue_runtime::testing::compiler("sums_that_run_in_every_way").is_none() {
        return Ok(());
    }
    for form in 0..16 {
        let (along, exclusive, reversed) = (form / 4, form & 1 == 1, form & 2 == 2);
        let mut running = if along == 3 { Running::all() } else { Running::along(along) };
        if exclusive {
            running = running.exclusive();
        }
        if reversed {
            running = running.reversed();
        }
        let steps: usize = if along == 3 { 60 } else { SHAPE[along] };
        let apart: usize = if along == 3 { 1 } else { SHAPE[along + 1..].iter().product() };
        let values = values();
        let wanted: Vec<f64> = (0..60)
            .map(|at| {
                let (step, start) = (at / apart % steps, at - at / apart % steps * apart);
                let other = |k: usize| match (reversed, exclusive) {
                    (false, false) => k <= step,
                    (false, true) => k < step,
                    (true, false) => k >= step,
                    (true, true) => k > step,
                };
                (0..steps).filter(|k| other(*k)).map(|k| values[start + k * apart]).sum()
            })
            .collect();
        let a = cube();
        let shape = if along == 3 { vec![60] } else { SHAPE.to_vec() };
        for got in everywhere(&ops::cumsum(&a, running)?, &a, true, &shape)? {
            assert_eq!(got, wanted, "{running:?}");
        }
    }
    Ok(())
}

/// A tensor of the given extents.
fn of(shape: &[usize], name: &str) -> Tensor {
    te::placeholder(shape.to_vec(), name)
}

fn refused<T>(result: Result<T, TeError>, message: &Expect) {
    message.assert_eq(&result.err().expect("what doesn't fit was accepted").to_string());
}

#[test]
fn extents_that_do_not_fit_are_refused_in_the_operations_words() {
    let x = of(&[3, 4], "x");
    refused(
        ops::layer_norm(&x, [1], Some(&of(&[9], "w")), None, 1e-5),
        &expect!["layer_norm: the weight w is [9]; it must be [4], as the dimensions of x that are normalised"],
    );
    refused(
        ops::layer_norm(&x, [1], None, Some(&of(&[3, 4], "b")), 1e-5),
        &expect!["layer_norm: the bias b is [3, 4]; it must be [4], as the dimensions of x that are normalised"],
    );
    refused(
        ops::rms_norm(&x, [0], Some(&of(&[4], "w")), 1e-5),
        &expect!["rms_norm: the weight w is [4]; it must be [3], as the dimensions of x that are normalised"],
    );
    refused(
        ops::linear_recurrence(&of(&[8, 5], "a"), &of(&[6, 4], "x")),
        &expect!["linear_recurrence: the coefficients a is [8, 5]; it must be [6, 4], as the input"],
    );
    refused(
        ops::linear_recurrence(&of(&[], "a"), &of(&[], "x")),
        &expect!["linear_recurrence: the input x is []; it must be [time, …]"],
    );
    refused(
        ops::lstm_cell(&of(&[3, 12], "g"), &x),
        &expect!["lstm_cell: the gates g is [3, 12]; it must be [3, 16], [batch, 4·hidden] of the cell state's"],
    );
    refused(
        ops::gru_cell(&of(&[3, 12], "p"), &of(&[2, 12], "q"), &x),
        &expect![
            "gru_cell: the state's products q is [2, 12]; it must be [3, 12], [batch, 3·hidden] of the hidden state's"
        ],
    );
    refused(
        ops::argmax(&of(&[1 << 20, 1 << 12], "x"), Dimensions::all()),
        &expect![
            "argmax: the tensor x is [1048576, 4096]; it must be of at most 2147483647 elements where it is reduced"
        ],
    );
    // A separate size may have another value, even if its name is the same.
    let sized = te::placeholder([var("n"), var("m")], "x");
    let weight = te::placeholder([var("m")], "w");
    refused(
        ops::layer_norm(&sized, [1], Some(&weight), None, 1e-5),
        &expect![
            "layer_norm: the weight w is [m]; it must be [m], as the dimensions of x that are normalised; sizes that are made apart are different ones, whatever their names: use one"
        ],
    );
}

proptest! {
    /// A selective scan refuses arguments that don't fit.
    #[test]
    fn selective_scans_take_what_fits(wrong in 0usize..6, dimension in 0usize..3, by in 1usize..3) {
        let (t, b, c, s) = (7, 2, 3, 4);
        let mut shapes = [vec![t, b, c], vec![t, b, c], vec![c, s], vec![t, b, s], vec![t, b, s], vec![c]];
        let place = dimension % shapes[wrong].len();
        let build = |shapes: &[Vec<usize>; 6]| {
            let [x, delta, a, b, c, skip] = shapes.each_ref().map(|shape| of(shape, "t"));
            ops::selective_scan_output(&x, &delta, &a, &b, &c, Some(&skip))
        };
        prop_assert!(build(&shapes).is_ok());
        shapes[wrong][place] += by;
        let refused = matches!(build(&shapes), Err(TeError::Expression(ExpressionError::Shape { .. })));
        prop_assert!(refused);
    }
}

/// Scalars and tensors without elements: empty reductions, with their dimensions kept.
#[test]
fn kept_dimensions_of_nothing() -> Result<(), TeError> {
    let a = te::placeholder([var("n"), var("m")], "A");
    let device = Device::cpu();
    let kernel = te::auto::reduce(&ops::sum(&a, Dimensions::from(1).kept())?)?.build(&device)?;
    let (input, mut output) = (device.zeros::<f32>([3, 0])?, device.tensor(&[7.0f32; 3], [3, 1])?);
    kernel.run(&[(&input).into(), (&mut output).into()])?;
    assert_eq!(output.to_vec::<f32>()?, [0.0; 3]);
    Ok(())
}
