//! Operands rounded before the product, for `Arithmetic::FastBf16`: copies, which are then multiplied as any bf16 is.

use epilogue_runtime::{DeviceTensor, Result};
use half::bf16;

use crate::ElementType;
use crate::simd::convert::bf16_from_f32;

/// The f32 tensor's values rounded to bf16, packed.
///
/// # Errors
/// A tensor that can't be read, or memory that runs out.
pub(crate) fn rounded(tensor: &DeviceTensor) -> Result<DeviceTensor> {
    let bytes = tensor.to_bytes()?;
    let (words, _) = bytes.as_chunks::<4>();
    let values: Vec<bf16> = words.iter().map(|word| bf16_from_f32(f32::from_ne_bytes(*word))).collect();
    tensor.device().tensor_from_bytes(ElementType::BF16, bytemuck::cast_slice(&values), tensor.shape())
}
