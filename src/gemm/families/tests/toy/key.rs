//! The key of a kernel, and its answers.

use std::fmt;

use epilogue_runtime::{Device, Kernel, Launch};
use smallvec::{SmallVec, smallvec};

use super::family::Toy;
use super::{emit, run};
use crate::ElementType;
use crate::evt::reference::Multiplication;
use crate::evt::{Computation, ValidTree};
use crate::gemm::emit::text::Emitted;
use crate::gemm::families::KernelKey;
use crate::gemm::families::family::{Family, FamilyKey};
use crate::gemm::kernel::device_struct::{DeviceStruct, Part, inner};
use crate::gemm::kernel::launch::Memory;
use crate::gemm::kernel::structs::{OPERAND, PROBLEM};
use crate::gemm::kernel::{ArgumentViews, ReadingShape, SplitK, Switches, Within};
use crate::gemm::model::candidate::Candidate;
use crate::gemm::model::machine::Machine;
use crate::gemm::model::offer::Offer;
use crate::gemm::model::repacking::Repacking;
use crate::gemm::problem::{Left, Major, OperandLayout, OperandView, Problem, Reading};
use crate::gemm::run::sought::{Sought, WantedKernel};

/// Arguments in front of the epilogue's.
pub(super) const COMMON: DeviceStruct = DeviceStruct {
    name: "ToyCommon",
    fields: &[
        inner("Operand", "a", &OPERAND).of(Memory::A),
        inner("Operand", "b", &OPERAND).of(Memory::B(0)).of_each_b("Config::ACCUMULATORS", "b#"),
        inner("Problem", "problem", &PROBLEM),
    ],
};
const PART: Part = Part { header: "", ty: "toy::Common<Config>", fields: &COMMON };

/// Everything that a kernel of the toy family is generated from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ToyKey {
    /// The type of A and B.
    pub(super) element: ElementType,
    /// The number of products whose columns share the tile's.
    pub(super) accumulators: usize,
    /// Whether approximate instructions are allowed.
    pub(super) fast_math: bool,
}

impl ToyKey {
    /// Rows and columns of a tile, of all accumulators together; and of a warp.
    pub(super) const TILE: (usize, usize) = (32, 32);
    pub(super) const WARP: (usize, usize) = (16, 32);
    pub(super) const THREADS: u32 = 64;
    /// Neighbouring columns of a lane.
    pub(super) const VECTOR: usize = 4;
}

impl fmt::Display for ToyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (m, n) = self.tile();
        write!(f, "FMA {}: {m}x{n}", self.element)
    }
}

impl FamilyKey for ToyKey {
    fn family(&self) -> &'static dyn Family {
        &Toy
    }

    fn elements(&self) -> (ElementType, ElementType) {
        (self.element, self.element)
    }

    /// The part of the columns that three accumulators leave is not used.
    fn tile(&self) -> (usize, usize) {
        (Self::TILE.0, Self::TILE.1 / self.accumulators.next_power_of_two())
    }

    fn tile_k(&self) -> usize {
        1
    }

    fn stages(&self) -> usize {
        1
    }

    fn multiplication(&self) -> Multiplication {
        Multiplication::Exact
    }

    fn layouts(&self) -> (OperandLayout, OperandLayout) {
        (OperandLayout::packed(Major::K), OperandLayout::packed(Major::Mn))
    }

    fn with(&self, switches: Switches) -> KernelKey {
        KernelKey::Toy(Self { fast_math: switches.fast_math, ..*self })
    }

    fn within(&self) -> Option<Within> {
        None
    }

    fn fast_math(&self) -> bool {
        self.fast_math
    }

    fn reading(&self) -> ReadingShape {
        ReadingShape::Rows
    }

    fn estimate(&self, offer: &Offer<'_>, machine: &Machine, split_k: SplitK) -> Option<Candidate> {
        (split_k == SplitK::None).then(|| run::estimate(*self, &offer.problem, machine))
    }

    fn emit(&self, of: &Computation<'_>, views: ArgumentViews, symbol: &str) -> Result<Emitted, &'static str> {
        Ok(emit::emit(of, (self, views), symbol))
    }

    fn shape(
        &self,
        _tree: &ValidTree,
        _kernel: &Kernel,
        _device: &Device,
        _allowed: u32,
    ) -> Result<(Launch, Option<u32>), crate::gemm::Error> {
        Ok((Launch { block: [Self::THREADS, 1, 1], ..Launch::default() }, None))
    }

    /// K is never shared.
    fn sum_bytes(&self) -> usize {
        0
    }

    fn neighbours(&self) -> usize {
        Self::VECTOR
    }

    fn parameter_alignment(&self) -> usize {
        8
    }

    fn parts(&self) -> SmallVec<[&'static Part; 4]> {
        smallvec![&PART]
    }

    fn serves(&self, problem: &Problem, _a: Left<'_>, _b: &[OperandView]) -> bool {
        problem.reading == Reading::Rows
    }

    fn wanted(&self, candidate: &Candidate, of: &Sought<'_>) -> Option<WantedKernel> {
        let microseconds = candidate.microseconds + of.later;
        (of.problem.reading == Reading::Rows)
            .then(|| WantedKernel::of(KernelKey::Toy(*self), candidate, Repacking::default(), microseconds))
    }
}
