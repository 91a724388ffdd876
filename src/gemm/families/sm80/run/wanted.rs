//! The kernel of this family that a run seeks. It takes operands in any layout.

use crate::evt::InTile;
use crate::gemm::families::KernelKey;
use crate::gemm::families::sm80::kernel::Sm80Key;
use crate::gemm::families::sm80::model::{Workload, estimate};
use crate::gemm::kernel::{PatchKind, ReadingShape};
use crate::gemm::model::candidate::Candidate;
use crate::gemm::model::repacking::Repacking;
use crate::gemm::problem::sliding::MOST_AXES;
use crate::gemm::problem::{Left, OperandView, Problem};
use crate::gemm::run::sought::{Sought, WantedKernel};

/// Whether a kernel computes a run, perhaps by narrower copies than another would.
pub(crate) fn serves(key: &Sm80Key, problem: &Problem, a: Left<'_>, b: &[OperandView]) -> bool {
    let own = key.reading.patches().map(|patches| patches.kind);
    let counts = match problem.reading.patches() {
        Some(given) => own.is_some_and(|kind| kind == PatchKind::Dilated || !given.dilated),
        None => own.is_none(),
    };
    counts && a.fits(key.a).unwrap_or(false) && b.iter().all(|b| b.fits(key.b))
}

/// A candidate's kernel as a run needs it; `None` if the run's lines, or A's patches, don't fit.
pub(crate) fn wanted(key: &Sm80Key, candidate: &Candidate, of: &Sought<'_>) -> Option<WantedKernel> {
    let ((a, b), given) = (of.layouts, of.problem);
    // Without products there is no A to be read.
    let (reading, shape) = match given.is_empty() {
        true => (of.planned.reading, key.reading),
        false => (given.reading, ReadingShape::of(given.reading, a.major, MOST_AXES)),
    };
    let key = Sm80Key { a, b, reading: shape, ..*key };
    let (problem, instruction) = (Problem { reading, ..of.planned.shared_alike() }, key.instruction);
    let epilogue = of.phases.in_product(key.in_tile).cost();
    let lines = of.phases.in_tile.as_ref().map(InTile::lines).filter(|_| key.in_tile);
    if lines.is_some_and(|lines| !lines.fit(key.product_tile(), (given.m, given.n))) {
        return None;
    }
    let workload = Workload { problem, instruction, a, b, epilogue, lines, needed: of.needed };
    let product = estimate(of.machine, &workload, key.tile, candidate.split_k).ok()?.microseconds;
    let microseconds = product + if key.in_tile { 0.0 } else { of.later };
    Some(WantedKernel::of(KernelKey::Sm80(key), candidate, Repacking::default(), microseconds))
}
