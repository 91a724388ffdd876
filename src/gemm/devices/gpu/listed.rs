//! The choice among kernels that were compiled ahead of time, on a device with bundles. It never compiles.
//!
//! A bundle lists the origins of its kernels, so choosing writes no text. An origin doesn't prove that the kernel is there: a
//! list may be of a library that writes another text. Compiling finds that out, and takes the next kernel that is listed.

use epilogue_runtime::CacheKey;

use super::super::operation::Operation;
use crate::gemm::emit::origin::{origin_of_kernel, origin_of_tree};
use crate::gemm::families::KernelKey;
use crate::gemm::kernel::ArgumentViews;
use crate::gemm::model::choice::{ChosenKernel, Origin};

/// The kernels of an operation that its device may have.
pub(super) struct Listed<'a> {
    operation: &'a Operation,
    /// The origin of the epilogue; `None` if the device has no bundles, and so may have every kernel.
    tree: Option<CacheKey>,
}

impl<'a> Listed<'a> {
    pub(super) fn of(operation: &'a Operation) -> Self {
        let has_bundles = !operation.device.bundles().is_empty();
        Self { operation, tree: has_bundles.then(|| origin_of_tree(operation.tree())) }
    }

    /// Whether the device has no bundles, or they list this kernel.
    pub(super) fn has(&self, key: &KernelKey) -> bool {
        let Operation { device, phases, problem, .. } = self.operation;
        self.tree.is_none_or(|tree| {
            ArgumentViews::planned_of_product(phases, key.in_tile(), problem)
                .is_ok_and(|views| device.is_listed(origin_of_kernel(tree, key, views)).unwrap_or(true))
        })
    }

    /// The chosen kernel if it is listed, or else the best candidate that is. The choice stays if none is, and if the user
    /// asked for it: compiling says what is missing.
    pub(super) fn best(&self, chosen: ChosenKernel) -> ChosenKernel {
        if chosen.asked || self.has(&chosen.chosen.key) {
            return chosen;
        }
        self.next(&chosen, &[]).unwrap_or(chosen)
    }

    /// The best candidate that is listed and was not tried.
    pub(super) fn next(&self, chosen: &ChosenKernel, tried: &[KernelKey]) -> Option<ChosenKernel> {
        let is_left = |key: &KernelKey| !tried.contains(key) && self.has(key);
        let better = chosen.candidates.iter().position(|candidate| is_left(&candidate.key))?;
        let (best, origin) = (chosen.candidates[better].clone(), Origin::Bundled { better });
        Some(ChosenKernel { chosen: best, origin, ..chosen.clone() })
    }
}
