//! A run's launch as data, for programs that launch a kernel by themselves.

use super::super::operation::GivenRun;
use super::kernels::Kernels;
use super::run::{copied_first, positioned};
use crate::gemm::kernel::launch::LaunchDescription;
use crate::gemm::problem::Error;
use crate::gemm::problem::digits::has_batch_digits;
use crate::gemm::run::kernel_run::KernelRun;
use crate::gemm::run::scales::Scales;

impl Kernels {
    /// The launch of a run, if it is one launch.
    ///
    /// # Errors
    /// [`Error::NoLaunch`]; those of the run.
    pub(super) fn described(&self, given: &GivenRun<'_, '_>) -> Result<LaunchDescription, Error> {
        let GivenRun { problem, a, b, arguments } = *given;
        let refuse = |reason| Err(Error::NoLaunch { device: self.operation.device.to_string(), reason });
        if self.takes_launches(&self.chosen) {
            return refuse(
                "the epilogue is computed from its own reductions, for which the plan keeps memory of its own and \
                 may launch several kernels; return the reductions (`Any`, `All`, `Mean`, `Variance` and `LogSumExp` \
                 are made of others), and go on in another epilogue",
            );
        }
        let chosen = self.chosen_for(given)?;
        if self.takes_launches(&chosen) {
            return refuse(
                "the product's lines don't lie in the plan's tile, or its cluster's, so it takes several launches: plan for \
                 its extents",
            );
        }
        let scales = a.scales().into_iter().chain(b.scales().iter().copied());
        let operands = std::iter::once(a.tensor()).chain(b.tensors().iter().copied());
        if operands.chain(scales).any(has_batch_digits) {
            return refuse(
                "an operand's batches are two axes that don't merge, for which it is copied first: give a contiguous copy",
            );
        }
        if problem.batch == 0 {
            return refuse("a product of no batches launches none");
        }
        let variant = self.variant(&chosen, given, &[])?;
        let of_b = self.live_of(b.scales());
        let scales = a.scales().map(|a| Scales { a, b: &of_b });
        let (b, reading) = (self.live(b)?, positioned(a, &variant)?);
        let scattered = a.scattered();
        let loading = variant.key.of_family().loading();
        if loading.is_some_and(|loading| !copied_first(loading, &problem, &reading, a.tensor(), &b).is_empty()) {
            return refuse("another kernel copies an operand first; choose a candidate whose `repacking` is none");
        }
        if loading.is_some_and(|loading| loading.reading.patches().is_some()) {
            return refuse(
                "its kernel loads patches by a tensor map in im2col mode, which descriptions don't have; choose a \
                         kernel for sm_80, as by `.tile(…)`",
            );
        }
        let tree = self.operation.phases.in_product(variant.key.in_tile());
        let (a, variant, of_tail) = (a.tensor(), &variant, &[]);
        KernelRun { tree, variant, problem, a, b: &b, arguments, of_tail, reading, scales, scattered }.describe()
    }
}
