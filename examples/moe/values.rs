//! Numbers into tensors of the block's type, and back.

use epilogue::prelude::*;

use crate::Result;

/// A tensor of these numbers, which the type has exactly.
pub(crate) fn tensor(device: &Device, element: ElementType, values: &[f64], shape: &[usize]) -> Result<DeviceTensor> {
    Ok(match element {
        ElementType::BF16 => device.tensor(&values.iter().copied().map(bf16::from_f64).collect::<Vec<_>>(), shape)?,
        _ => device.tensor(&values.iter().map(|value| *value as f32).collect::<Vec<_>>(), shape)?,
    })
}

/// The numbers of a tensor of floats.
pub(crate) fn numbers(tensor: &DeviceTensor) -> Result<Vec<f64>> {
    Ok(match tensor.element_type() {
        ElementType::BF16 => tensor.to_vec::<bf16>()?.into_iter().map(f64::from).collect(),
        _ => tensor.to_vec::<f32>()?.into_iter().map(f64::from).collect(),
    })
}
