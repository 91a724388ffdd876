//! Shared parts of these tests: an emulated GPU, and tensors that lie in memory as a case wants.

use epilogue::te::TeError;
use epilogue::{Arch, Device, DeviceTensor, ElementType};
use half::{bf16, f16};

/// A GPU with the race detector on, whose blocks run in every order.
pub(crate) fn emulated(arch: Arch) -> Device {
    let options = ptx_vm::Options::default().detector(ptx_vm::Detector::On).completion(ptx_vm::Completion::Random);
    Device::emulated_with(arch, options).expect("an emulated device needs nothing")
}

/// A tensor of the values. `order` has its axes, the innermost in memory last, and a gap follows each line of that one.
pub(crate) fn laid_out<T: Copy + Into<f64>>(
    device: &Device,
    values: &[T],
    element: ElementType,
    shape: &[usize],
    order: &[usize],
    gap: usize,
) -> Result<DeviceTensor, TeError> {
    let mut stored: Vec<usize> = order.iter().map(|axis| shape[*axis]).collect();
    let last = stored.len() - 1;
    let line = stored[last];
    stored[last] += gap;
    let mut inverse = vec![0; shape.len()];
    order.iter().enumerate().for_each(|(place, axis)| inverse[*axis] = place);
    let mut view = device.zeros_of(element, stored)?.slice(last, 0..line)?.permute(&inverse)?;
    let values = values.iter().map(|x| -> f64 { (*x).into() });
    match element {
        ElementType::F16 => view.copy_from(&values.map(f16::from_f64).collect::<Vec<_>>())?,
        ElementType::BF16 => view.copy_from(&values.map(bf16::from_f64).collect::<Vec<_>>())?,
        ElementType::F64 => view.copy_from(&values.collect::<Vec<_>>())?,
        ElementType::I32 => view.copy_from(&values.map(|x| x as i32).collect::<Vec<_>>())?,
        _ => view.copy_from(&values.map(|x| x as f32).collect::<Vec<_>>())?,
    }
    Ok(view)
}

/// The order of a tensor's axes in memory: as they are, or with the first innermost.
pub(crate) fn order(rank: usize, turned: bool) -> Vec<usize> {
    if turned { (1..rank).chain([0]).collect() } else { (0..rank).collect() }
}

/// The elements of a tensor.
pub(crate) fn numbers(tensor: &DeviceTensor) -> Result<Vec<f64>, TeError> {
    Ok(match tensor.element_type() {
        ElementType::F16 => tensor.to_vec::<f16>()?.into_iter().map(f64::from).collect(),
        ElementType::BF16 => tensor.to_vec::<bf16>()?.into_iter().map(f64::from).collect(),
        ElementType::F64 => tensor.to_vec::<f64>()?,
        ElementType::I32 => tensor.to_vec::<i32>()?.into_iter().map(f64::from).collect(),
        _ => tensor.to_vec::<f32>()?.into_iter().map(f64::from).collect(),
    })
}
