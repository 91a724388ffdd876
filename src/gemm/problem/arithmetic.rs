//! How the product is computed.

use std::fmt;

use crate::ElementType;

/// How the product is computed. Sums are f32 (f64 for f64, i32 for 8-bit integers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Arithmetic {
    /// As exact as the operands: tensor cores for f16, bf16, f64 and 8-bit types; for f32 the CUDA cores' fused
    /// multiply-adds. Sums of 8-bit integers are exact, and wrap around beyond the range of i32.
    ///
    /// Some GPUs have instructions for FP8. On sm_90a (H100) and sm_89 (L4, L40S, RTX 40) they keep 14 bits of a sum.
    /// Kernels for these sum each 128 products separately, and add these sums in f32. On sm_120a and sm_121a (RTX 50, DGX
    /// Spark) they keep the 24 bits of f32. Other GPUs multiply FP8 as f16.
    #[default]
    Exact,
    /// f32 operands with the 11 significant bits of TF32, on tensor cores. The kernels for sm_80 round the operands (to
    /// nearest, ties away from zero); those for sm_90a load them without rounding, and the tensor cores ignore the
    /// other bits.
    Tf32,
    /// f32 operands rounded to bf16 (to nearest, ties to even): the significand keeps 8 bits, the exponent keeps all
    /// its bits. Products are those of bf16, on tensor cores twice as fast as TF32, and sums are f32. Every GPU runs it
    /// with the kernels for sm_80, since those for sm_90a can't round f32 operands. The CPU device multiplies rounded
    /// copies, which is no faster there.
    FastBf16,
    /// FP8 operands, summed in the tensor cores over all of K. On sm_89 and sm_90a this is faster than promoted sums and
    /// works with all tiles, but a sum keeps 14 bits. Errors grow with K, to some percent of the result for K in the
    /// thousands. Other devices compute as with `Exact`, which is within the same bounds.
    FastFp8,
    /// A rounded to 8-bit integers, for a B of [quantised weights](super::quantized::Quantized) only. Each row's 32
    /// elements along K share a scale; products of codes are summed exactly, and these sums in f32. It is faster than
    /// `Exact`, and an element of A is off by up to 1/254 of the largest in its block.
    ///
    /// The block's scale is `d = max|x| / 127`, and a code is `x · (127 / max|x|)` rounded to nearest, ties to even; every
    /// operation is rounded to f32. If all elements are below 2^-119, all codes are 0. A block with an infinity or a
    /// NaN makes the row's results NaN.
    Int8Activations,
}

impl Arithmetic {
    /// Whether it applies to operands of this type.
    pub(crate) const fn takes(self, element: ElementType) -> bool {
        match self {
            Self::Exact => true,
            Self::Int8Activations => matches!(element, ElementType::F32 | ElementType::BF16 | ElementType::F16),
            Self::Tf32 | Self::FastBf16 => matches!(element, ElementType::F32),
            Self::FastFp8 => matches!(element, ElementType::F8E4M3 | ElementType::F8E5M2),
        }
    }
}

impl fmt::Display for Arithmetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::Tf32 => "TF32",
            Self::FastBf16 => "fast bf16",
            Self::FastFp8 => "fast FP8",
            Self::Int8Activations => "8-bit activations",
        })
    }
}
