//! This family's answers.

use epilogue_runtime::{Arch, Device, Kernel, Launch};
use smallvec::SmallVec;

use super::kernel::shared::{sum_bytes, table_bytes};
use super::kernel::supported::{UNALIGNED_PICKS, supports};
use super::kernel::{PARAMETER_ALIGNMENT, Request as Pinned, Sm90Key, TensorCores, Traffic, Wgmma};
use super::{emit, model, run};
use crate::ElementType;
use crate::evt::reference::{Fp8Adder, Multiplication};
use crate::evt::{Computation, ValidTree};
use crate::gemm::emit::text::Emitted;
use crate::gemm::families::family::{Family, FamilyKey};
use crate::gemm::families::list::{KernelKey, Pins};
use crate::gemm::kernel::device_struct::Part;
use crate::gemm::kernel::formula::OwnQuantities;
use crate::gemm::kernel::launch::MapDescription;
use crate::gemm::kernel::loading::Loading;
use crate::gemm::kernel::{ArgumentViews, ReadingShape, SplitK, Switches, Within};
use crate::gemm::model::candidate::Candidate;
use crate::gemm::model::machine::Machine;
use crate::gemm::model::offer::Offer;
use crate::gemm::model::selection::{LaunchedPart, Request, Selection};
use crate::gemm::problem::{Arithmetic, Error, Knob, Left, OperandLayout, OperandView, Problem};
use crate::gemm::run::kernel_run::KernelRun;
use crate::gemm::run::sought::{Sought, WantedKernel};

/// A family whose kernels load by TMA, for the tensor cores of one architecture.
pub(crate) struct Specialized {
    cores: TensorCores,
}

/// The family for sm_90a.
pub(crate) const SM_90: &Specialized = &Specialized { cores: TensorCores::Wgmma };
/// The family for sm_100a and sm_103a.
pub(crate) const SM_100: &Specialized = &Specialized { cores: TensorCores::Tcgen05 };

impl Specialized {
    /// The request that the user made for its kernels.
    const fn pinned(&self, pins: &Pins) -> Option<Pinned> {
        match self.cores {
            TensorCores::Wgmma => pins.sm90,
            TensorCores::Tcgen05 => pins.sm100,
        }
    }
}

impl Family for Specialized {
    fn arch(&self) -> Arch {
        self.cores.arch()
    }

    fn runs_on(&self, arch: Arch) -> bool {
        self.cores.run_on(arch)
    }

    fn multiplies(&self, (a, b): (ElementType, ElementType), arithmetic: Arithmetic) -> bool {
        Wgmma::of(a, b, arithmetic).is_some_and(|of| self.cores.multiplies(of))
    }

    fn lacks(&self, knob: Knob) -> Option<&'static str> {
        match (knob, self.cores) {
            (Knob::Sm90, TensorCores::Tcgen05) => Some("because only kernels for sm_90a have it: take `.sm100(…)`"),
            (Knob::Sm100, TensorCores::Wgmma) => Some("because only kernels for sm_100a have it: take `.sm90(…)`"),
            _ => None,
        }
    }

    fn takes_any_layout(&self) -> bool {
        false
    }

    fn has_clusters(&self) -> bool {
        true
    }

    fn candidates(
        &self,
        selection: &Selection<'_>,
        way: &LaunchedPart<'_>,
        counts: &dyn Fn((usize, usize)) -> bool,
    ) -> Result<Vec<Candidate>, String> {
        Ok(selection.sm90_candidates(self.cores, way, counts))
    }

    fn priced(&self, offer: &Offer<'_>, machine: &Machine) -> Vec<Candidate> {
        let types = offer.tree.types();
        let instruction = Wgmma::of(types.a, types.b, offer.arithmetic).filter(|of| self.cores.has(machine.arch, *of));
        instruction.map(|of| model::rank(machine, &workload(offer, (self.cores, of)), |_| true)).unwrap_or_default()
    }

    fn is_pinned(&self, pins: &Pins) -> bool {
        self.pinned(pins).is_some()
    }

    fn asked(
        &self,
        selection: &Selection<'_>,
        request: &Request,
        _candidates: &[Candidate],
    ) -> Result<Candidate, Error> {
        selection.asked_sm90(self.cores, request, self.pinned(&request.pins).unwrap_or_default())
    }

    fn why_not_in_tile(&self, selection: &Selection<'_>, way: &LaunchedPart<'_>) -> Option<String> {
        let in_cluster = LaunchedPart { lines: way.lines.map(|(lines, _)| (lines, Within::Cluster)), ..*way };
        selection.beyond_tile(&in_cluster, &Pinned::default())
    }

    fn limits(&self, selection: &Selection<'_>) -> Vec<String> {
        let mut limits = Vec::new();
        if selection.unpicked(self.cores) == Some(UNALIGNED_PICKS) {
            let arch = self.arch();
            limits.push(match self.cores.take_picked_rows() {
                true => format!("kernels for {arch} pick rows only where they begin at multiples of 16 bytes"),
                false => format!("kernels for {arch} pick no rows: these are copied first"),
            });
        }
        if let Some(limit) = selection.unboxed() {
            limits.push(format!("kernels for {} load patches only where {limit}", self.arch()));
        }
        limits
    }
}

