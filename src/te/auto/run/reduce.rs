//! Reductions and maps on a device: one kernel, or several in a row.

use std::sync::Mutex;

use epilogue_runtime::{Device, DeviceTensor, Stream};

use super::one::{OneKernel, Prepared};
use crate::Argument;
use crate::pool::Pool;
use crate::sync::lock;
use crate::te::auto::bind::arguments::{Bound, bind};
use crate::te::auto::cpu::made::{Chain, Kept, Made, Step as AtStep};
use crate::te::auto::kernel::Runs;
use crate::te::auto::order::Order;
use crate::te::auto::pattern::fused::Reduction;
use crate::te::auto::split::by_pass::{Place, Sequence, Step};
use crate::te::error::TeError;
use crate::te::lang::tensor::Tensor;
use crate::te::lang::var::Var;

/// A step, its tensors and sizes, and what its run has been found to be.
type PreparedStep<'a> = (&'a OneKernel, Bound<'a>, Prepared);

/// Reductions on a device.
pub(in crate::te::auto) struct ReduceKernel {
    device: Device,
    whole: OneKernel,
    /// The same in several kernels; none where that is never better.
    steps: Vec<(OneKernel, Vec<Place>)>,
    between: Between,
    /// What the last run on the CPU compiled.
    kept: Kept,
    /// A size that differs from run to run and only moves what is read.
    step: Option<Var>,
    /// What the last run chose, and its text.
    last: Mutex<Option<(String, String)>>,
}

impl ReduceKernel {
    pub(in crate::te::auto) fn new(device: &Device, whole: Reduction, order: Order) -> Result<Self, TeError> {
        let is_cpu = device.arch().is_none();
        let in_steps = if is_cpu { whole.passes.len() > 1 } else { whole.comes_back() && order == Order::Device };
        let sequence = in_steps.then(|| Sequence::of(&whole, !is_cpu)).transpose()?;
        let Sequence { steps, between } = sequence.unwrap_or_default();
        let step = |step: Step| {
            // The tree is the one that a single kernel has.
            let reduction = Reduction { in_one_block: order == Order::Shape, ..step.reduction };
            (OneKernel::new(device, reduction, order), step.places)
        };
        Ok(Self {
            device: device.clone(),
            whole: OneKernel::new(device, whole, order),
            steps: steps.into_iter().map(step).collect(),
            between: Between::new(between),
            kept: Kept::default(),
            step: None,
            last: Mutex::default(),
        })
    }

    /// The same kernel, run at one value of a size after the other: what is compiled for one serves all, where the size only
    /// moves what is read.
    pub(in crate::te::auto) fn at_steps(self, size: Var) -> Self {
        Self { step: Some(size).filter(|size| self.whole.only_moves_with(*size)), ..self }
    }

    fn run_steps(&self, stream: &Stream, bound: &Bound<'_>) -> Result<(String, String), TeError> {
        let memory = self.between.take(stream, bound)?;
        let runs = self.prepared(bound, &memory)?;
        let (mut choices, mut sources) = (Vec::new(), Vec::new());
        for (kernel, bound, prepared) in &runs {
            let (choice, source) = kernel.run(stream, bound, prepared)?;
            choices.push(choice);
            sources.push(source);
        }
        drop(runs);
        self.between.put(stream, memory);
        Ok((format!("{} kernels: {}", choices.len(), choices.join("; then ")), sources.join("\n")))
    }

