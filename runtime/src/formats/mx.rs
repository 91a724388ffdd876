//! The formats of OCP's "Microscaling Formats (MX)" specification: blocks of 32 with a power of two as their scale.

use super::sealed::{Decode, Encode};
use super::{BlockFormat, SmallFloat, largest_magnitude, nibbles};
use crate::error::formats::FormatError;

/// How the scale of an MX block is rounded to a power of two. Its names are torchao's.
///
/// With `a` for the block's largest magnitude, `m` for the largest value of the element type and `e` for the exponent of
/// `m`:
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleMode {
    /// `2^(floor(log2(a)) - e)`, as OCP's specification has it. Values above `m` times the scale become `m` times the
    /// scale.
    Floor,
    /// `2^ceil(log2(a / m))`, with `a / m` rounded to f32: what cuBLAS and CUTLASS compute, by the instruction
    /// `cvt.rp.satfinite.ue8m0x2.f32`. No value is cut off.
    Rceil,
    /// `2^(ceil(log2(a)) - e)`.
    Ceil,
    /// As `Floor`, after rounding `a` to the mantissa bits of the element type, ties away from 0.
    Even,
}

/// The bits of an f32's mantissa.
const MANTISSA: u32 = 23;

impl ScaleMode {
    /// Every mode.
    pub const ALL: [Self; 4] = [Self::Floor, Self::Rceil, Self::Ceil, Self::Even];

    /// The byte of the scale (ue8m0: `b` is 2^(b - 127), and 255 is NaN) of a block with this largest magnitude.
    ///
    /// A block of zeros has 0, which is 2^-127. NaN gives 255.
    ///
    /// ```
    /// use epilogue_runtime::formats::{ScaleMode, SmallFloat};
    ///
    /// let byte = |mode: ScaleMode| i32::from(mode.scale_byte(500.0, SmallFloat::E4M3)) - 127;
    /// assert_eq!(byte(ScaleMode::Floor), 0); // 500 becomes 448
    /// assert_eq!(byte(ScaleMode::Rceil), 1);
    /// ```
    #[must_use]
    pub fn scale_byte(self, largest: f32, element: SmallFloat) -> u8 {
        let largest = largest.abs();
        if largest.is_nan() {
            return 255;
        }
        let (bits, least) = (largest.to_bits(), element.largest_exponent());
        let exponent = match self {
            Self::Floor => exponent(bits) - least,
            Self::Ceil => exponent(bits) + i32::from(bits & ((1 << MANTISSA) - 1) != 0) - least,
            Self::Even => exponent(bits + (1 << (MANTISSA - element.mantissa() - 1))) - least,
            Self::Rceil => {
                let bits = (largest / element.largest()).to_bits();
                // 2^-127 is subnormal: half of the smallest normal number.
                let above = if exponent(bits) == -127 { 1 << (MANTISSA - 1) } else { 0 };
                (exponent(bits) + i32::from(bits & ((1 << MANTISSA) - 1) > above)).min(127)
            }
        };
        u8::try_from((exponent + 127).clamp(0, 254)).unwrap_or(254)
    }
}

/// The exponent field of an f32, without its bias.
fn exponent(bits: u32) -> i32 {
    (bits >> MANTISSA & 255).cast_signed() - 127
}

/// 2^(byte - 127); NaN for 255.
pub(super) fn ue8m0(byte: u8) -> f64 {
    if byte == 255 { f64::NAN } else { f64::from_bits((1023 - 127 + u64::from(byte)) << 52) }
}

/// MXFP8, MXFP6 or MXFP4: 32 values that share a power of two.
///
/// Codes are a byte each, also those of 6 bits; of 4 bits, two are in a byte, the even one in its lower half. A scale is a
/// byte (ue8m0). So they are torch's and torchao's tensors, and cuBLASLt's operands of 8 and 4 bits.
///
/// **Encoding**: the scale is [`ScaleMode::scale_byte`] of the largest magnitude. A code is the nearest value to
/// `x / scale`, ties to even, at most the largest one. NaN gives the block the scale NaN. An infinity is cut off as any
/// large value is. The bits are torchao's `to_mx`, except for blocks below 2^-118 or so, whose scale is 2^-127: torchao
/// divides them by 2^-126 or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mx {
    name: &'static str,
    element: SmallFloat,
    mode: ScaleMode,
}

