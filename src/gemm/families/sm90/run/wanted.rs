//! The kernel of this family that a run seeks, and the copies that it needs.

use super::tensor_maps;
use crate::gemm::families::KernelKey;
use crate::gemm::families::sm90::kernel::supported::supports;
use crate::gemm::families::sm90::kernel::{Hint, Hints, Sm90Key};
use crate::gemm::kernel::loading::loads;
use crate::gemm::model::candidate::Candidate;
use crate::gemm::model::repacking::Repacking;
use crate::gemm::problem::{Major, Problem};
use crate::gemm::run::sought::{Sought, WantedKernel};

/// A candidate's kernel in the variant for a run's layouts; `None` if tensor copies can't load its operands.
pub(crate) fn wanted(key: &Sm90Key, candidate: &Candidate, of: &Sought<'_>) -> Option<WantedKernel> {
    let (problem, layouts) = (of.problem, of.layouts);
    let are_patches = problem.reading.patches().is_some();
    if are_patches && problem.boxed().is_none() {
        return None;
    }
    // Of rows that it can't pick it takes a copy. Patches have no hint.
    let of_a = if are_patches { Hint::Normal } else { key.hints.a };
    let hints = Hints { a: of_a, ..key.hints };
    let picks = key.reading.is_picked() && loads(false, layouts.0, Major::K);
    let by = (key.instruction.multiplied(), picks);
    let repacking = Repacking::of(of.machine, &of.planned.shared_alike(), by, layouts, key.accumulators);
    let layouts = repacking.layouts_for((key.a, key.b), layouts);
    let tree = of.phases.in_product(key.in_tile);
    let reading = if picks { problem.reading } else { problem.reading.in_order() };
    let key = &Sm90Key { hints, ..*key };
    let direct = tensor_maps::direct(tree, key, problem, of.arguments);
    let key = tensor_maps::variant(tree, key, layouts, direct, &Problem { reading, ..*problem })?;
    supports(&key).ok()?;
    let microseconds = candidate.clone().after(repacking).microseconds;
    Some(WantedKernel::of(KernelKey::Sm90(key), candidate, repacking, microseconds))
}
