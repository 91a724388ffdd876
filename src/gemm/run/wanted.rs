//! The kernel that a run takes: the plan's, in the variant for the layouts of its operands and arguments, or one of
//! another family.

use std::sync::Arc;

use epilogue_runtime::trace;

use super::plan::Plan;
use super::sought::{Sought, Wanted};
use super::variant::Variant;
use crate::Argument;
use crate::evt::ValidOutput;
use crate::gemm::kernel::ArgumentViews;
use crate::gemm::model::choice::ChosenKernel;
use crate::gemm::model::{Candidate, Machine};
use crate::gemm::problem::digits::tensor_of;
use crate::gemm::problem::operand::common_layout;
use crate::gemm::problem::{Error, Left, OperandLayout, OperandView, Problem};

/// With fewer multiply-adds than this, a kernel with narrower copies than possible costs less than a compilation: some
/// microseconds instead of some hundred milliseconds.
const WORTH_COMPILING: u128 = 1 << 24;

impl Plan {
    /// The kernel for these operands and arguments (the epilogue's, and those of the launch's tail), compiled if it is the first
    /// for their layouts.
    pub(super) fn variant(
        &self,
        gpu: &ChosenKernel,
        problem: &Problem,
        a: Left<'_>,
        b: &[OperandView],
        (arguments, of_tail): (&[Argument<'_>], &[Argument<'_>]),
    ) -> Result<Arc<Variant>, Error> {
        let wanted = self.wanted(gpu, problem, self.layouts(gpu, problem, a, b)?, arguments)?;
        let tensors = arguments.iter().map(tensor_of);
        let views = ArgumentViews::of_product(&self.phases, wanted.key.in_tile(), tensors, problem)?;
        let views = views.with_tail(of_tail.iter().map(tensor_of))?;
        if let Some(variant) = self.variants.get(&(wanted.key, views)) {
            return Ok(variant);
        }
        let small = [problem.m, problem.n, problem.k, problem.batch].iter().map(|x| *x as u128).product::<u128>();
        let fits = |v: &Variant| {
            let same = v.views == views && v.key.in_tile() == wanted.key.in_tile();
            same && v.key.of_family().serves(problem, a, b)
        };
        // A group may begin at any row.
        let anywhere = problem.reading.grouping().is_none();
        if (small < WORTH_COMPILING && anywhere)
            && let Some(variant) = self.variants.find(fits)
        {
            return Ok(variant);
        }
        let (device, phases) = (&self.device, &self.phases);
        self.variants.get_or_make(&(wanted.key, views), || {
            let (epilogue, kernel) = (self.tree().name(), trace::text(&wanted.key));
            trace::event!(INFO, "a run needs another kernel than planned", epilogue = epilogue, kernel = kernel);
            Variant::compile(device, phases, (&wanted.key, views), wanted.split_k, self.multiprocessors)
        })
    }

    /// The layouts of a run's operands. Without products nothing is read, so any kernel works.
    pub(super) fn layouts(
        &self,
        gpu: &ChosenKernel,
        problem: &Problem,
        a: Left<'_>,
        b: &[OperandView],
    ) -> Result<(OperandLayout, OperandLayout), Error> {
        if problem.is_empty() {
            return Ok(gpu.chosen.key.layouts());
        }
        Ok((a.layout()?, a.layout_of_b(common_layout(b), self.tree().types().b)))
    }

    /// The chosen kernel, in the variant for these layouts. It stays in its family if that takes the layouts. It
    /// also stays if copies of the operands are predicted to be faster than a kernel of a family for any layout.
    pub(super) fn wanted(
        &self,
        gpu: &ChosenKernel,
        problem: &Problem,
        layouts: (OperandLayout, OperandLayout),
        arguments: &[Argument<'_>],
    ) -> Result<Wanted, Error> {
        let any_layout = gpu.chosen.key.of_family().family().takes_any_layout();
        let own = if any_layout { None } else { self.sought(gpu, &gpu.chosen, problem, layouts, arguments) };
        if let Some(wanted) = own
            && (gpu.asked || wanted.repacking.is_none() || wanted.repacking == gpu.chosen.repacking)
        {
            return Ok(wanted);
        }
        let same_tile = self.tree().outputs().iter().any(ValidOutput::is_partial);
        // The table of a tile's rows, which patches have, may leave no room for the first.
        let mut all = gpu.of_any_layout(same_tile);
        let other = all.find_map(|candidate| self.sought(gpu, candidate, problem, layouts, arguments));
        match (other, own) {
            (Some(other), Some(own)) if other.microseconds < own.microseconds => Ok(other),
            (_, Some(wanted)) | (Some(wanted), None) => Ok(wanted),
            (None, None) => {
                let reason = match problem.reading.patches() {
                    Some(_) => {
                        "shared memory has no room for the table of its rows' patches: plan for patches of images"
                    }
                    None => "no kernel takes these arguments: give tensors whose rows begin at multiples of 16 bytes",
                };
                Err(Error::NoKernel { kernel: gpu.chosen.key.to_string(), reason })
            }
        }
    }

    /// A candidate's kernel as a run seeks it; `None` if its family has none.
    fn sought(
        &self,
        gpu: &ChosenKernel,
        candidate: &Candidate,
        problem: &Problem,
        layouts: (OperandLayout, OperandLayout),
        arguments: &[Argument<'_>],
    ) -> Option<Wanted> {
        let (machine, phases, needed) = (&Machine::of(self.device.properties())?, &*self.phases, gpu.needed);
        let later = self.choice.later.as_ref().map_or(0.0, |later| later.microseconds);
        let sought = Sought { machine, phases, planned: &self.problem, problem, layouts, arguments, needed, later };
        candidate.key.of_family().wanted(candidate, &sought)
    }
}
