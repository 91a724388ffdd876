//! How the product is computed.

use std::fmt;

use crate::ElementType;

/// How the product is computed. Sums are f32 (f64 for f64, i32 for 8-bit integers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Arithmetic {
    /// As exact as the operands: tensor cores for f16, bf16, f64 and 8-bit types; for f32 the CUDA cores' fused
    /// multiply-adds. An H100's tensor cores keep 14 bits of a sum of FP8 products, so its kernels sum each 128 by
    /// themselves, and these sums in f32; other kernels multiply FP8 as f16. Sums of 8-bit integers are exact, and wrap
    /// around beyond i32's range.
    #[default]
    Exact,
    /// f32 operands with TF32's 11 significant bits, on tensor cores. The kernels for sm_80 round them (to nearest, ties
    /// away from zero); those for sm_90a multiply straight from memory, where the tensor cores leave the other bits out.
    Tf32,
    /// f32 operands rounded to bf16 (to nearest, ties to even): the significand keeps 8 bits, the exponent all of its own.
    /// Products are bf16's, on tensor cores twice as fast as TF32's, and sums f32. Every GPU has it by kernels for sm_80;
    /// those for sm_90a multiply no f32 so. The CPU device multiplies rounded copies, which gains nothing there.
    FastBf16,
    /// FP8 operands, summed in the tensor cores from the first to the last block of K: faster than promoted sums, and for
    /// all tiles, but a sum keeps 14 bits and cuts the others off, so that errors grow with K (to some percent of the
    /// result at K of thousands). Other devices sum as ever, which is within the same bounds.
    FastFp8,
}

impl Arithmetic {
    /// Whether there are operands of this type for it.
    pub(crate) const fn takes(self, element: ElementType) -> bool {
        match self {
            Self::Exact => true,
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
        })
    }
}
