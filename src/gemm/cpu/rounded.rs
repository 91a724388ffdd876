//! Rounds operands before the product, for `Arithmetic::FastBf16`. The copies are then multiplied like any bf16 tensor.

use epilogue_runtime::{DeviceTensor, Result};
use half::bf16;

use crate::ElementType;
use crate::gemm::problem::digits::shape_of;
use crate::simd::convert::bf16_from_f32;

/// A packed copy of an f32 tensor, rounded to bf16.
///
/// # Errors
/// The tensor can't be read, or there is not enough memory.
pub(crate) fn rounded(tensor: &DeviceTensor) -> Result<DeviceTensor> {
    let bytes = tensor.to_bytes()?;
    let (words, _) = bytes.as_chunks::<4>();
    let values: Vec<bf16> = words.iter().map(|word| bf16_from_f32(f32::from_ne_bytes(*word))).collect();
    tensor.device().tensor_from_bytes(ElementType::BF16, bytemuck::cast_slice(&values), shape_of(tensor))
}
