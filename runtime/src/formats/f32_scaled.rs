//! Codes of a byte, with an f32 for each block or row.

use super::mx::fill;
use super::sealed::{Decode, Encode};
use super::{BlockFormat, SmallFloat, largest_magnitude, require_finite};
use crate::error::formats::FormatError;
use crate::layout::element::ElementType;

/// The codes of [`F32Scaled`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaledElement {
    /// Integers from -127 to 127.
    I8,
    /// 8-bit floats up to 448.
    F8E4M3,
    /// 8-bit floats up to 57344.
    F8E5M2,
}

impl ScaledElement {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::I8, Self::F8E4M3, Self::F8E5M2];

    /// The largest code, which a block's largest magnitude becomes.
    #[must_use]
    pub const fn largest(self) -> f32 {
        match self {
            Self::I8 => 127.0,
            Self::F8E4M3 => SmallFloat::E4M3.largest(),
            Self::F8E5M2 => SmallFloat::E5M2.largest(),
        }
    }

    /// The type of tensors of it.
    #[must_use]
    pub const fn element_type(self) -> ElementType {
        match self {
            Self::I8 => ElementType::I8,
            Self::F8E4M3 => ElementType::F8E4M3,
            Self::F8E5M2 => ElementType::F8E5M2,
        }
    }

    fn decode(self, code: u8) -> f64 {
        match self {
            Self::I8 => f64::from(code.cast_signed()),
            Self::F8E4M3 => SmallFloat::E4M3.decode(code),
            Self::F8E5M2 => SmallFloat::E5M2.decode(code),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "whole and within -127 and 127")]
    fn encode(self, x: f32) -> u8 {
        match self {
            Self::I8 => (x.round_ties_even().clamp(-127.0, 127.0) as i8).cast_unsigned(),
            Self::F8E4M3 => SmallFloat::E4M3.encode(f64::from(x)),
            Self::F8E5M2 => SmallFloat::E5M2.encode(f64::from(x)),
        }
    }
}

/// Codes of a byte that share an f32 scale: blocks of 16, 32 or 128, or a row.
///
/// Scales are f32 in little-endian order, one after the other.
///
/// **Encoding**: the scale is the largest magnitude divided by the largest code (127, 448, 57344), in f32. A code is the
/// nearest one to `x / scale`, which is rounded to f32 first; ties go to even. A block whose scale is 0 has the codes 0.
/// Values that are NaN or infinite are refused. `te::ops::quantize` of the crate `epilogue` computes the same.
///
/// ```
/// use epilogue_runtime::formats::{BlockFormat, EncodeBlocks, F32Scaled, ScaledElement};
///
/// let rows = F32Scaled::new(ScaledElement::I8, 4)?; // rows of 4 values
/// let (codes, scales) = rows.encode(&[1.0, -2.0, 0.0, 127.0, 0.0, 0.0, 0.0, -254.0])?;
/// assert_eq!(codes, [1i8, -2, 0, 127, 0, 0, 0, -127].map(i8::cast_unsigned));
/// assert_eq!(scales, [1.0f32.to_le_bytes(), 2.0f32.to_le_bytes()].concat());
/// # Ok::<(), epilogue_runtime::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct F32Scaled {
    element: ScaledElement,
    block: usize,
}

impl F32Scaled {
    /// Blocks of this many values.
    ///
    /// # Errors
    /// [`FormatError::Block`] for 0.
    pub const fn new(element: ScaledElement, block: usize) -> Result<Self, FormatError> {
        if block == 0 { Err(FormatError::Block { given: block }) } else { Ok(Self { element, block }) }
    }

    /// The type of its codes.
    #[must_use]
    pub const fn element(self) -> ScaledElement {
        self.element
    }
}

impl BlockFormat for F32Scaled {
    fn name(&self) -> &'static str {
        match self.element {
            ScaledElement::I8 => "i8 with f32 scales",
            ScaledElement::F8E4M3 => "f8e4m3 with f32 scales",
            ScaledElement::F8E5M2 => "f8e5m2 with f32 scales",
        }
    }

    fn block_len(&self) -> usize {
        self.block
    }

    fn code_bytes(&self) -> usize {
        self.block
    }

    fn scale_bytes(&self) -> usize {
        4
    }
}

impl Decode for F32Scaled {
    fn decode_block(&self, codes: &[u8], scale: &[u8], values: &mut [f32]) {
        let scale = f64::from(f32::from_le_bytes([scale[0], scale[1], scale[2], scale[3]]));
        fill(values, codes.iter().map(|code| self.element.decode(*code) * scale));
    }
}

impl Encode for F32Scaled {
    fn encode_block(
        &self,
        block: usize,
        values: &[f32],
        codes: &mut [u8],
        scale: &mut [u8],
    ) -> Result<(), FormatError> {
        require_finite(self.name(), block, values)?;
        let by = largest_magnitude(values) / self.element.largest();
        scale.copy_from_slice(&by.to_le_bytes());
        for (code, x) in codes.iter_mut().zip(values) {
            *code = if by == 0.0 { 0 } else { self.element.encode(x / by) };
        }
        Ok(())
    }
}
