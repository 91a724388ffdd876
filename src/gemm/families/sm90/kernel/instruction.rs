//! The instructions that multiply on sm_90a.

use std::fmt;

use epilogue_runtime::Rates;

use crate::ElementType;
use crate::gemm::kernel::loading::Multiplied;
use crate::gemm::problem::eight_bit::joined;
use crate::gemm::problem::{Arithmetic, Byte, Float16, Fp8, Int8, MixedInput, Pair};

/// A `wgmma.mma_async` (PTX ISA 9.7.15): its operand types. Accumulators are f32, or i32 for the integer ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wgmma {
    /// f16.
    F16,
    /// bf16.
    Bf16,
    /// f32 operands; TF32's 19 bits of them are used.
    Tf32,
    /// 8-bit floating-point types.
    Fp8(Pair<Fp8>),
    /// 8-bit integers.
    Int8(Pair<Int8>),
    /// A's type, f16 or bf16. B's elements of 8 bits are converted to it after they are read from shared memory, exactly;
    /// the instruction gets them from registers, as its first operand.
    Mixed(MixedInput),
}

impl Wgmma {
    /// Every instruction.
    pub const ALL: [Self; 19] = {
        let (fp8, int8, mixed) = (Pair::ALL_FP8, Pair::ALL_INT8, MixedInput::ALL);
        [
            Self::F16,
            Self::Bf16,
            Self::Tf32,
            Self::Fp8(fp8[0]),
            Self::Fp8(fp8[1]),
            Self::Fp8(fp8[2]),
            Self::Fp8(fp8[3]),
            Self::Int8(int8[0]),
            Self::Int8(int8[1]),
            Self::Int8(int8[2]),
            Self::Int8(int8[3]),
            Self::Mixed(mixed[0]),
            Self::Mixed(mixed[1]),
            Self::Mixed(mixed[2]),
            Self::Mixed(mixed[3]),
            Self::Mixed(mixed[4]),
            Self::Mixed(mixed[5]),
            Self::Mixed(mixed[6]),
            Self::Mixed(mixed[7]),
        ]
    };

    /// The instruction for operands of the given types; `None` if there is none, as for exact f32 and f64.
    #[must_use]
    pub fn of(a: ElementType, b: ElementType, arithmetic: Arithmetic) -> Option<Self> {
        let same = match (a, arithmetic) {
            (ElementType::F16, _) => Some(Self::F16),
            (ElementType::BF16, _) => Some(Self::Bf16),
            (ElementType::F32, Arithmetic::Tf32) => Some(Self::Tf32),
            _ => None,
        };
        same.filter(|_| a == b)
            .or_else(|| Pair::int8(a, b).map(Self::Int8))
            .or_else(|| Pair::fp8(a, b).map(Self::Fp8))
            .or_else(|| MixedInput::of(a, b).map(Self::Mixed))
    }

    /// The element types of A and B in memory.
    #[must_use]
    pub const fn elements(self) -> (ElementType, ElementType) {
        let same = match self {
            Self::F16 => ElementType::F16,
            Self::Bf16 => ElementType::BF16,
            Self::Tf32 => ElementType::F32,
            Self::Fp8(Pair { a, b }) => return (a.element(), b.element()),
            Self::Int8(Pair { a, b }) => return (a.element(), b.element()),
            Self::Mixed(MixedInput { a, b }) => return (a.element(), b.element()),
        };
        (same, same)
    }

    /// Bytes of an element of A, and of one of B.
    #[must_use]
    pub const fn sizes(self) -> (usize, usize) {
        let (a, b) = self.elements();
        (a.size(), b.size())
    }

    /// Element type of the accumulators.
    #[must_use]
    pub const fn accumulator(self) -> ElementType {
        match self {
            Self::Int8(_) => ElementType::I32,
            _ => ElementType::F32,
        }
    }

    /// The names in PTX of what A and B are multiplied as.
    pub(crate) const fn ptx(self) -> (&'static str, &'static str) {
        match self {
            Self::F16 => ("f16", "f16"),
            Self::Bf16 => ("bf16", "bf16"),
            Self::Tf32 => ("tf32", "tf32"),
            Self::Fp8(Pair { a, b }) => (a.ptx(), b.ptx()),
            Self::Int8(Pair { a, b }) => (a.ptx(), b.ptx()),
            Self::Mixed(MixedInput { a: Float16::F16, .. }) => ("f16", "f16"),
            Self::Mixed(MixedInput { a: Float16::Bf16, .. }) => ("bf16", "bf16"),
        }
    }

    /// Elements along K in one pipeline stage: of A, 128 bytes, one atom of the widest swizzle.
    #[must_use]
    pub const fn tile_k(self) -> usize {
        128 / self.sizes().0
    }

    /// Whether A, and whether B, may be contiguous along M or N; other types must be along K (PTX ISA 9.7.15.5,
    /// "transpose" is for 16-bit types only).
    #[must_use]
    pub const fn takes_mn_major(self) -> (bool, bool) {
        let (a, b) = self.sizes();
        (a == 2, b == 2)
    }

    /// Its operands.
    pub(crate) const fn multiplied(self) -> Multiplied {
        Multiplied { sizes: self.sizes(), mn_major: self.takes_mn_major() }
    }

    /// Whether B is converted to A's type, so that its columns must be the rows of a tile.
    #[must_use]
    pub const fn converts_b(self) -> bool {
        matches!(self, Self::Mixed(_))
    }

    /// Instructions of a lane that bring four elements of B from shared memory to registers in A's type; 0 if none does.
    /// They are two loads and a joining; of conversions, as NVRTC 13.0 compiles them.
    pub(crate) const fn conversion(self) -> f64 {
        match self {
            Self::Mixed(MixedInput { a: Float16::F16, b: Byte::Int(_) }) => 8.0,
            Self::Mixed(MixedInput { a: Float16::F16, b: Byte::Float(_) }) => 6.0,
            Self::Mixed(MixedInput { a: Float16::Bf16, .. }) => 14.0,
            _ => 0.0,
        }
    }

    /// Multiply-adds per clock of one multiprocessor (H100 whitepaper, table 3: twice as many of 8-bit types as of 16-bit
    /// types, half as many of TF32).
    pub(crate) const fn rate(self, rates: &Rates) -> f64 {
        match self.sizes().0 {
            1 => 2.0 * rates.wgmma,
            2 => rates.wgmma,
            _ => 0.5 * rates.wgmma,
        }
    }
}

impl fmt::Display for Wgmma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (a, b) = self.ptx();
        match self {
            Self::Mixed(types) => write!(f, "{a} of {}", joined(a, types.b.ptx())),
            _ => f.write_str(&joined(a, b)),
        }
    }
}
