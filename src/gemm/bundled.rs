//! The choice among kernels that were compiled ahead of time, on a device with bundles. Such a device never compiles.

use std::collections::HashMap;

use epilogue_runtime::Device;

use super::emit::{self, symbol::symbol};
use super::kernel::ArgumentViews;
use super::model::choice::{ChosenKernel, Tuning};
use super::problem::Problem;
use crate::evt::Phases;
use crate::gemm::families::KernelKey;

/// Whether the kernel is available: the device has no bundles, or they have it.
pub(super) fn may_run(device: &Device, phases: &Phases, problem: &Problem, key: &KernelKey) -> bool {
    let source = || emit::emit(phases, key, ArgumentViews::planned_of_product(phases, key.in_tile(), problem)?);
    // Comparing a name takes less time than writing the source.
    device.is_name_bundled(&symbol(phases.first(), key)).unwrap_or(true)
        && source().is_ok_and(|text| device.is_bundled(&text.source).unwrap_or(true))
}

/// The best of the model's candidates that the device's bundles have. If they have none, or if the user asked for this
/// kernel, the choice stays: the missing kernel is reported where it is looked up.
pub(super) fn among_bundled(device: &Device, phases: &Phases, problem: &Problem, chosen: ChosenKernel) -> ChosenKernel {
    if chosen.asked || device.bundles().is_empty() {
        return chosen;
    }
    // Candidates that differ only in the number of splits share one kernel.
    let mut known = HashMap::<KernelKey, bool>::new();
    let mut holds = |key: &KernelKey| *known.entry(*key).or_insert_with(|| may_run(device, phases, problem, key));
    if holds(&chosen.chosen.key) {
        return chosen;
    }
    match chosen.candidates.iter().position(|candidate| holds(&candidate.key)) {
        Some(better) => {
            let best = chosen.candidates[better].clone();
            ChosenKernel { chosen: best, tuning: Tuning::Bundled { better }, ..chosen }
        }
        None => chosen,
    }
}
