//! The kernel that a run takes: the plan's, in the variant for the layouts of its operands and arguments, or one of
//! another family.

use std::sync::Arc;

use epilogue_runtime::trace;

use super::super::operation::{GivenRun, Operation};
use super::kernels::Kernels;
use crate::Argument;
use crate::evt::ValidOutput;
use crate::gemm::kernel::ArgumentViews;
use crate::gemm::model::Candidate;
use crate::gemm::model::choice::ChosenKernel;
use crate::gemm::problem::digits::tensor_of;
use crate::gemm::problem::operand::common_layout;
use crate::gemm::problem::{Error, OperandLayout};
use crate::gemm::run::sought::{Sought, WantedKernel};
use crate::gemm::run::variant::Variant;

/// With fewer multiply-adds than this, a kernel with narrower copies than possible costs less than a compilation: some
/// microseconds instead of some hundred milliseconds.
const WORTH_COMPILING: u128 = 1 << 24;

impl Kernels {
    /// The kernel for these operands and arguments (the epilogue's, and those of the launch's tail), compiled if it is the first
    /// for their layouts.
    pub(super) fn variant(
        &self,
        chosen: &ChosenKernel,
        given: &GivenRun<'_, '_>,
        of_tail: &[Argument<'_>],
    ) -> Result<Arc<Variant>, Error> {
        let (GivenRun { problem, a, b, arguments }, Operation { device, phases, .. }) = (given, &*self.operation);
        let wanted = self.wanted(chosen, given, self.layouts(chosen, given)?)?;
        let tensors = arguments.iter().map(tensor_of);
        let views = ArgumentViews::of_product(phases, wanted.key.in_tile(), tensors, problem)?;
        let views = views.with_tail(of_tail.iter().map(tensor_of))?;
        if let Some(variant) = self.variants.get(&(wanted.key, views)) {
            return Ok(variant);
        }
        let small = [problem.m, problem.n, problem.k, problem.batch].iter().map(|x| *x as u128).product::<u128>();
        let fits = |v: &Variant| {
            let same = v.views == views && v.key.in_tile() == wanted.key.in_tile();
            same && v.key.of_family().serves(problem, *a, &b.views())
        };
        // A group may begin at any row.
        let anywhere = problem.reading.grouping().is_none();
        if (small < WORTH_COMPILING && anywhere)
            && let Some(variant) = self.variants.find(fits)
        {
            return Ok(variant);
        }
        self.variants.get_or_make(&(wanted.key, views), || {
            let (epilogue, kernel) = (phases.tree.name(), trace::text(&wanted.key));
            trace::event!(INFO, "a run needs another kernel than planned", epilogue = epilogue, kernel = kernel);
            Variant::compile(device, phases, (&wanted.key, views), wanted.split_k, self.operation.multiprocessors)
        })
    }

    /// The layouts of a run's operands. Without products nothing is read, so any kernel works.
    pub(super) fn layouts(
        &self,
        chosen: &ChosenKernel,
        GivenRun { problem, a, b, .. }: &GivenRun<'_, '_>,
    ) -> Result<(OperandLayout, OperandLayout), Error> {
        if problem.is_empty() {
            return Ok(chosen.chosen.key.layouts());
        }
        Ok((a.layout()?, a.layout_of_b(common_layout(&b.views()), self.operation.tree().types().b)))
    }

    /// The chosen kernel, in the variant for these layouts. It stays in its family if that takes the layouts. It
    /// also stays if copies of the operands are predicted to be faster than a kernel of a family for any layout.
    pub(super) fn wanted(
        &self,
        chosen: &ChosenKernel,
        given: &GivenRun<'_, '_>,
        layouts: (OperandLayout, OperandLayout),
    ) -> Result<WantedKernel, Error> {
        let any_layout = chosen.chosen.key.of_family().family().takes_any_layout();
        let own = if any_layout { None } else { self.sought(&chosen.chosen, given, layouts) };
        if let Some(wanted) = own
            && (chosen.asked || wanted.repacking.is_none() || wanted.repacking == chosen.chosen.repacking)
        {
            return Ok(wanted);
        }
        let same_tile = self.operation.tree().outputs().iter().any(ValidOutput::is_partial);
        // The table of a tile's rows, which patches have, may leave no room for the first.
        let mut all = chosen.of_any_layout(same_tile);
        let other = all.find_map(|candidate| self.sought(candidate, given, layouts));
        match (other, own) {
            (Some(other), Some(own)) if other.microseconds < own.microseconds => Ok(other),
            (_, Some(wanted)) | (Some(wanted), None) => Ok(wanted),
            (None, None) => {
                let reason = match given.problem.reading.patches() {
                    Some(_) => {
                        "shared memory has no room for the table of its rows' patches: plan for patches of images"
                    }
                    None => "no kernel takes these arguments: give tensors whose rows begin at multiples of 16 bytes",
                };
                Err(Error::NoKernel { kernel: chosen.chosen.key.to_string(), reason })
            }
        }
    }

    /// A candidate's kernel as a run seeks it; `None` if its family has none.
    fn sought(
        &self,
        candidate: &Candidate,
        GivenRun { problem, arguments, .. }: &GivenRun<'_, '_>,
        layouts: (OperandLayout, OperandLayout),
    ) -> Option<WantedKernel> {
        let Operation { phases, problem: planned, .. } = &*self.operation;
        let (machine, needed) = (&self.chosen.machine, self.chosen.needed);
        let later = self.chosen.later.as_ref().map_or(0.0, |later| later.microseconds);
        let sought = Sought { machine, phases, planned, problem, layouts, arguments, needed, later };
        candidate.key.of_family().wanted(candidate, &sought)
    }
}
