//! What multiplies on sm_90a.

use std::fmt;

use super::super::arithmetic::Arithmetic;
use crate::ElementType;

/// A `wgmma.mma_async` (PTX ISA 9.7.15): its operand types. Accumulators are f32, or i32 for the integer ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wgmma {
    /// f16.
    F16,
    /// bf16.
    Bf16,
    /// f32 operands, of which TF32's 19 bits are used.
    Tf32,
    /// FP8 E4M3.
    E4M3,
    /// FP8 E5M2.
    E5M2,
    /// 8-bit signed integers.
    S8,
    /// 8-bit unsigned integers.
    U8,
}

impl Wgmma {
    /// Every one.
    pub const ALL: [Self; 7] = [Self::F16, Self::Bf16, Self::Tf32, Self::E4M3, Self::E5M2, Self::S8, Self::U8];

    /// The instruction for operands of the given type; `None` where there is none, as for exact f32 and f64.
    #[must_use]
    pub const fn of(element: ElementType, arithmetic: Arithmetic) -> Option<Self> {
        match (element, arithmetic) {
            (ElementType::F16, _) => Some(Self::F16),
            (ElementType::BF16, _) => Some(Self::Bf16),
            (ElementType::F32, Arithmetic::Tf32) => Some(Self::Tf32),
            (ElementType::F8E4M3, _) => Some(Self::E4M3),
            (ElementType::F8E5M2, _) => Some(Self::E5M2),
            (ElementType::I8, _) => Some(Self::S8),
            (ElementType::U8, _) => Some(Self::U8),
            _ => None,
        }
    }

    /// Element type of A and B in memory.
    #[must_use]
    pub const fn element(self) -> ElementType {
        match self {
            Self::F16 => ElementType::F16,
            Self::Bf16 => ElementType::BF16,
            Self::Tf32 => ElementType::F32,
            Self::E4M3 => ElementType::F8E4M3,
            Self::E5M2 => ElementType::F8E5M2,
            Self::S8 => ElementType::I8,
            Self::U8 => ElementType::U8,
        }
    }

    /// Element type of the accumulators.
    #[must_use]
    pub const fn accumulator(self) -> ElementType {
        match self {
            Self::S8 | Self::U8 => ElementType::I32,
            _ => ElementType::F32,
        }
    }

    /// Elements of K in one pipeline stage: 128 bytes, one atom of the widest swizzle.
    #[must_use]
    pub const fn tile_k(self) -> usize {
        128 / self.element().size()
    }

    /// Whether operands may be contiguous along M or N; other types must be along K (PTX ISA 9.7.15.5, "transpose" is
    /// for 16-bit types only).
    #[must_use]
    pub const fn takes_mn_major(self) -> bool {
        self.element().size() == 2
    }

    /// The enumerator of `epilogue::sm90::Arithmetic`.
    pub(crate) const fn cuda_name(self) -> &'static str {
        match self {
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::Tf32 => "TF32",
            Self::E4M3 => "E4M3",
            Self::E5M2 => "E5M2",
            Self::S8 => "S8",
            Self::U8 => "U8",
        }
    }

    /// Multiply-adds that one multiprocessor does per clock (H100 whitepaper, table 3: 4096 floating-point operations
    /// of 16-bit types, twice as many of 8-bit ones, half as many of TF32).
    pub(crate) const fn rate(self) -> f64 {
        match self.element().size() {
            1 => 4096.0,
            2 => 2048.0,
            _ => 1024.0,
        }
    }
}

impl fmt::Display for Wgmma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F16 => "wgmma f16",
            Self::Bf16 => "wgmma bf16",
            Self::Tf32 => "wgmma tf32",
            Self::E4M3 => "wgmma e4m3",
            Self::E5M2 => "wgmma e5m2",
            Self::S8 => "wgmma s8",
            Self::U8 => "wgmma u8",
        })
    }
}
