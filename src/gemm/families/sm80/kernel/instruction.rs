//! The instructions that multiply on sm_80 and later.

use std::fmt;

use epilogue_runtime::{Arch, Rates};
use smallvec::SmallVec;

use crate::ElementType;
use crate::evt::reference::Fp8Adder;
use crate::gemm::problem::arithmetic::Arithmetic;
use crate::gemm::problem::eight_bit::{Float16, Fp8, Int8, MixedInput, Pair, joined};

/// The instruction that multiplies, in kernels for sm_80 and later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Instruction {
    /// `mma.m16n8k16` of f16.
    MmaF16,
    /// `mma.m16n8k16` of bf16.
    MmaBf16,
    /// `mma.m16n8k8` of TF32.
    MmaTf32,
    /// `mma.m16n8k16` of bf16. f32 operands are rounded to bf16 after they are read from shared memory.
    MmaFastBf16,
    /// `mma.m8n8k4` of f64.
    MmaF64,
    /// `fma.rn.f32`.
    FmaF32,
    /// `mma.m16n8k32` of 8-bit integers.
    MmaInt8(Pair<Int8>),
    /// `mma.m16n8k16` of f16. FP8 operands are converted to f16 after they are read from shared memory. This is exact,
    /// since f16 has every value of both types.
    MmaFp8(Pair<Fp8>),
    /// `mma.m16n8k32` of FP8, on GPUs that have it.
    MmaNativeFp8(NativeFp8),
    /// `mma.m16n8k16` of A's type, f16 or bf16. B's elements of 8 bits are converted to it after they are read from shared
    /// memory. This is exact, since f16 and bf16 have every value of the 8-bit types.
    MmaMixed(MixedInput),
}

/// `mma.m16n8k32` of FP8, and how it adds. For sm_90a and sm_100, compilers make it of products of f16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NativeFp8 {
    /// The types of A and B.
    pub pair: Pair<Fp8>,
    /// How it adds.
    pub adder: Fp8Adder,
}

impl NativeFp8 {
    /// The one of a GPU of this architecture; `None` if it has none.
    fn of(arch: Arch, pair: Pair<Fp8>, arithmetic: Arithmetic) -> Option<Self> {
        let adder = match arch.capability() {
            (8, 9) if arithmetic == Arithmetic::FastFp8 => Fp8Adder::Ada,
            (8, 9) => Fp8Adder::PromotedAda,
            (12, _) => Fp8Adder::Blackwell,
            _ => return None,
        };
        Some(Self { pair, adder })
    }

    /// The oldest architecture that has it.
    #[must_use]
    pub const fn arch(self) -> Arch {
        match self.adder {
            Fp8Adder::Ada | Fp8Adder::PromotedAda => Arch::SM_89,
            Fp8Adder::Blackwell => Arch::SM_120A,
        }
    }
}

impl Instruction {
    /// Every instruction that all GPUs have.
    pub const ALL: [Self; 22] = {
        let (fp8, int8, mixed) = (Pair::ALL_FP8, Pair::ALL_INT8, MixedInput::ALL);
        [
            Self::MmaF16,
            Self::MmaBf16,
            Self::MmaTf32,
            Self::MmaFastBf16,
            Self::MmaF64,
            Self::FmaF32,
            Self::MmaInt8(int8[0]),
            Self::MmaInt8(int8[1]),
            Self::MmaInt8(int8[2]),
            Self::MmaInt8(int8[3]),
            Self::MmaFp8(fp8[0]),
            Self::MmaFp8(fp8[1]),
            Self::MmaFp8(fp8[2]),
            Self::MmaFp8(fp8[3]),
            Self::MmaMixed(mixed[0]),
            Self::MmaMixed(mixed[1]),
            Self::MmaMixed(mixed[2]),
            Self::MmaMixed(mixed[3]),
            Self::MmaMixed(mixed[4]),
            Self::MmaMixed(mixed[5]),
            Self::MmaMixed(mixed[6]),
            Self::MmaMixed(mixed[7]),
        ]
    };

    /// Every instruction that only some GPUs have.
    pub fn native() -> impl Iterator<Item = Self> {
        let all = Fp8Adder::ALL.into_iter().flat_map(|adder| Pair::ALL_FP8.map(|pair| NativeFp8 { pair, adder }));
        all.map(Self::MmaNativeFp8)
    }

    /// The instructions for operands of the given types on a GPU of this architecture, the fastest first. The last is one
    /// that all GPUs have.
    #[must_use]
    pub fn on(arch: Arch, a: ElementType, b: ElementType, arithmetic: Arithmetic) -> SmallVec<[Self; 2]> {
        let native = Pair::fp8(a, b).and_then(|pair| NativeFp8::of(arch, pair, arithmetic));
        native.map(Self::MmaNativeFp8).into_iter().chain(Self::of(a, b, arithmetic)).collect()
    }

    /// The instruction that all GPUs have for operands of the given types; `None` if the GPU kernels have none.
    #[must_use]
    pub fn of(a: ElementType, b: ElementType, arithmetic: Arithmetic) -> Option<Self> {
        let same = match (a, arithmetic) {
            (ElementType::F16, _) => Some(Self::MmaF16),
            (ElementType::BF16, _) => Some(Self::MmaBf16),
            (ElementType::F64, _) => Some(Self::MmaF64),
            (ElementType::F32, Arithmetic::Tf32) => Some(Self::MmaTf32),
            (ElementType::F32, Arithmetic::FastBf16) => Some(Self::MmaFastBf16),
            (ElementType::F32, _) => Some(Self::FmaF32),
            _ => None,
        };
        same.filter(|_| a == b)
            .or_else(|| Pair::int8(a, b).map(Self::MmaInt8))
            .or_else(|| Pair::fp8(a, b).map(Self::MmaFp8))
            .or_else(|| MixedInput::of(a, b).map(Self::MmaMixed))
    }

