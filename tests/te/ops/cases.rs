//! Cases that a script beside them made with another library: their text, and a run of an operation everywhere.

#![allow(clippy::unwrap_used, reason = "tests")]

use epilogue::te::auto::Order;
use epilogue::te::{self, TeError, Tensor};
use epilogue::{Arch, Argument, Device, DeviceTensor};

use super::{download, upload};
use crate::auto::shared::{emulated, laid_out};
use crate::native::both::{agree, input, output};

/// A line of a script's text.
pub(super) struct Case<'a> {
    pub(super) line: &'a str,
    pub(super) operation: &'a str,
    pub(super) options: &'a str,
    pub(super) shape: Vec<usize>,
    pub(super) elements: Vec<f64>,
    pub(super) result_shape: Vec<usize>,
    pub(super) results: Vec<Vec<f64>>,
}

pub(super) fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace().map(|x| x.parse().unwrap_or_else(|_| panic!("{x:?} is no number"))).collect()
}

impl<'a> Case<'a> {
    pub(super) fn of(line: &'a str) -> Self {
        let shape_of = |text: &str| match text {
            "scalar" => Vec::new(),
            _ => text.split('x').map(|extent| extent.parse().unwrap()).collect(),
        };
        let fields: Vec<&str> = line.split(';').map(str::trim).collect();
        let [operation, options, shape, elements, result_shape] = fields[..5] else { panic!("{line}") };
        Self {
            line,
            operation,
            options,
            shape: shape_of(shape),
            elements: numbers(elements),
            result_shape: shape_of(result_shape),
            results: fields[5..].iter().map(|field| numbers(field)).collect(),
        }
    }
}

/// A tensor with its values and extents.
pub(super) type Given<'a> = (Tensor, Vec<f64>, &'a [usize]);

fn automatic(
    device: &Device,
    order: Order,
    results: &[Tensor],
    given: &[Given<'_>],
    is_view: bool,
    shape: &[usize],
) -> Result<Vec<Vec<f64>>, TeError> {
    let kernel = te::auto::build(&results.iter().collect::<Vec<_>>())?.order(order).build(device)?;
    let tensors: Vec<DeviceTensor> = given
        .iter()
        .map(|(x, values, shape)| match is_view && !shape.is_empty() {
            // The dimensions lie in the other order, with a gap after each line.
            true => {
                let order: Vec<usize> = (0..shape.len()).rev().collect();
                laid_out(device, values, x.dtype().in_memory(), shape, &order, 3)
            }
            false => upload(device, x.dtype().in_memory(), values, shape),
        })
        .collect::<Result<_, _>>()?;
    let mut made: Vec<DeviceTensor> =
        results.iter().map(|result| device.zeros_of(result.dtype().in_memory(), shape)).collect::<Result<_, _>>()?;
    let mut arguments: Vec<(&Tensor, Argument<'_>)> =
        given.iter().zip(&tensors).map(|((x, ..), tensor)| (x, tensor.into())).collect();
    arguments.extend(results.iter().zip(&mut made).map(|(result, made)| (result, made.into())));
    kernel.run_bound(&arguments)?;
    drop(arguments);
    made.iter().map(download).collect()
}

/// Runs results of one shape on the CPU in every order and with views, and on the emulated GPUs where `on_gpus` says so. A
/// program of them is interpreted, and run as native code. `check` gets the values of each run.
pub(super) fn everywhere(
    case: &Case<'_>,
    results: &[Tensor],
    given: &[Given<'_>],
    on_gpus: bool,
    check: &dyn Fn(&[Vec<f64>], &str),
) -> Result<(), TeError> {
    let has_compiler = epilogue_runtime::testing::compiler(case.operation).is_some();
    let gpus = [Arch::SM_80, Arch::SM_90A].map(|arch| (on_gpus && has_compiler).then(|| emulated(arch)));
    let cpu = Device::cpu();
    let mut runs = vec![(&cpu, Order::Device, true)];
    runs.extend([Order::Device, Order::Shape, Order::Exact].map(|order| (&cpu, order, false)));
    runs.extend(gpus.iter().flatten().enumerate().map(|(place, gpu)| (gpu, Order::Device, place == 1)));
    for (device, order, is_view) in runs {
        let what = format!("{} on {device} in {order:?}, of a view: {is_view}", case.line);
        let got = automatic(device, order, results, given, is_view, &case.result_shape)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        check(&got, &what);
    }
    let outputs: Vec<&Tensor> = results.iter().collect();
    let arguments: Vec<&Tensor> = given.iter().map(|(x, ..)| x).chain(results).collect();
    let program = te::lower(&te::create_schedule(&outputs), &arguments, "main")?;
    let mut both: Vec<_> = given.iter().map(|(x, values, shape)| input(x.dtype(), shape, values)).collect();
    both.extend(results.iter().map(|result| output(result.dtype(), &case.result_shape)));
    check(&agree(&program, &both)[given.len()..], &format!("{}, scheduled", case.line));
    Ok(())
}

/// Whether values are the same: within some rounding units of f32, of their own size, or equal, or both NaN.
pub(super) fn assert_close(got: &[f64], wanted: &[f64], units: f64, what: &str) {
    assert_eq!(got.len(), wanted.len(), "{what}");
    for (place, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        // What a script wrote, in f32.
        let wanted = &f64::from(*wanted as f32);
        let bound = units * f64::from(f32::EPSILON) * wanted.abs().max(1.0);
        let is_close = got == wanted || (got - wanted).abs() <= bound || got.is_nan() && wanted.is_nan();
        assert!(is_close, "{what}: element {place} is {got}, not {wanted}");
    }
}
