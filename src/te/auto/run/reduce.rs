//! Runs reductions and maps on a device, in one kernel or several.

use std::sync::Arc;

use epilogue_runtime::{Device, DeviceTensor, Stream};

use super::one::{OneKernel, Prepared};
use crate::pool::Pool;
use crate::te::auto::bind::arguments::Bound;
use crate::te::auto::cpu::made::{Cached, Chain, CodeCache, Made, Step as AtStep};
use crate::te::auto::kernel::{Ran, Runs};
use crate::te::auto::order::Order;
use crate::te::auto::pattern::fused::Reduction;
use crate::te::auto::split::by_pass::{PassSequence, Step, TensorOrigin};
use crate::te::error::{RunError, TeError};
use crate::te::lang::tensor::Tensor;
use crate::te::lang::var::Var;

/// A step, its tensors and sizes, and the analysis of its run.
type PreparedStep<'a> = (&'a OneKernel, Bound<'a>, Prepared);

/// Reductions on a device.
pub(in crate::te::auto) struct ReduceKernel {
    device: Device,
    whole: OneKernel,
    /// The same in several kernels; empty if that is never better.
    steps: Vec<(OneKernel, Vec<TensorOrigin>)>,
    intermediates: Intermediates,
    /// The code of the last run on the CPU.
    code_cache: CodeCache,
    /// A size that differs from run to run, and only moves what is read.
    step: Option<Var>,
}

impl ReduceKernel {
    pub(in crate::te::auto) fn new(device: &Device, whole: Reduction, order: Order) -> Result<Self, TeError> {
        let is_cpu = device.arch().is_none();
        let in_steps = if is_cpu { whole.passes.len() > 1 } else { whole.comes_back() && order == Order::Device };
        let sequence = in_steps.then(|| PassSequence::of(&whole, !is_cpu)).transpose()?;
        let PassSequence { steps, intermediates } = sequence.unwrap_or_default();
        let step = |step: Step| {
            // The tree is the same as that of a single kernel.
            let reduction = Reduction { in_one_block: order == Order::Shape, ..step.reduction };
            (OneKernel::new(device, reduction, order), step.origins)
        };
        Ok(Self {
            device: device.clone(),
            whole: OneKernel::new(device, whole, order),
            steps: steps.into_iter().map(step).collect(),
            intermediates: Intermediates::new(intermediates),
            code_cache: CodeCache::default(),
            step: None,
        })
    }

    /// The same kernel, to be run for one value of a size after another. If the size only moves what is read, code
    /// compiled for one value serves all.
    pub(in crate::te::auto) fn at_steps(self, size: Var) -> Self {
        Self { step: Some(size).filter(|size| self.whole.only_moves_with(*size)), ..self }
    }

    fn run_steps(&self, stream: &Stream, bound: &Bound<'_>) -> Result<Ran, TeError> {
        let memory = self.intermediates.take(stream, bound)?;
        let runs = self.prepared(bound, &memory)?;
        let run = |(kernel, bound, prepared): &PreparedStep<'_>| kernel.run(stream, bound, prepared);
        let all = runs.iter().map(run).collect::<Result<Vec<_>, _>>()?;
        drop(runs);
        self.intermediates.put(stream, memory);
        Ok(Ran::one_after_another(&all))
    }

