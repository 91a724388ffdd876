//! This family's answers.

use epilogue_runtime::{Arch, Device, Kernel, Launch};
use smallvec::SmallVec;

use super::kernel::{Instruction, PARAMETER_ALIGNMENT, Sm80Key, Tile};
use super::{emit, model, run};
use crate::ElementType;
use crate::evt::reference::Multiplication;
use crate::evt::{Computation, ValidTree};
use crate::gemm::emit::text::Emitted;
use crate::gemm::families::family::{Family, FamilyKey};
use crate::gemm::families::list::{KernelKey, Pins};
use crate::gemm::kernel::device_struct::Part;
use crate::gemm::kernel::{ArgumentViews, ReadingShape, SplitK, Switches, Within};
use crate::gemm::model::candidate::Candidate;
use crate::gemm::model::machine::Machine;
use crate::gemm::model::offer::Offer;
use crate::gemm::model::selection::{LaunchedPart, Request, Selection};
use crate::gemm::problem::patches::Patches;
use crate::gemm::problem::{Arithmetic, Error, Knob, Left, OperandLayout, OperandView, Problem};
use crate::gemm::run::sought::{Sought, WantedKernel};

/// The family.
pub(crate) struct Sm80;

impl Family for Sm80 {
    fn arch(&self) -> Arch {
        Arch::SM_80
    }

    fn runs_on(&self, _arch: Arch) -> bool {
        true
    }

    fn multiplies(&self, (a, b): (ElementType, ElementType), arithmetic: Arithmetic) -> bool {
        Instruction::of(a, b, arithmetic).is_some()
    }

    fn lacks(&self, knob: Knob) -> Option<&'static str> {
        match knob {
            Knob::Sm90 => Some("because only kernels for sm_90a have it"),
            Knob::Sm100 => Some("because only kernels for sm_100a have it"),
            Knob::Multiprocessors | Knob::DependentLaunch => {
                Some("because only kernels for sm_90a and sm_100a have it")
            }
            Knob::Tile | Knob::Stages | Knob::SplitK | Knob::StreamK | Knob::Candidate => None,
            Knob::FastMath | Knob::Finish | Knob::Tuning => None,
        }
    }

    fn takes_any_layout(&self) -> bool {
        true
    }

    fn has_clusters(&self) -> bool {
        false
    }

    fn has_tile(&self, selection: &Selection<'_>, accumulators: usize, tile: (usize, usize)) -> bool {
        let taken = |tile: &&Tile| !selection.problem.formats.are_scaled() || tile.takes_scales(accumulators);
        let mut all = selection.mma().into_iter().flat_map(Tile::all).filter(taken);
        all.any(|own| (own.m, own.product_columns(accumulators)) == tile)
    }

    fn candidates(
        &self,
        selection: &Selection<'_>,
        way: &LaunchedPart<'_>,
        _counts: &dyn Fn((usize, usize)) -> bool,
    ) -> Result<Vec<Candidate>, String> {
        let workloads = selection.mma().into_iter().map(|instruction| selection.sm80_workload(way, instruction));
        model::rank_all(selection.machine, workloads).map_err(|why| why.to_string())
    }

    fn priced(&self, offer: &Offer<'_>, machine: &Machine) -> Vec<Candidate> {
        let types = offer.tree.types();
        let all = Instruction::on(machine.arch, types.a, types.b, offer.arithmetic);
        model::rank_all(machine, all.into_iter().map(|of| workload(offer, of))).unwrap_or_default()
    }

    fn is_pinned(&self, pins: &Pins) -> bool {
        pins.tile.is_some()
    }

    fn asked(
        &self,
        selection: &Selection<'_>,
        request: &Request,
        candidates: &[Candidate],
    ) -> Result<Candidate, Error> {
        selection.asked_sm80(request, candidates)
    }

    fn why_not_in_tile(&self, selection: &Selection<'_>, way: &LaunchedPart<'_>) -> Option<String> {
        self.candidates(selection, way, &|_| true).err()
    }

    fn limits(&self, _selection: &Selection<'_>) -> Vec<String> {
        Vec::new()
    }
}

/// The workload of a product that a tool offers.
fn workload<'a>(offer: &Offer<'a>, instruction: Instruction) -> model::Workload<'a> {
    let (problem, (a, b), epilogue) = (offer.problem, offer.layouts, offer.tree.cost());
    model::Workload { problem, instruction, a, b, epilogue, lines: None, needed: 1.0 }
}

impl FamilyKey for Sm80Key {
    fn family(&self) -> &'static dyn Family {
        &Sm80
    }

    fn elements(&self) -> (ElementType, ElementType) {
        self.instruction.elements()
    }

    fn tile(&self) -> (usize, usize) {
        self.product_tile()
    }

    fn tile_k(&self) -> usize {
        self.tile.k
    }

    fn stages(&self) -> usize {
        self.tile.stages
    }

    fn multiplication(&self) -> Multiplication {
        match self.instruction {
            Instruction::MmaTf32 => Multiplication::Tf32,
            Instruction::MmaFastBf16 => Multiplication::FastBf16,
            Instruction::MmaNativeFp8(native) => Multiplication::NativeFp8(native.adder),
            _ => Multiplication::Exact,
        }
    }

    fn layouts(&self) -> (OperandLayout, OperandLayout) {
        (self.a, self.b)
    }

    /// Kernels always begin when the kernel before has ended, whatever `dependent_launch` says.
    fn with(&self, switches: Switches) -> KernelKey {
        KernelKey::Sm80(Self { fast_math: switches.fast_math, ..*self })
    }

    fn within(&self) -> Option<Within> {
        self.in_tile.then_some(Within::Tile)
    }

    fn fast_math(&self) -> bool {
        self.fast_math
    }

    fn reading(&self) -> ReadingShape {
        self.reading
    }

    fn estimate(&self, offer: &Offer<'_>, machine: &Machine, split_k: SplitK) -> Option<Candidate> {
        model::estimate(machine, &workload(offer, self.instruction), self.tile, split_k).ok()
    }

    fn emit(&self, of: &Computation<'_>, views: ArgumentViews, symbol: &str) -> Result<Emitted, &'static str> {
        Ok(emit::emit(of, (self, views), symbol))
    }

    fn shape(
        &self,
        _tree: &ValidTree,
        kernel: &Kernel,
        device: &Device,
        allowed: u32,
    ) -> Result<(Launch, Option<u32>), Error> {
        run::shape(self, kernel, device, allowed)
    }

    fn sum_bytes(&self) -> usize {
        self.tile.accumulator_bytes(self.instruction.accumulator())
    }

    fn neighbours(&self) -> usize {
        self.vector
    }

    fn parameter_alignment(&self) -> usize {
        PARAMETER_ALIGNMENT
    }

    fn parts(&self) -> SmallVec<[&'static Part; 4]> {
        self.parts()
    }

    fn check_patches(&self, patches: &Patches) -> Result<(), Error> {
        patches.check_positions()
    }

    fn serves(&self, problem: &Problem, a: Left<'_>, b: &[OperandView]) -> bool {
        run::wanted::serves(self, problem, a, b)
    }

    fn wanted(&self, candidate: &Candidate, of: &Sought<'_>) -> Option<WantedKernel> {
        run::wanted::wanted(self, candidate, of)
    }
}
