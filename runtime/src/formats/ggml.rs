//! ggml's blocks, as GGUF files have them: little-endian, the scale in the block.
//!
//! Layouts are those of `ggml-common.h`. The codes of a block of 32 with 4 bits are in 16 bytes: value `i` in the lower
//! half of byte `i`, value `i + 16` in its upper half. K formats do so in runs of 64 values (32 bytes each).

use half::f16;

use super::mx::{fill, ue8m0};
use super::sealed::{Decode, Encode};
use super::{BlockFormat, SmallFloat, largest_magnitude, require_finite};
use crate::error::formats::FormatError;

/// Declares a format without settings.
macro_rules! blocks {
    ($($(#[$doc:meta])* $name:ident: $text:literal, $len:literal values, $bytes:literal bytes;)*) => {$(
        $(#[$doc])*
        #[allow(non_camel_case_types, reason = "named as in ggml")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name;

        impl BlockFormat for $name {
            fn name(&self) -> &'static str {
                $text
            }

            fn block_len(&self) -> usize {
                $len
            }

            fn code_bytes(&self) -> usize {
                $bytes
            }

            fn scale_bytes(&self) -> usize {
                0
            }
        }
    )*};
}

blocks! {
    /// 32 codes `q` of 4 bits and an f16 `d`: values are `d (q - 8)`.
    ///
    /// **Encoding** is ggml's: `d` is the value of largest magnitude divided by -8; codes are rounded in f32 with the
    /// unrounded `d`, halves up. NaN, infinities, and blocks whose `d` exceeds f16 are refused.
    Q4_0: "Q4_0", 32 values, 18 bytes;
    /// 32 codes `q` of 4 bits, an f16 `d` and an f16 `m`: values are `d q + m`.
    ///
    /// **Encoding** is ggml's: `m` is the least value, `d` a fifteenth of the range. The rest is as in [`Q4_0`].
    Q4_1: "Q4_1", 32 values, 20 bytes;
    /// 32 codes `q` of 5 bits and an f16 `d`: values are `d (q - 16)`. The fifth bits are in a word of their own.
    Q5_0: "Q5_0", 32 values, 22 bytes;
    /// 32 codes of 8 bits and an f16 `d`: values are `d q`.
    ///
    /// **Encoding** is ggml's: `d` is the largest magnitude divided by 127; codes are rounded in f32 with the unrounded
    /// `d`, halves away from 0. NaN, infinities, and blocks whose `d` exceeds f16 are refused.
    Q8_0: "Q8_0", 32 values, 34 bytes;
    /// 256 codes `q` of 4 bits, with f16 `d` and `m`. Each 32 values have a scale `s` and a minimum `n` of 6 bits. Values
    /// are `d s q - m n`.
    Q4_K: "Q4_K", 256 values, 144 bytes;
    /// As [`Q4_K`], with codes of 5 bits.
    Q5_K: "Q5_K", 256 values, 176 bytes;
    /// 256 codes `q` of 6 bits, an f16 `d`, and for each 16 values a scale `s` of 8 bits: values are `d s (q - 32)`.
    Q6_K: "Q6_K", 256 values, 210 bytes;
    /// ggml's MXFP4: a byte of scale (ue8m0), then 32 codes of e2m1 in ggml's order. Torch's order is
    /// [`Mx::fp4`](super::Mx::fp4).
    GgmlMxfp4: "MXFP4 (ggml)", 32 values, 17 bytes;
}

fn half(bytes: &[u8], at: usize) -> f64 {
    f64::from(f16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

/// ggml's order of 4-bit codes: the lower halves of some bytes, then the upper halves.
fn halves(codes: &[u8]) -> impl Iterator<Item = u8> + '_ {
    codes.iter().map(|byte| byte & 15).chain(codes.iter().map(|byte| byte >> 4))
}

/// Writes 4-bit codes in that order.
fn put_halves(bytes: &mut [u8], code: impl Fn(usize) -> u8) {
    let middle = bytes.len();
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = code(i) | code(i + middle) << 4;
    }
}

impl Decode for Q4_0 {
    fn decode_block(&self, block: &[u8], _scale: &[u8], values: &mut [f32]) {
        let d = half(block, 0);
        fill(values, halves(&block[2..]).map(|q| d * (f64::from(q) - 8.0)));
    }
}

impl Decode for Q4_1 {
    fn decode_block(&self, block: &[u8], _scale: &[u8], values: &mut [f32]) {
        let (d, m) = (half(block, 0), half(block, 2));
        fill(values, halves(&block[4..]).map(|q| d * f64::from(q) + m));
    }
}

impl Decode for Q5_0 {
    fn decode_block(&self, block: &[u8], _scale: &[u8], values: &mut [f32]) {
        let d = half(block, 0);
        let fifth = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
        let codes = halves(&block[6..]).zip(0..).map(|(q, i)| u32::from(q) | (fifth >> i & 1) << 4);
        fill(values, codes.map(|q| d * (f64::from(q) - 16.0)));
    }
}

impl Decode for Q8_0 {
    fn decode_block(&self, block: &[u8], _scale: &[u8], values: &mut [f32]) {
        let d = half(block, 0);
        fill(values, block[2..].iter().map(|q| d * f64::from(q.cast_signed())));
    }
}

/// The 6-bit scale and minimum of 32 values: 8 pairs in 12 bytes. The first four pairs are in the lower 6 bits of bytes
/// 0–3 and 4–7. The others have their lower 4 bits in bytes 8–11, their upper 2 in the rest of bytes 0–7.
fn scale_and_minimum(packed: &[u8], of: usize) -> (f64, f64) {
    let (scale, minimum) = if of < 4 {
        (packed[of] & 63, packed[of + 4] & 63)
    } else {
        (packed[of + 4] & 15 | packed[of - 4] >> 6 << 4, packed[of + 4] >> 4 | packed[of] >> 6 << 4)
    };
    (f64::from(scale), f64::from(minimum))
}

/// The values of Q4_K and Q5_K: 8 runs of 32. `code` has the code of a value of a run.
fn decode_k(block: &[u8], values: &mut [f32], code: impl Fn(usize, usize) -> u8) {
    let (d, m) = (half(block, 0), half(block, 2));
    for (run, values) in values.chunks_exact_mut(32).enumerate() {
        let (scale, minimum) = scale_and_minimum(&block[4..16], run);
        let (scale, minimum) = (d * scale, m * minimum);
        fill(values, (0..32).map(|i| scale * f64::from(code(run, i)) - minimum));
    }
}

/// The 4-bit code of value `i` of a run: two runs share 32 bytes.
fn of_run(codes: &[u8], run: usize, i: usize) -> u8 {
    codes[run / 2 * 32 + i] >> (run % 2 * 4) & 15
}

impl Decode for Q4_K {
    fn decode_block(&self, block: &[u8], _scale: &[u8], values: &mut [f32]) {
        decode_k(block, values, |run, i| of_run(&block[16..], run, i));
    }
}

impl Decode for Q5_K {
    fn decode_block(&self, block: &[u8], _scale: &[u8], values: &mut [f32]) {
        let (fifth, codes) = block[16..].split_at(32);
        decode_k(block, values, |run, i| of_run(codes, run, i) | (fifth[i] >> run & 1) << 4);
    }
}

impl Decode for Q6_K {
    fn decode_block(&self, block: &[u8], _scale: &[u8], values: &mut [f32]) {
        let (low, rest) = block.split_at(128);
        let (high, rest) = rest.split_at(64);
        let (scales, d) = (&rest[..16], half(rest, 16));
        // Two halves of 128 values; each has 64 bytes of lower bits and 32 of upper ones, and each byte of these serves
        // four runs of 32.
        let code = |i: usize| {
            let (part, run, at) = (i / 128, i % 128 / 32, i % 32);
            let low = low[part * 64 + run % 2 * 32 + at] >> (run / 2 * 4) & 15;
            low | (high[part * 32 + at] >> (run * 2) & 3) << 4
        };
        let scale = |i: usize| d * f64::from(scales[i / 16].cast_signed());
        fill(values, (0..256).map(|i| scale(i) * (f64::from(code(i)) - 32.0)));
    }
}

impl Decode for GgmlMxfp4 {
    fn decode_block(&self, block: &[u8], _scale: &[u8], values: &mut [f32]) {
        let scale = ue8m0(block[0]);
        fill(values, halves(&block[1..]).map(|code| SmallFloat::E2M1.decode(code) * scale));
    }
}

/// A scale as the f16 that ggml's blocks hold.
///
/// # Errors
/// [`FormatError::Scale`] if it is too large for f16.
fn f16_scale(format: &'static str, block: usize, largest: f32, scale: f32) -> Result<f16, FormatError> {
    let half = f16::from_f32(scale);
    if half.is_finite() {
        return Ok(half);
    }
    let (largest, scale) = (largest.to_string(), scale.to_string());
    Err(FormatError::Scale { format, block, largest, scale, held: "f16, up to 65504" })
}

/// 1 / d as ggml uses it: 0 for blocks of zeros.
fn reciprocal(d: f32) -> f32 {
    let by = 1.0 / d;
    if by.is_finite() { by } else { 0.0 }
}

/// The whole part of a number that is not negative, at most `most`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within 0 and the code's largest value")]
fn whole(x: f32, most: f32) -> u8 {
    x.clamp(0.0, most) as u8
}

impl Encode for Q4_0 {
    fn encode_block(&self, block: usize, values: &[f32], bytes: &mut [u8], _: &mut [u8]) -> Result<(), FormatError> {
        require_finite(self.name(), block, values)?;
        // The first of those with the largest magnitude.
        let largest = values.iter().fold(0.0f32, |most, x| if x.abs() > most.abs() { *x } else { most });
        let d = largest / -8.0;
        let by = reciprocal(d);
        bytes[..2].copy_from_slice(&f16_scale(self.name(), block, largest, d)?.to_le_bytes());
        put_halves(&mut bytes[2..], |i| whole(values[i] * by + 8.5, 15.0));
        Ok(())
    }
}

impl Encode for Q4_1 {
    fn encode_block(&self, block: usize, values: &[f32], bytes: &mut [u8], _: &mut [u8]) -> Result<(), FormatError> {
        require_finite(self.name(), block, values)?;
        let least = values.iter().copied().fold(f32::INFINITY, f32::min);
        let most = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let d = (most - least) / 15.0;
        let by = reciprocal(d);
        bytes[..2].copy_from_slice(&f16_scale(self.name(), block, most, d)?.to_le_bytes());
        bytes[2..4].copy_from_slice(&f16_scale(self.name(), block, least, least)?.to_le_bytes());
        put_halves(&mut bytes[4..], |i| whole((values[i] - least) * by + 0.5, 15.0));
        Ok(())
    }
}

impl Encode for Q8_0 {
    fn encode_block(&self, block: usize, values: &[f32], bytes: &mut [u8], _: &mut [u8]) -> Result<(), FormatError> {
        require_finite(self.name(), block, values)?;
        let largest = largest_magnitude(values);
        let d = largest / 127.0;
        let by = reciprocal(d);
        bytes[..2].copy_from_slice(&f16_scale(self.name(), block, largest, d)?.to_le_bytes());
        for (byte, x) in bytes[2..].iter_mut().zip(values) {
            #[expect(clippy::cast_possible_truncation, reason = "whole and within -127 and 127")]
            let code = (x * by).round().clamp(-127.0, 127.0) as i8;
            *byte = code.cast_unsigned();
        }
        Ok(())
    }
}