/// The workload of a product that a tool offers.
fn workload<'a>(offer: &Offer<'a>, (cores, instruction): (TensorCores, Wgmma)) -> model::Workload<'a> {
    let (problem, (a, b), tree) = (offer.problem, offer.layouts, offer.tree);
    let fast_fp8 = offer.arithmetic == Arithmetic::FastFp8;
    model::Workload { problem, cores, instruction, a, b, fast_fp8, tree, lines: None, needed: 1.0 }
}

impl FamilyKey for Sm90Key {
    fn family(&self) -> &'static dyn Family {
        match self.cores {
            TensorCores::Wgmma => SM_90,
            TensorCores::Tcgen05 => SM_100,
        }
    }

    fn elements(&self) -> (ElementType, ElementType) {
        self.instruction.elements()
    }

    fn tile(&self) -> (usize, usize) {
        self.product_tile()
    }

    fn tile_k(&self) -> usize {
        self.instruction.tile_k()
    }

    fn stages(&self) -> usize {
        self.stages
    }

    fn multiplication(&self) -> Multiplication {
        match self.instruction {
            Wgmma::Tf32 => Multiplication::Tf32,
            Wgmma::Fp8(_) if !self.cores.promotes(self.instruction) => Multiplication::NativeFp8(Fp8Adder::Blackwell),
            Wgmma::Fp8(_) if !self.promoted => Multiplication::FastFp8,
            _ => Multiplication::Exact,
        }
    }

    fn layouts(&self) -> (OperandLayout, OperandLayout) {
        (OperandLayout::packed(self.a), OperandLayout::packed(self.b))
    }

    fn with(&self, switches: Switches) -> KernelKey {
        let Switches { fast_math, dependent_launch } = switches;
        KernelKey::Sm90(Self { fast_math, dependent_launch, ..*self })
    }

    fn within(&self) -> Option<Within> {
        Self::within(self)
    }

    fn line_tile(&self) -> (usize, usize) {
        Self::line_tile(self)
    }

    fn fast_math(&self) -> bool {
        self.fast_math
    }

    fn reading(&self) -> ReadingShape {
        self.reading
    }

    fn cluster(&self) -> (usize, usize) {
        (self.cluster.m, self.cluster.n)
    }

    fn is_portable(&self) -> bool {
        self.cluster.is_portable()
    }

    fn loading(&self) -> Option<Loading> {
        let (multiplied, majors) = (self.instruction.multiplied(), (self.a, self.b));
        Some(Loading { multiplied, majors, reading: self.reading })
    }

    fn estimate(&self, offer: &Offer<'_>, machine: &Machine, split_k: SplitK) -> Option<Candidate> {
        Some(model::estimate(machine, &workload(offer, (self.cores, self.instruction)), self, split_k))
    }

    fn emit(&self, of: &Computation<'_>, views: ArgumentViews, symbol: &str) -> Result<Emitted, &'static str> {
        supports(self)?;
        Ok(emit::emit(of, (self, views), symbol))
    }

    fn shape(
        &self,
        tree: &ValidTree,
        kernel: &Kernel,
        device: &Device,
        allowed: u32,
    ) -> Result<(Launch, Option<u32>), Error> {
        run::shape(self, tree, kernel, device, allowed)
    }

    fn sum_bytes(&self) -> usize {
        sum_bytes(self)
    }

    fn table_bytes(&self, groups: usize) -> usize {
        table_bytes(self.reading.divided(), groups)
    }

    /// A fragment has pairs of neighbouring columns.
    fn neighbours(&self) -> usize {
        2
    }

    fn parameter_alignment(&self) -> usize {
        PARAMETER_ALIGNMENT
    }

    fn parts(&self) -> SmallVec<[&'static Part; 4]> {
        self.parts()
    }

    fn own_quantities(&self, run: &KernelRun<'_>) -> Result<OwnQuantities, Error> {
        run::own_quantities(self, run)
    }

    fn map_bytes(&self, run: &KernelRun<'_>) -> Result<Vec<u8>, Error> {
        run::map_bytes(self, run)
    }

    fn maps(&self, run: &KernelRun<'_>) -> Vec<MapDescription> {
        run::tensors(run).described(self, &Traffic::of(run.tree, self.direct))
    }

    /// Its operands lie as it was compiled for.
    fn serves(&self, _problem: &Problem, _a: Left<'_>, _b: &[OperandView]) -> bool {
        false
    }

    fn wanted(&self, candidate: &Candidate, of: &Sought<'_>) -> Option<WantedKernel> {
        run::wanted::wanted(self, candidate, of)
    }
}
