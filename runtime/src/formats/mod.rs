//! Block formats: numbers of few bits that share a scale, as quantised weights and activations have them.
//!
//! A **block** is some neighbours of a row, along the dimension that a product sums over (K). Its bytes are **codes** and
//! a **scale**. Formats of one file layout have both in one block of bytes (ggml's); others keep the scales in a tensor
//! of their own (MX, NVFP4, f32 scales).
//!
//! | type | values of a block | code | scale | bits a value |
//! |---|---|---|---|---|
//! | [`Q4_0`], [`Q4_1`] | 32 | 4 bits | f16; Q4_1 has a minimum too | 4.5, 5 |
//! | [`Q5_0`], [`Q8_0`] | 32 | 5, 8 bits | f16 | 5.5, 8.5 |
//! | [`Q4_K`], [`Q5_K`] | 256 | 4, 5 bits | f16, with 6-bit scale and minimum for each 32 | 4.5, 5.5 |
//! | [`Q6_K`] | 256 | 6 bits | f16, with an 8-bit scale for each 16 | 6.56 |
//! | [`GgmlMxfp4`] | 32 | e2m1 | ue8m0, in the block | 4.25 |
//! | [`Mx`] | 32 | e4m3, e5m2, e2m3, e3m2, e2m1 | ue8m0: a power of two | 8.25, 6-bit codes too, 4.25 |
//! | [`Nvfp4`] | 16 | e2m1 | ue4m3, and an f32 of the tensor | 4.5 |
//! | [`F32Scaled`] | any, also a row | i8, e4m3, e5m2 | f32 | 8 + 32/block |
//!
//! [`BlockFormat`] decodes each of them, and [`EncodeBlocks`] encodes all but [`Q5_0`], the K formats and [`GgmlMxfp4`].
//! Scales of MX and NVFP4 go to tensor cores in another order: [`scale_layout`]. Weights with integer zero points, as
//! checkpoints have them, are [`IntegerWeights`].
//!
//! ```
//! use epilogue_runtime::formats::{BlockFormat, EncodeBlocks, Mx, Q8_0, ScaleMode};
//!
//! let row: Vec<f32> = (0..64).map(|i| (i as f32 * 0.3).sin()).collect();
//! let (blocks, _) = Q8_0.encode(&row)?; // ggml's blocks have their scales in them
//! assert_eq!(blocks.len(), 2 * 34);
//! let back = Q8_0.decode(&blocks, &[])?;
//! assert!(row.iter().zip(&back).all(|(x, y)| (x - y).abs() < 0.005));
//!
//! let format = Mx::fp8_e4m3(ScaleMode::Rceil);
//! let (codes, scales) = format.encode(&row)?;
//! assert_eq!((codes.len(), scales.len()), (64, 2));
//! assert!(format.decode(&codes, &scales)?.iter().zip(&row).all(|(x, y)| (x - y).abs() <= y.abs() / 16.0 + 1e-3));
//! # Ok::<(), epilogue_runtime::FormatError>(())
//! ```

mod element;
mod f32_scaled;
mod ggml;
mod integer_weights;
mod mx;
mod nvfp4;
pub mod scale_layout;
#[cfg(test)]
mod tests;

use std::fmt;

pub use self::element::SmallFloat;
pub use self::f32_scaled::{F32Scaled, ScaledElement};
pub use self::ggml::{GgmlMxfp4, Q4_0, Q4_1, Q4_K, Q5_0, Q5_K, Q6_K, Q8_0};
pub use self::integer_weights::{IntegerWeights, Scales};
pub use self::mx::{Mx, ScaleMode};
pub use self::nvfp4::Nvfp4;
use crate::error::formats::FormatError;

mod sealed {
    use crate::error::formats::FormatError;

    /// The parts of one block, whose lengths the callers have checked.
    pub trait Decode {
        fn decode_block(&self, codes: &[u8], scale: &[u8], values: &mut [f32]);
    }

    pub trait Encode {
        /// `block` is the block's number, for errors.
        fn encode_block(
            &self,
            block: usize,
            values: &[f32],
            codes: &mut [u8],
            scale: &mut [u8],
        ) -> Result<(), FormatError>;
    }
}

use sealed::{Decode, Encode};

/// A format of blocks. All values are decoded exactly, or rounded to f32 once where a sum or product needs more bits.
///
/// Scales that are NaN or infinite give values that are. Only this crate implements it.
pub trait BlockFormat: Decode + fmt::Debug + Send + Sync {
    /// Its usual name: `Q4_K`, `MXFP8 (e4m3)`, …
    fn name(&self) -> &'static str;

    /// The values of a block.
    fn block_len(&self) -> usize;