impl Mx {
    /// MXFP8 with elements of 4 exponent and 3 mantissa bits. The mode is for encoding.
    #[must_use]
    pub const fn fp8_e4m3(mode: ScaleMode) -> Self {
        Self { name: "MXFP8 (e4m3)", element: SmallFloat::E4M3, mode }
    }

    /// MXFP8 with elements of 5 exponent and 2 mantissa bits.
    #[must_use]
    pub const fn fp8_e5m2(mode: ScaleMode) -> Self {
        Self { name: "MXFP8 (e5m2)", element: SmallFloat::E5M2, mode }
    }

    /// MXFP6 with elements of 2 exponent and 3 mantissa bits, a byte each.
    #[must_use]
    pub const fn fp6_e2m3(mode: ScaleMode) -> Self {
        Self { name: "MXFP6 (e2m3)", element: SmallFloat::E2M3, mode }
    }

    /// MXFP6 with elements of 3 exponent and 2 mantissa bits, a byte each.
    #[must_use]
    pub const fn fp6_e3m2(mode: ScaleMode) -> Self {
        Self { name: "MXFP6 (e3m2)", element: SmallFloat::E3M2, mode }
    }

    /// MXFP4.
    #[must_use]
    pub const fn fp4(mode: ScaleMode) -> Self {
        Self { name: "MXFP4", element: SmallFloat::E2M1, mode }
    }

    /// The type of its elements.
    #[must_use]
    pub const fn element(self) -> SmallFloat {
        self.element
    }

    /// The mode in which it encodes.
    #[must_use]
    pub const fn mode(self) -> ScaleMode {
        self.mode
    }

    const fn is_packed(self) -> bool {
        self.element.bits() == 4
    }
}

impl BlockFormat for Mx {
    fn name(&self) -> &'static str {
        self.name
    }

    fn block_len(&self) -> usize {
        32
    }

    fn code_bytes(&self) -> usize {
        if self.is_packed() { 16 } else { 32 }
    }

    fn scale_bytes(&self) -> usize {
        1
    }
}

impl Decode for Mx {
    fn decode_block(&self, codes: &[u8], scale: &[u8], values: &mut [f32]) {
        let scale = ue8m0(scale[0]);
        if self.is_packed() {
            fill(values, nibbles(codes).map(|code| self.element.decode(code) * scale));
        } else {
            fill(values, codes.iter().map(|code| self.element.decode(*code) * scale));
        }
    }
}

impl Encode for Mx {
    fn encode_block(
        &self,
        _block: usize,
        values: &[f32],
        codes: &mut [u8],
        scale: &mut [u8],
    ) -> Result<(), FormatError> {
        let byte = self.mode.scale_byte(largest_magnitude(values), self.element);
        scale[0] = byte;
        // With a scale of NaN, any code is NaN.
        let factor = if byte == 255 { 1.0 } else { 1.0 / ue8m0(byte) };
        let code = |x: &f32| self.element.encode(f64::from(*x) * factor);
        if self.is_packed() {
            for (byte, pair) in codes.iter_mut().zip(values.chunks_exact(2)) {
                *byte = code(&pair[0]) | code(&pair[1]) << 4;
            }
        } else {
            for (byte, x) in codes.iter_mut().zip(values) {
                *byte = code(x);
            }
        }
        Ok(())
    }
}

/// Writes numbers as f32: rounded once, if they need it.
#[expect(clippy::cast_possible_truncation, reason = "rounded to f32")]
pub(super) fn fill(values: &mut [f32], numbers: impl Iterator<Item = f64>) {
    for (value, number) in values.iter_mut().zip(numbers) {
        *value = number as f32;
    }
}
