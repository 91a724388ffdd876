//! NVFP4: blocks of 16 with an 8-bit float as their scale, and one f32 for the tensor.

use super::mx::fill;
use super::sealed::{Decode, Encode};
use super::{BlockFormat, SmallFloat, largest_magnitude, nibbles};
use crate::error::formats::FormatError;

/// NVFP4: 16 values of e2m1 that share a scale of e4m3 (its sign is never set); the tensor has one more scale, an f32.
///
/// Two codes are in a byte, the even one in its lower half. A value is `code * (tensor scale * block scale)`, the product
/// in brackets rounded to f32, as in torchao.
///
/// **Encoding**: the block's scale is its largest magnitude, divided by 6 and by the tensor's scale. It is at least 2^-6
/// and at most 448, and is rounded to the nearest e4m3. A code is the nearest value to `x * (1 / tensor scale / block scale)`, ties to
/// even, at most 6. All steps are in f32, so the bits are those of torchao's `nvfp4_quantize`. Values above
/// `6 * 448 * tensor scale` are cut off, infinities too. NaN gives the block the scale NaN.
///
/// ```
/// use epilogue_runtime::formats::{BlockFormat, EncodeBlocks, Nvfp4};
///
/// let row: Vec<f32> = (0..16).map(|i| i as f32 - 8.0).collect();
/// let format = Nvfp4::for_largest(8.0)?;
/// let (codes, scales) = format.encode(&row)?;
/// assert_eq!((codes.len(), scales.len()), (8, 1));
/// assert_eq!(format.decode(&codes, &scales)?[0], -8.0);
/// # Ok::<(), epilogue_runtime::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nvfp4 {
    tensor_scale: f32,
}

/// The least scale of a block that encoding gives: e4m3's smallest normal number.
const LEAST: f32 = 1.0 / 64.0;
/// The largest scale of a block.
const MOST: f32 = SmallFloat::E4M3.largest();

/// The smallest scale of a tensor: divided by it and by the least scale of a block, 1 is still an f32.
const SMALLEST: f32 = f32::from_bits((127 - 120) << 23);

impl Default for Nvfp4 {
    /// A tensor's scale of 1: blocks have the only scales.
    fn default() -> Self {
        Self { tensor_scale: 1.0 }
    }
}

impl Nvfp4 {
    /// With this scale of the tensor.
    ///
    /// # Errors
    /// [`FormatError::TensorScale`] unless it is finite and at least 2^-120: what a code is divided by must be an f32.
    pub fn new(tensor_scale: f32) -> Result<Self, FormatError> {
        if tensor_scale.is_finite() && tensor_scale >= SMALLEST {
            return Ok(Self { tensor_scale });
        }
        Err(FormatError::TensorScale { given: tensor_scale.to_string() })
    }

    /// With the scale with which this magnitude becomes the largest value of the format: `largest / (448 * 6)`.
    ///
    /// # Errors
    /// [`FormatError::TensorScale`].
    pub fn for_largest(largest: f32) -> Result<Self, FormatError> {
        Self::new(largest / (MOST * SmallFloat::E2M1.largest()))
    }

    /// The tensor's scale.
    #[must_use]
    pub const fn tensor_scale(self) -> f32 {
        self.tensor_scale
    }
}

impl BlockFormat for Nvfp4 {
    fn name(&self) -> &'static str {
        "NVFP4"
    }

    fn block_len(&self) -> usize {
        16
    }

    fn code_bytes(&self) -> usize {
        8
    }

    fn scale_bytes(&self) -> usize {
        1
    }
}

#[expect(clippy::cast_possible_truncation, reason = "f32 has every value of e4m3")]
fn e4m3(bits: u8) -> f32 {
    SmallFloat::E4M3.decode(bits) as f32
}

impl Decode for Nvfp4 {
    fn decode_block(&self, codes: &[u8], scale: &[u8], values: &mut [f32]) {
        let scale = f64::from(self.tensor_scale * e4m3(scale[0]));
        fill(values, nibbles(codes).map(|code| SmallFloat::E2M1.decode(code) * scale));
    }
}

impl Encode for Nvfp4 {
    fn encode_block(
        &self,
        _block: usize,
        values: &[f32],
        codes: &mut [u8],
        scale: &mut [u8],
    ) -> Result<(), FormatError> {
        let wanted = largest_magnitude(values) / SmallFloat::E2M1.largest() / self.tensor_scale;
        // A NaN stays one.
        let byte = SmallFloat::E4M3.encode(f64::from(wanted.clamp(LEAST, MOST)));
        scale[0] = byte;
        let factor = 1.0 / self.tensor_scale / e4m3(byte);
        let code = |x: f32| SmallFloat::E2M1.encode(f64::from(x * factor));
        for (byte, pair) in codes.iter_mut().zip(values.chunks_exact(2)) {
            *byte = code(pair[0]) | code(pair[1]) << 4;
        }
        Ok(())
    }
}