    /// The bytes of a block's codes, and of what else is in the block.
    fn code_bytes(&self) -> usize;

    /// The bytes of a block's scale in the tensor of scales; 0 if the scale is in the block.
    fn scale_bytes(&self) -> usize;

    /// The values of blocks. `scales` has the scale of each block, in the same order; it is empty if scales are in the
    /// blocks.
    ///
    /// # Errors
    /// [`FormatError::Bytes`] unless codes and scales are of the same number of whole blocks.
    fn decode(&self, codes: &[u8], scales: &[u8]) -> Result<Vec<f32>, FormatError> {
        let blocks = codes.len() / self.code_bytes();
        let mut values = vec![0.0; blocks * self.block_len()];
        self.decode_into(codes, scales, &mut values)?;
        Ok(values)
    }

    /// Decodes into values of the caller's.
    ///
    /// # Errors
    /// [`FormatError::Bytes`]; [`FormatError::Ragged`] for values that are no whole blocks. Nothing is written then.
    fn decode_into(&self, codes: &[u8], scales: &[u8], values: &mut [f32]) -> Result<(), FormatError> {
        let blocks = whole_blocks(self, values.len())?;
        check(self, "codes", blocks, self.code_bytes(), codes.len())?;
        check(self, "scales", blocks, self.scale_bytes(), scales.len())?;
        let each = codes.chunks_exact(self.code_bytes()).zip(values.chunks_exact_mut(self.block_len()));
        for (block, (codes, values)) in each.enumerate() {
            self.decode_block(codes, scale_of(scales, block, self.scale_bytes()), values);
        }
        Ok(())
    }
}

/// A format that this library encodes, by the rule on the format's page.
pub trait EncodeBlocks: BlockFormat + Encode {
    /// The codes and the scales of values: whole blocks, one row after the other. The scales are empty if they are in
    /// the blocks.
    ///
    /// # Errors
    /// [`FormatError::Ragged`] for values that are no whole blocks; [`FormatError::NotFinite`] and
    /// [`FormatError::Scale`] as the format's page says.
    fn encode(&self, values: &[f32]) -> Result<(Vec<u8>, Vec<u8>), FormatError> {
        let blocks = whole_blocks(self, values.len())?;
        let mut codes = vec![0; blocks * self.code_bytes()];
        let mut scales = vec![0; blocks * self.scale_bytes()];
        let each = codes.chunks_exact_mut(self.code_bytes()).zip(values.chunks_exact(self.block_len()));
        for (block, (codes, values)) in each.enumerate() {
            let bytes = self.scale_bytes();
            self.encode_block(block, values, codes, &mut scales[block * bytes..(block + 1) * bytes])?;
        }
        Ok((codes, scales))
    }
}

impl<F: BlockFormat + Encode> EncodeBlocks for F {}

fn scale_of(scales: &[u8], block: usize, bytes: usize) -> &[u8] {
    &scales[block * bytes..(block + 1) * bytes]
}

fn whole_blocks<F: BlockFormat + ?Sized>(format: &F, given: usize) -> Result<usize, FormatError> {
    let block = format.block_len();
    if given.is_multiple_of(block) {
        return Ok(given / block);
    }
    Err(FormatError::Ragged { format: format.name(), block, given })
}

fn check<F: BlockFormat + ?Sized>(
    format: &F,
    part: &'static str,
    blocks: usize,
    bytes: usize,
    given: usize,
) -> Result<(), FormatError> {
    let needed = blocks.saturating_mul(bytes);
    if given == needed {
        return Ok(());
    }
    Err(FormatError::Bytes { format: format.name(), part, blocks, needed, given })
}

/// The largest magnitude; NaN if there is one.
fn largest_magnitude(values: &[f32]) -> f32 {
    let larger = |most: f32, x: &f32| if x.is_nan() || x.abs() > most { x.abs() } else { most };
    // A NaN stays: no number is larger.
    values.iter().fold(0.0, |most, x| if most.is_nan() { most } else { larger(most, x) })
}

/// # Errors
/// [`FormatError::NotFinite`].
fn require_finite(format: &'static str, block: usize, values: &[f32]) -> Result<(), FormatError> {
    match values.iter().position(|x| !x.is_finite()) {
        None => Ok(()),
        Some(at) => {
            let index = block * values.len() + at;
            Err(FormatError::NotFinite { format, index, given: values[at].to_string() })
        }
    }
}

/// Pairs of 4-bit codes, the even one in the lower half of a byte.
fn nibbles(codes: &[u8]) -> impl Iterator<Item = u8> + '_ {
    codes.iter().flat_map(|byte| [byte & 15, byte >> 4])
}
