//! Runs maps and reductions on the CPU: compiles them for the shapes of a run, or takes the code of the last run.

use epilogue_runtime::{Device, Stream};

use crate::te::auto::bind::arguments::BoundTensors;
use crate::te::auto::bind::iteration_space::place_of;
use crate::te::auto::cpu::Task;
use crate::te::auto::cpu::made::{AtStep, Cached, Chain, CodeCache, MadeKernel};
use crate::te::auto::kernel::{Ran, Runs};
use crate::te::auto::order::Order;
use crate::te::auto::pattern::fused::Reduction;
use crate::te::auto::pattern::reads::Read;
use crate::te::auto::run::analysis::{Analysis, space};
use crate::te::auto::run::intermediates::{Intermediates, part};
use crate::te::auto::split::by_pass::{PassKernel, PassSequence, TensorOrigin};
use crate::te::error::TeError;
use crate::te::expr::axis::Domain;
use crate::te::expr::var::Var;
use crate::tuning::Tuning;

/// Maps and reductions on the CPU.
pub(super) struct ReduceKernel {
    device: Device,
    tuning: Tuning,
    whole: Reduction,
    order: Order,
    /// A reduction for each pass; empty if one is enough.
    passes: Vec<(Reduction, Vec<TensorOrigin>)>,
    intermediates: Intermediates,
    /// The code of the last run.
    code_cache: CodeCache,
    /// A size that differs from run to run, and only moves what is read: code compiled for one value serves all.
    step: Option<Var>,
}

impl ReduceKernel {
    /// `step` is a size for whose values it is run one after another.
    pub(super) fn new(
        (device, tuning): (&Device, Tuning),
        whole: Reduction,
        order: Order,
        step: Option<Var>,
    ) -> Result<Self, TeError> {
        let step = step.filter(|size| only_moves_with(&whole, *size));
        // A step is found by what the whole reads.
        let is_free = order == Order::Device && step.is_none();
        let PassSequence { steps, intermediates } = match is_free.then(|| PassSequence::by_passes(&whole)).flatten() {
            Some(sequence) => sequence,
            None if whole.passes.len() > 1 => PassSequence::of(&whole, false)?,
            None => PassSequence::default(),
        };
        let pass = |step: PassKernel| {
            // The tree is the same as that of a single kernel.
            (Reduction { in_one_block: order == Order::Shape, ..step.reduction }, step.origins)
        };
        Ok(Self {
            device: device.clone(),
            tuning,
            order,
            passes: steps.into_iter().map(pass).collect(),
            intermediates: Intermediates::new(intermediates),
            code_cache: CodeCache::default(),
            step,
            whole,
        })
    }

    /// Compiles a run; `None` if there is nothing to do.
    fn made(&self, bound: &BoundTensors<'_>) -> Result<Option<MadeKernel>, TeError> {
        let Some(analysis) = Analysis::of(&self.whole, bound)? else { return Ok(None) };
        if self.passes.is_empty() {
            let task = self.task(&self.whole, bound, &analysis);
            return if self.whole.passes.is_empty() {
                MadeKernel::map(&task, self.order)
            } else {
                MadeKernel::reduction(&task, self.order)
            }
            .map(Some);
        }
        let memory = self.intermediates.made(&self.device.default_stream(), bound)?;
        let (mut runs, mut all_origins) = (Vec::new(), Vec::new());
        for (reduction, origins) in &self.passes {
            let bound = part(bound, origins, &memory);
            if let Some(analysis) = Analysis::of(reduction, &bound)? {
                runs.push((reduction, bound, analysis));
                all_origins.push(origins.clone());
            }
        }
        let tasks: Vec<_> =
            runs.iter().map(|(reduction, bound, analysis)| self.task(reduction, bound, analysis)).collect();
        let chain = Chain::new(&tasks, self.order)?;
        drop(tasks);
        drop(runs);
        Ok(Some(MadeKernel::chain(chain, all_origins, memory)))
    }

    fn task<'a>(&self, reduction: &'a Reduction, bound: &'a BoundTensors<'a>, analysis: &'a Analysis) -> Task<'a> {
        Task { reduction, bound, space: &analysis.space, used: &analysis.used, tuning: self.tuning }
    }
}

impl Runs for ReduceKernel {
    fn run_bound(&self, _: &Stream, bound: &BoundTensors<'_>) -> Result<Option<Ran>, TeError> {
        let at = |number: Var| Ok::<_, TeError>(AtStep { number, reads: places(&self.whole, bound)? });
        let step = self.step.map(at).transpose()?;
        let cached = match self.code_cache.take(bound, step.as_ref()) {
            Some(cached) => cached,
            None => {
                let Some(made) = self.made(bound)? else { return Ok(None) };
                Cached::new(bound, step.as_ref(), made)
            }
        };
        let choice = self.code_cache.run(cached, bound, self.whole.outputs.len())?;
        Ok(Some(Ran::on_host(choice)))
    }
}

/// Whether a size is used only to address what is read.
fn only_moves_with(reduction: &Reduction, size: Var) -> bool {
    let of_domain = |domain: Domain| domain.min.uses(size) || domain.extent.uses(size);
    let of_read = |read: &Read| {
        read.guard.as_ref().is_some_and(|guard| guard.uses(size))
            || (read.affine.is_none() && read.indices.iter().any(|index| index.uses(size)))
    };
    !reduction.expressions().iter().any(|x| x.uses(size))
        && !reduction.axes.iter().filter_map(|axis| axis.domain()).any(of_domain)
        && !reduction.reads.list.iter().any(of_read)
}

/// For every read, its argument and its address, if the address is known before the run.
///
/// # Errors
/// The error of a read at indices outside of its tensor.
fn places(reduction: &Reduction, bound: &BoundTensors<'_>) -> Result<Vec<(usize, Option<u64>)>, TeError> {
    let (space, parameters) = (space(reduction, bound)?, &reduction.parameters);
    let addresses = space.reads.iter().map(|steps| steps.as_ref().map(|steps| steps.address));
    reduction
        .reads
        .list
        .iter()
        .zip(addresses)
        .map(|(read, address)| Ok((place_of(parameters, &read.tensor)?, address)))
        .collect()
}
