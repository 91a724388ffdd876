//! What multiplies: the element types of A and B, and the instructions that a GPU does it with.

use std::fmt;

use crate::ElementType;

/// How the product is computed. Sums are f32 (f64 for f64, i32 for 8-bit integers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Arithmetic {
    /// As exact as the operands: tensor cores for f16, bf16, f64 and 8-bit types; for f32 the CUDA cores' fused
    /// multiply-adds. Tensor cores keep 14 bits of a sum of FP8 products, so each 128 are summed by themselves, and these
    /// sums in f32. Sums of 8-bit integers are exact, and wrap around beyond i32's range.
    #[default]
    Exact,
    /// f32 operands with TF32's 11 significant bits, on tensor cores. The kernels for sm_80 round them (to nearest, ties
    /// away from zero); those for sm_90a multiply straight from memory, where the tensor cores leave the other bits out.
    Tf32,
    /// FP8 operands, summed in the tensor cores from the first to the last block of K: faster than promoted sums, and for
    /// all tiles, but a sum keeps 14 bits and cuts the others off, so that errors grow with K (to some percent of the
    /// result at K of thousands). Other devices sum as ever, which is within the same bounds.
    FastFp8,
}

impl Arithmetic {
    /// Whether there are operands of this type for it.
    pub(super) const fn takes(self, element: ElementType) -> bool {
        match self {
            Self::Exact => true,
            Self::Tf32 => matches!(element, ElementType::F32),
            Self::FastFp8 => matches!(element, ElementType::F8E4M3 | ElementType::F8E5M2),
        }
    }
}

impl fmt::Display for Arithmetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::Tf32 => "TF32",
            Self::FastFp8 => "fast FP8",
        })
    }
}

/// The instruction that multiplies, on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Instruction {
    /// `mma.m16n8k16` of f16.
    MmaF16,
    /// `mma.m16n8k16` of bf16.
    MmaBf16,
    /// `mma.m16n8k8` of TF32.
    MmaTf32,
    /// `mma.m8n8k4` of f64.
    MmaF64,
    /// `fma.rn.f32`.
    FmaF32,
}

impl Instruction {
    /// Every one.
    pub const ALL: [Self; 5] = [Self::MmaF16, Self::MmaBf16, Self::MmaTf32, Self::MmaF64, Self::FmaF32];

    /// The instruction for operands of the given type; `None` where the GPU kernels have none.
    #[must_use]
    pub const fn of(element: ElementType, arithmetic: Arithmetic) -> Option<Self> {
        match (element, arithmetic) {
            (ElementType::F16, _) => Some(Self::MmaF16),
            (ElementType::BF16, _) => Some(Self::MmaBf16),
            (ElementType::F64, _) => Some(Self::MmaF64),
            (ElementType::F32, Arithmetic::Tf32) => Some(Self::MmaTf32),
            (ElementType::F32, _) => Some(Self::FmaF32),
            _ => None,
        }
    }

    /// Element type of A and B in memory.
    #[must_use]
    pub const fn element(self) -> ElementType {
        match self {
            Self::MmaF16 => ElementType::F16,
            Self::MmaBf16 => ElementType::BF16,
            Self::MmaTf32 | Self::FmaF32 => ElementType::F32,
            Self::MmaF64 => ElementType::F64,
        }
    }

    /// Element type of the accumulators.
    #[must_use]
    pub const fn accumulator(self) -> ElementType {
        match self {
            Self::MmaF64 => ElementType::F64,
            _ => ElementType::F32,
        }
    }

    /// The enumerator of `epilogue::sm80::Arithmetic` in `operand_tile.cuh`.
    pub(super) const fn cuda_name(self) -> &'static str {
        match self {
            Self::MmaF16 => "F16",
            Self::MmaBf16 => "BF16",
            Self::MmaTf32 => "TF32",
            Self::MmaF64 => "F64",
            Self::FmaF32 => "F32",
        }
    }

    /// Multiply-adds that one multiprocessor does per clock (A100 whitepaper, table 3, and the H100's with mma.sync,
    /// which reaches about 62 % of wgmma's rate).
    pub(super) fn rate(self, major: u8) -> f64 {
        let hopper = major >= 9;
        match self {
            Self::MmaF16 | Self::MmaBf16 => {
                if hopper {
                    1280.0
                } else {
                    1024.0
                }
            }
            Self::MmaTf32 => {
                if hopper {
                    640.0
                } else {
                    512.0
                }
            }
            Self::MmaF64 => {
                if hopper {
                    128.0
                } else {
                    64.0
                }
            }
            Self::FmaF32 => {
                if hopper {
                    128.0
                } else {
                    64.0
                }
            }
        }
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MmaF16 => "mma.m16n8k16 f16",
            Self::MmaBf16 => "mma.m16n8k16 bf16",
            Self::MmaTf32 => "mma.m16n8k8 tf32",
            Self::MmaF64 => "mma.m8n8k4 f64",
            Self::FmaF32 => "fma f32",
        })
    }
}