    /// The steps that have something to do.
    fn prepared<'a>(&'a self, bound: &Bound<'a>, memory: &'a [DeviceTensor]) -> Result<Vec<PreparedStep<'a>>, TeError> {
        let mut runs = Vec::with_capacity(self.steps.len());
        for (kernel, places) in &self.steps {
            let tensor = |place: &Place| match place {
                Place::Argument(place) => bound.tensors[*place],
                Place::Between(place) => &memory[*place],
            };
            let bound = Bound { tensors: places.iter().map(tensor).collect(), sizes: bound.sizes.clone() };
            if let Some(prepared) = kernel.prepare(&bound)? {
                runs.push((kernel, bound, prepared));
            }
        }
        Ok(runs)
    }

    /// Runs on the CPU: what the last run compiled, where shapes are the same.
    fn run_on_host(&self, bound: &Bound<'_>) -> Result<Option<(String, String)>, TeError> {
        let at = |number: Var| Ok::<_, TeError>(AtStep { number, reads: self.whole.places(bound)? });
        let step = self.step.map(at).transpose()?;
        let (mut made, choice) = match self.kept.take(bound, step.as_ref()) {
            Some(kept) => kept,
            None => {
                let Some(made) = self.made(bound)? else { return Ok(None) };
                let choice = made.describe();
                (made, choice)
            }
        };
        made.run(bound, self.whole.reduction.outputs.len())?;
        self.kept.put(bound, step.as_ref(), made, choice.clone());
        Ok(Some((choice, String::new())))
    }

    fn made(&self, bound: &Bound<'_>) -> Result<Option<Made>, TeError> {
        let Some(prepared) = self.whole.prepare(bound)? else { return Ok(None) };
        if self.steps.is_empty() {
            return self.whole.made(bound, &prepared).map(Some);
        }
        let memory = self.between.made(&self.device.default_stream(), bound)?;
        let runs = self.prepared(bound, &memory)?;
        let tasks: Vec<_> = runs.iter().map(|(kernel, bound, prepared)| kernel.on_host(bound, prepared)).collect();
        let places = self.steps.iter().filter(|(kernel, _)| runs.iter().any(|(run, ..)| std::ptr::eq(*run, kernel)));
        let places = places.map(|(_, places)| places.clone()).collect();
        let chain = Chain::new(&tasks, self.whole.order())?;
        drop(tasks);
        drop(runs);
        Ok(Some(Made::chain(chain, places, memory)))
    }

    /// Runs on tensors that have been checked; gives the choice in words and the text, unless there is nothing to do.
    pub(in crate::te::auto) fn run_bound(
        &self,
        stream: &Stream,
        bound: &Bound<'_>,
    ) -> Result<Option<(String, String)>, TeError> {
        if self.device.arch().is_none() {
            return self.run_on_host(bound);
        }
        let Some(prepared) = self.whole.prepare(bound)? else { return Ok(None) };
        let in_steps = !self.steps.is_empty() && prepared.is_starved(&self.device);
        Ok(Some(if in_steps { self.run_steps(stream, bound)? } else { self.whole.run(stream, bound, &prepared)? }))
    }
}

/// What lies in memory between kernels.
pub(in crate::te::auto) struct Between {
    tensors: Vec<Tensor>,
    memory: Pool<Vec<DeviceTensor>>,
}

impl Between {
    pub(in crate::te::auto) fn new(tensors: Vec<Tensor>) -> Self {
        Self { tensors, memory: Pool::default() }
    }

    /// Memory for a run, the last one's where that suffices.
    pub(in crate::te::auto) fn take(&self, stream: &Stream, bound: &Bound<'_>) -> Result<Vec<DeviceTensor>, TeError> {
        let shapes: Vec<Vec<usize>> =
            self.tensors.iter().map(|tensor| extents(tensor, bound)).collect::<Result<_, _>>()?;
        let fits = |kept: &Vec<DeviceTensor>| kept.iter().zip(&shapes).all(|(tensor, shape)| tensor.shape() == shape);
        match self.memory.take(stream, fits) {
            Some(memory) => Ok(memory),
            None => self.made(stream, bound),
        }
    }

    /// Memory for a run that keeps it.
    fn made(&self, stream: &Stream, bound: &Bound<'_>) -> Result<Vec<DeviceTensor>, TeError> {
        let allocate = |tensor: &Tensor| Ok(stream.zeros_of(tensor.dtype().in_memory(), extents(tensor, bound)?)?);
        self.tensors.iter().map(allocate).collect()
    }

    pub(in crate::te::auto) fn put(&self, stream: &Stream, memory: Vec<DeviceTensor>) {
        self.memory.put(stream, memory);
    }
}

fn extents(tensor: &Tensor, bound: &Bound<'_>) -> Result<Vec<usize>, TeError> {
    let extent = |x| usize::try_from(bound.sizes.value(x)?).map_err(|_| TeError::IntegerRange);
    tensor.shape().iter().map(extent).collect()
}

impl Runs for ReduceKernel {
    fn parameters(&self) -> &[Tensor] {
        &self.whole.reduction.parameters
    }

    fn inputs(&self) -> usize {
        self.whole.reduction.parameters.len() - self.whole.reduction.outputs.len()
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn name(&self) -> String {
        self.whole.reduction.outputs[0].tensor.name()
    }

    fn run_on(&self, stream: &Stream, arguments: &[&Argument<'_>]) -> Result<(), TeError> {
        let reduction = &self.whole.reduction;
        let bound = bind(&self.device, &reduction.parameters, self.inputs(), arguments)?;
        let Some(made) = self.run_bound(stream, &bound)? else { return Ok(()) };
        *lock(&self.last) = Some(made);
        Ok(())
    }

    fn last(&self) -> Option<(String, String)> {
        lock(&self.last).clone()
    }
}