    /// The element types of A and B in memory.
    #[must_use]
    pub const fn elements(self) -> (ElementType, ElementType) {
        let same = match self {
            Self::MmaF16 => ElementType::F16,
            Self::MmaBf16 => ElementType::BF16,
            Self::MmaTf32 | Self::MmaFastBf16 | Self::FmaF32 => ElementType::F32,
            Self::MmaF64 => ElementType::F64,
            Self::MmaInt8(Pair { a, b }) => return (a.element(), b.element()),
            Self::MmaFp8(Pair { a, b }) | Self::MmaNativeFp8(NativeFp8 { pair: Pair { a, b }, .. }) => {
                return (a.element(), b.element());
            }
            Self::MmaMixed(MixedInput { a, b }) => return (a.element(), b.element()),
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
            Self::MmaF64 => ElementType::F64,
            Self::MmaInt8(_) => ElementType::I32,
            _ => ElementType::F32,
        }
    }

    /// Whether the sums of k-tiles leave the tensor cores, so that a thread has a second set of accumulators.
    pub(crate) const fn is_promoted(self) -> bool {
        matches!(self, Self::MmaNativeFp8(NativeFp8 { adder: Fp8Adder::PromotedAda, .. }))
    }

    /// The header that only kernels with this instruction have.
    pub(crate) const fn header(self) -> Option<&'static str> {
        match self {
            Self::MmaNativeFp8(_) => Some("sm80/fragments_fp8.cuh"),
            _ => None,
        }
    }

    /// The enumerator of `epilogue::sm80::Arithmetic` in `operand_tile.cuh`.
    pub(crate) const fn cuda_name(self) -> &'static str {
        match self {
            Self::MmaF16 => "F16",
            Self::MmaBf16 => "BF16",
            Self::MmaTf32 => "TF32",
            Self::MmaFastBf16 => "FAST_BF16",
            Self::MmaF64 => "F64",
            Self::FmaF32 => "F32",
            Self::MmaInt8(_) => "INT8",
            Self::MmaFp8(_) => "FP8",
            Self::MmaNativeFp8(_) if self.is_promoted() => "PROMOTED_FP8",
            Self::MmaNativeFp8(_) => "NATIVE_FP8",
            Self::MmaMixed(_) => "MIXED",
        }
    }

    /// Multiply-adds per clock of one multiprocessor. Some operands are converted for every product, by instructions that
    /// the products hide in part: the times add up.
    pub(crate) fn rate(self, arch: Arch, rates: &Rates) -> f64 {
        let multiplied = match self {
            Self::MmaF16 | Self::MmaBf16 | Self::MmaFastBf16 | Self::MmaMixed(_) | Self::MmaFp8(_) => rates.mma,
            Self::MmaTf32 => 0.5 * rates.mma,
            Self::MmaF64 => rates.f64,
            Self::FmaF32 => rates.f32,
            Self::MmaInt8(_) => rates.mma_int8,
            // On every GPU that has it, also where sums of f32 halve the rates.
            Self::MmaNativeFp8(_) => 2.0 * rates.mma,
        };
        // Multiply-adds for which the conversions, as far as they are not hidden, take a clock.
        let converted = match self {
            // One instruction rounds two f32 to bf16; 5 instructions convert 4 bytes to f16.
            Self::MmaFastBf16 | Self::MmaMixed(MixedInput { a: Float16::F16, .. }) => 7500.0,
            // 11 instructions convert 4 bytes to bf16.
            Self::MmaMixed(MixedInput { a: Float16::Bf16, .. }) => 3800.0,
            // GPUs since 8.9 have an instruction for it.
            Self::MmaFp8(_) if arch.capability() >= (8, 9) => 1280.0,
            Self::MmaFp8(_) => 656.0,
            _ => f64::INFINITY,
        };
        1.0 / (1.0 / multiplied + 1.0 / converted)
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MmaF16 => f.write_str("mma.m16n8k16 f16"),
            Self::MmaBf16 => f.write_str("mma.m16n8k16 bf16"),
            Self::MmaTf32 => f.write_str("mma.m16n8k8 tf32"),
            Self::MmaFastBf16 => f.write_str("mma.m16n8k16 bf16 of f32"),
            Self::MmaF64 => f.write_str("mma.m8n8k4 f64"),
            Self::FmaF32 => f.write_str("fma f32"),
            Self::MmaInt8(Pair { a, b }) => write!(f, "mma.m16n8k32 {}", joined(a.ptx(), b.ptx())),
            Self::MmaFp8(Pair { a, b }) => write!(f, "mma.m16n8k16 f16 of {}", joined(a.ptx(), b.ptx())),
            Self::MmaNativeFp8(NativeFp8 { pair: Pair { a, b }, .. }) => {
                let types = joined(a.ptx(), b.ptx());
                write!(f, "mma.m16n8k32 {types}{}", if self.is_promoted() { ", promoted" } else { "" })
            }
            Self::MmaMixed(MixedInput { a, b }) => {
                write!(f, "mma.m16n8k16 {} of {}", a.element(), joined(a.element().name(), b.ptx()))
            }
        }
    }
}