    /// The steps that have something to do, analysed.
    fn prepared<'a>(&'a self, bound: &Bound<'a>, memory: &'a [DeviceTensor]) -> Result<Vec<PreparedStep<'a>>, TeError> {
        let mut runs = Vec::with_capacity(self.steps.len());
        for (kernel, origins) in &self.steps {
            let tensor = |origin: &TensorOrigin| match origin {
                TensorOrigin::Argument(place) => bound.tensors[*place],
                TensorOrigin::Intermediate(place) => &memory[*place],
            };
            let bound = Bound { tensors: origins.iter().map(tensor).collect(), sizes: bound.sizes.clone() };
            if let Some(prepared) = kernel.prepare(&bound)? {
                runs.push((kernel, bound, prepared));
            }
        }
        Ok(runs)
    }

    /// Runs on the CPU, with the code of the last run if the shapes are the same.
    fn run_on_host(&self, bound: &Bound<'_>) -> Result<Option<Ran>, TeError> {
        let at = |number: Var| Ok::<_, TeError>(AtStep { number, reads: self.whole.places(bound)? });
        let step = self.step.map(at).transpose()?;
        let cached = match self.code_cache.take(bound, step.as_ref()) {
            Some(cached) => cached,
            None => {
                let Some(made) = self.made(bound)? else { return Ok(None) };
                Cached::new(bound, step.as_ref(), made)
            }
        };
        let choice = self.code_cache.run(cached, bound, self.whole.reduction.outputs.len())?;
        Ok(Some(Ran::on_host(choice)))
    }

    fn made(&self, bound: &Bound<'_>) -> Result<Option<Made>, TeError> {
        let Some(prepared) = self.whole.prepare(bound)? else { return Ok(None) };
        if self.steps.is_empty() {
            return self.whole.made(bound, &prepared).map(Some);
        }
        let memory = self.intermediates.made(&self.device.default_stream(), bound)?;
        let runs = self.prepared(bound, &memory)?;
        let tasks: Vec<_> = runs.iter().map(|(kernel, bound, prepared)| kernel.on_host(bound, prepared)).collect();
        let origins = self.steps.iter().filter(|(kernel, _)| runs.iter().any(|(run, ..)| std::ptr::eq(*run, kernel)));
        let origins = origins.map(|(_, origins)| origins.clone()).collect();
        let chain = Chain::new(&tasks, self.whole.order())?;
        drop(tasks);
        drop(runs);
        Ok(Some(Made::chain(chain, origins, memory)))
    }
}

impl Runs for ReduceKernel {
    fn run_bound(&self, stream: &Stream, bound: &Bound<'_>) -> Result<Option<Ran>, TeError> {
        if self.device.arch().is_none() {
            return self.run_on_host(bound);
        }
        let Some(prepared) = self.whole.prepare(bound)? else { return Ok(None) };
        let in_steps = !self.steps.is_empty() && prepared.is_starved(&self.device);
        Ok(Some(if in_steps { self.run_steps(stream, bound)? } else { self.whole.run(stream, bound, &prepared)? }))
    }
}

/// Memory for intermediate tensors between kernels.
pub(in crate::te::auto) struct Intermediates {
    tensors: Vec<Tensor>,
    memory: Pool<Vec<DeviceTensor>>,
}

impl Intermediates {
    pub(in crate::te::auto) fn new(tensors: Vec<Tensor>) -> Self {
        Self { tensors, memory: Pool::default() }
    }

    /// Memory for a run: that of the last run if it is large enough.
    pub(in crate::te::auto) fn take(
        &self,
        stream: &Stream,
        bound: &Bound<'_>,
    ) -> Result<Arc<Vec<DeviceTensor>>, TeError> {
        let shapes: Vec<Vec<usize>> =
            self.tensors.iter().map(|tensor| extents(tensor, bound)).collect::<Result<_, _>>()?;
        let fits = |kept: &Vec<DeviceTensor>| kept.iter().zip(&shapes).all(|(tensor, shape)| tensor.shape() == shape);
        match self.memory.take(stream, fits) {
            Some(memory) => Ok(memory),
            None => Ok(Arc::new(self.made(stream, bound)?)),
        }
    }

    /// New memory, for a run that keeps it.
    fn made(&self, stream: &Stream, bound: &Bound<'_>) -> Result<Vec<DeviceTensor>, TeError> {
        let allocate = |tensor: &Tensor| Ok(stream.zeros_of(tensor.dtype().in_memory(), extents(tensor, bound)?)?);
        self.tensors.iter().map(allocate).collect()
    }

    pub(in crate::te::auto) fn put(&self, stream: &Stream, memory: Arc<Vec<DeviceTensor>>) {
        self.memory.put(stream, memory);
    }
}

fn extents(tensor: &Tensor, bound: &Bound<'_>) -> Result<Vec<usize>, TeError> {
    let extent = |x| usize::try_from(bound.sizes.value(x)?).map_err(|_| RunError::IntegerRange.into());
    tensor.shape().iter().map(extent).collect()
}
