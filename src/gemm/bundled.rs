//! The choice among the kernels that were compiled ahead of time, on a device that has a bundle.

use std::collections::HashMap;

use epilogue_runtime::Device;

use super::emit::{self, symbol::symbol};
use super::kernel::KernelKey;
use super::model::choice::{ChosenKernel, Tuning};
use crate::evt::ValidTree;

/// The best of the model's candidates that the device's bundles hold. Where they hold none, the choice stays as it was: that
/// its kernel is missing is said where it is looked for. So is it of what the user asked for.
pub(super) fn among_bundled(device: &Device, tree: &ValidTree, chosen: ChosenKernel) -> ChosenKernel {
    if chosen.asked || device.bundles().is_empty() {
        return chosen;
    }
    // Candidates that differ in the number of splits only have one kernel. A name is compared in less time than a text
    // is written.
    let mut known = HashMap::<KernelKey, bool>::new();
    let mut holds = |key: &KernelKey| {
        *known.entry(*key).or_insert_with(|| {
            device.is_name_bundled(&symbol(tree, key)) == Some(true)
                && emit::emit(tree, key).is_ok_and(|text| device.is_bundled(&text.source) == Some(true))
        })
    };
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
