//! The family's answers.

use epilogue_runtime::Arch;

use super::key::ToyKey;
use super::run;
use crate::ElementType::{self, BF16, F16, F32, F64};
use crate::gemm::families::KernelKey;
use crate::gemm::families::family::Family;
use crate::gemm::families::list::Pins;
use crate::gemm::kernel::SplitK;
use crate::gemm::model::candidate::Candidate;
use crate::gemm::model::machine::Machine;
use crate::gemm::model::offer::Offer;
use crate::gemm::model::selection::{LaunchedPart, Request, Selection};
use crate::gemm::problem::{Arithmetic, Error, Knob, Problem, Reading};

/// The family.
pub(crate) struct Toy;

/// The kernel for a product; `None` if the family has none.
fn key(element: ElementType, accumulators: usize, problem: &Problem) -> Option<ToyKey> {
    let takes = problem.reading == Reading::Rows && !problem.formats.are_scaled();
    takes.then_some(ToyKey { element, accumulators, fast_math: false })
}

impl Family for Toy {
    fn arch(&self) -> Arch {
        Arch::new(7, 0)
    }

    fn runs_on(&self, _arch: Arch) -> bool {
        true
    }

    fn multiplies(&self, (a, b): (ElementType, ElementType), arithmetic: Arithmetic) -> bool {
        a == b && [F16, BF16, F32, F64].contains(&a) && arithmetic == Arithmetic::Exact
    }

    fn lacks(&self, knob: Knob) -> Option<&'static str> {
        match knob {
            Knob::FastMath | Knob::Finish | Knob::Candidate => None,
            _ => Some("because its kernels have one form"),
        }
    }

    fn takes_any_layout(&self) -> bool {
        true
    }

    fn has_clusters(&self) -> bool {
        false
    }

    fn candidates(
        &self,
        selection: &Selection<'_>,
        way: &LaunchedPart<'_>,
        counts: &dyn Fn((usize, usize)) -> bool,
    ) -> Result<Vec<Candidate>, String> {
        if way.lines.is_some() {
            return Err("a kernel of this family computes one phase".to_owned());
        }
        let key = key(selection.types().0, way.tree.cost().products(), &selection.problem);
        let found = key.map(|key| run::estimate(key, &selection.problem, selection.machine));
        Ok(found.into_iter().filter(|candidate| counts(candidate.key.tile())).collect())
    }

    fn priced(&self, offer: &Offer<'_>, machine: &Machine) -> Vec<Candidate> {
        let types = offer.tree.types();
        let key = key(types.a, offer.tree.cost().products(), &offer.problem);
        let key = key.filter(|_| self.multiplies((types.a, types.b), offer.arithmetic));
        key.map(|key| run::estimate(key, &offer.problem, machine)).into_iter().collect()
    }

    fn is_pinned(&self, _pins: &Pins) -> bool {
        false
    }

    fn asked(&self, _: &Selection<'_>, request: &Request, candidates: &[Candidate]) -> Result<Candidate, Error> {
        let own = |candidate: &&Candidate| matches!(candidate.key, KernelKey::Toy(_));
        let found = candidates.iter().find(own).filter(|_| request.split_k.is_none_or(|split| split == SplitK::None));
        let reason = "its kernels have one form";
        found.cloned().ok_or_else(|| Error::NoKernel { kernel: "plain FMA".to_owned(), reason })
    }

    fn why_not_in_tile(&self, selection: &Selection<'_>, way: &LaunchedPart<'_>) -> Option<String> {
        self.candidates(selection, way, &|_| true).err()
    }

    fn limits(&self, _selection: &Selection<'_>) -> Vec<String> {
        Vec::new()
    }
}
