//! The kernel that a run takes: the plan's, in the variant for the layouts of its operands and arguments, or one of the
//! other family.

use std::sync::Arc;

use epilogue_runtime::trace;

use super::plan::Plan;
use super::tensor_maps;
use super::variant::Variant;
use crate::Argument;
use crate::evt::{InTile, ValidOutput};
use crate::gemm::families::sm80::kernel::Sm80Key;
use crate::gemm::families::sm80::model::{Workload, estimate};
use crate::gemm::families::sm90::kernel::reach::loads;
use crate::gemm::families::sm90::kernel::supported::supports;
use crate::gemm::families::sm90::kernel::{Hint, Hints, Sm90Key};
use crate::gemm::kernel::{ArgumentViews, KernelKey, SplitK};
use crate::gemm::model::choice::ChosenKernel;
use crate::gemm::model::{Candidate, Machine, Repacking};
use crate::gemm::problem::digits::tensor_of;
use crate::gemm::problem::operand::common_layout;
use crate::gemm::problem::{Error, Grouping, Left, Major, OperandLayout, OperandView, Problem};

/// With fewer multiply-adds than this, a kernel with narrower copies than possible costs less than a compilation: some
/// microseconds instead of some hundred milliseconds.
const WORTH_COMPILING: u128 = 1 << 24;

/// A kernel that is wanted, compiled or not.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) key: KernelKey,
    pub(super) split_k: SplitK,
}

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
        let fits = |v: &Variant| match &v.key {
            KernelKey::Sm80(key) => {
                let same = v.views == views && v.key.in_tile() == wanted.key.in_tile();
                same && key.patches == problem.patches.is_some()
                    && (key.input_dilated || !problem.input_dilated)
                    && a.fits(key.a).unwrap_or(false)
                    && b.iter().all(|b| b.fits(key.b))
            }
            KernelKey::Sm90(_) => false,
        };
        // A group may begin at any row.
        let anywhere = problem.grouping == Grouping::None;
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

    /// The chosen kernel, in the variant for these layouts. It stays in its family if that takes the layouts, or if
    /// copying the operands is predicted to take less time than a kernel of the other family.
    pub(super) fn wanted(
        &self,
        gpu: &ChosenKernel,
        problem: &Problem,
        layouts: (OperandLayout, OperandLayout),
        arguments: &[Argument<'_>],
    ) -> Result<Wanted, Error> {
        let on_sm90 = self.on_sm90(gpu, problem, layouts, arguments);
        if let Some((wanted, repacking)) = &on_sm90
            && (gpu.asked || repacking.is_none() || *repacking == gpu.chosen.repacking)
        {
            return Ok(*wanted);
        }
        let time = |repacking| gpu.chosen.clone().after(repacking).microseconds;
        match (self.on_sm80(gpu, problem, layouts), on_sm90) {
            (Some((wanted, microseconds)), Some((_, repacking))) if microseconds < time(repacking) => Ok(wanted),
            (_, Some((wanted, _))) | (Some((wanted, _)), None) => Ok(wanted),
            (None, None) => {
                let reason = match problem.patches {
                    Some(_) => {
                        "shared memory has no room for the table of its rows' patches: plan for patches of images"
                    }
                    None => "no kernel takes these arguments: give tensors whose rows begin at multiples of 16 bytes",
                };
                Err(Error::NoKernel { kernel: gpu.chosen.key.to_string(), reason })
            }
        }
    }

    /// The chosen kernel if it is for sm_90a, and the copies that it needs.
    fn on_sm90(
        &self,
        gpu: &ChosenKernel,
        problem: &Problem,
        layouts: (OperandLayout, OperandLayout),
        arguments: &[Argument<'_>],
    ) -> Option<(Wanted, Repacking)> {
        let KernelKey::Sm90(key) = &gpu.chosen.key else { return None };
        if problem.patches.is_some() && problem.boxes.is_err() {
            return None;
        }
        let machine = Machine::of(self.device.properties())?;
        // Of rows that it can't pick it takes a copy. Patches have no hint.
        let of_a = if problem.patches.is_some() { Hint::Normal } else { key.hints.a };
        let hints = Hints { a: of_a, ..key.hints };
        let key = &Sm90Key { picked: key.picked && loads(false, layouts.0, Major::K), hints, ..*key };
        let (problem_of_plan, reading) = (self.problem.shared_alike(), (key.instruction, key.picked));
        let repacking = Repacking::of(&machine, &problem_of_plan, reading, layouts, key.accumulators);
        let layouts = repacking.layouts_for((key.a, key.b), layouts);
        let tree = self.phases.in_product(key.in_tile);
        let key =
            tensor_maps::variant(tree, key, layouts, tensor_maps::direct(tree, key, problem, arguments), problem)?;
        supports(&key).ok()?;
        let wanted = Wanted { key: KernelKey::Sm90(key), split_k: gpu.chosen.split_k };
        Some((wanted, repacking))
    }

    /// The best kernel for sm_80 and later, and its predicted time.
    fn on_sm80(
        &self,
        gpu: &ChosenKernel,
        given: &Problem,
        layouts: (OperandLayout, OperandLayout),
    ) -> Option<(Wanted, f64)> {
        let same_tile = self.tree().outputs().iter().any(ValidOutput::is_partial);
        // The table of a tile's rows, which patches have, may leave no room for the first.
        gpu.of_any_layout(same_tile).find_map(|candidate| self.of_sm80(gpu, candidate, given, layouts))
    }

    /// A kernel for sm_80 and later as a run needs it; `None` if the run's lines, or A's patches, don't fit.
    fn of_sm80(
        &self,
        gpu: &ChosenKernel,
        candidate: &Candidate,
        given: &Problem,
        (a, b): (OperandLayout, OperandLayout),
    ) -> Option<(Wanted, f64)> {
        let Candidate { key: KernelKey::Sm80(key), split_k, .. } = candidate else { return None };
        // Without products there is no A to be read.
        let (patches, input_dilated) = match given.is_empty() {
            true => (self.problem.patches, key.input_dilated),
            false => (given.patches, given.input_dilated),
        };
        let key = Sm80Key { a, b, patches: patches.is_some(), input_dilated, ..*key };
        let (problem, instruction) = (Problem { patches, ..self.problem.shared_alike() }, key.instruction);
        let epilogue = self.phases.in_product(key.in_tile).cost();
        let lines = self.phases.in_tile.as_ref().map(InTile::lines).filter(|_| key.in_tile);
        if lines.is_some_and(|lines| !lines.fit(KernelKey::Sm80(key).tile(), (given.m, given.n))) {
            return None;
        }
        let machine = Machine::of(self.device.properties())?;
        let workload = Workload { problem, instruction, a, b, epilogue, lines, needed: gpu.needed };
        let product = estimate(&machine, &workload, key.tile, *split_k).ok()?.microseconds;
        let later = self.choice.later.as_ref().filter(|_| !key.in_tile).map_or(0.0, |later| later.microseconds);
        let microseconds = product + later;
        Some((Wanted { key: KernelKey::Sm80(key), split_k: *split_k }, microseconds))
    }
}
