//! The ready-made operations, scheduled automatically, on the emulated GPU (with the race detector on) and on the CPU,
//! compared with f64.

mod cases;
mod cells;
mod channels;
mod elements;
mod forms;
mod functions;
mod images;
mod indexing;
mod products;
mod products_refused;
mod quantize;
mod reductions;
mod running;
mod scans;
mod special;

use epilogue::te::auto::Kernel;
use epilogue::te::{self, TeError, Tensor, var};
use epilogue::{Arch, Argument, Device, DeviceTensor, ElementType};
use half::{bf16, f16};

fn devices() -> [Device; 2] {
    // Random turns: blocks run in every order.
    let options = ptx_vm::Options::default().detector(ptx_vm::Detector::On).completion(ptx_vm::Completion::Random);
    [Device::cpu(), Device::emulated_with(Arch::SM_80, options).expect("an emulated device needs nothing")]
}

/// Nearly normally distributed values.
fn normal(len: usize, seed: u64) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| (0..12).map(|_| random.f64()).sum::<f64>() - 6.0).collect()
}

/// The values after rounding to a type.
fn rounded(element: ElementType, values: &[f64]) -> Vec<f64> {
    let round = |x: &f64| match element {
        ElementType::F16 => f16::from_f64(*x).to_f64(),
        ElementType::BF16 => bf16::from_f64(*x).to_f64(),
        ElementType::F32 => f64::from(*x as f32),
        _ => *x,
    };
    values.iter().map(round).collect()
}

fn upload(device: &Device, element: ElementType, values: &[f64], shape: &[usize]) -> Result<DeviceTensor, TeError> {
    Ok(match element {
        ElementType::F16 => device.tensor(&values.iter().map(|x| f16::from_f64(*x)).collect::<Vec<_>>(), shape)?,
        ElementType::BF16 => device.tensor(&values.iter().map(|x| bf16::from_f64(*x)).collect::<Vec<_>>(), shape)?,
        ElementType::F64 => device.tensor(values, shape)?,
        ElementType::I32 => device.tensor(&values.iter().map(|x| *x as i32).collect::<Vec<_>>(), shape)?,
        _ => device.tensor(&values.iter().map(|x| *x as f32).collect::<Vec<_>>(), shape)?,
    })
}

fn download(tensor: &DeviceTensor) -> Result<Vec<f64>, TeError> {
    Ok(match tensor.element_type() {
        ElementType::F16 => tensor.to_vec::<f16>()?.into_iter().map(f64::from).collect(),
        ElementType::BF16 => tensor.to_vec::<bf16>()?.into_iter().map(f64::from).collect(),
        ElementType::F64 => tensor.to_vec::<f64>()?,
        ElementType::I32 => tensor.to_vec::<i32>()?.into_iter().map(f64::from).collect(),
        _ => tensor.to_vec::<f32>()?.into_iter().map(f64::from).collect(),
    })
}

/// Runs a kernel with one output.
fn run(kernel: &Kernel, inputs: &[&DeviceTensor], shape: &[usize]) -> Result<Vec<f64>, TeError> {
    let output = kernel.parameters().last().expect("an output").clone();
    let te::DType::Number(element) = output.dtype() else { panic!("truth values") };
    let mut result = kernel.device().zeros_of(element, shape)?;
    let mut arguments: Vec<Argument<'_>> = inputs.iter().map(|tensor| Argument::from(*tensor)).collect();
    arguments.push((&mut result).into());
    kernel.run(&arguments)?;
    download(&result)
}

/// The tolerance is the output type's rounding of a result, and `units` rounding units of the arithmetic type. These
/// are units of the result, or of `scale`, the sum of the magnitudes that were added.
fn close(element: ElementType, got: &[f64], wanted: &[f64], units: f64, scale: f64, what: &str) {
    assert_eq!(got.len(), wanted.len(), "{what}");
    let storing = match element {
        ElementType::F16 => 2.0f64.powi(-11),
        ElementType::BF16 => 2.0f64.powi(-8),
        _ => 0.0,
    };
    let computing = units * if element == ElementType::F64 { 2.0f64.powi(-53) } else { 2.0f64.powi(-24) };
    for (i, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        // Results below the least normal f16 are rounded to multiples of 2^-24.
        let bound = storing * wanted.abs().max(2.0f64.powi(-14)) + computing * wanted.abs().max(scale);
        assert!((got - wanted).abs() <= bound || got == wanted, "{what}: element {i} is {got}, not {wanted} ± {bound}");
    }
}

const FLOATS: [ElementType; 4] = [ElementType::F32, ElementType::F16, ElementType::BF16, ElementType::F64];

fn matrix(element: ElementType) -> Tensor {
    te::placeholder_of(element, [var("n"), var("m")], "A")
}
