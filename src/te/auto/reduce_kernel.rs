//! Reductions and maps on a device: one kernel, or several in a row.

use std::sync::Mutex;

use epilogue_runtime::{Device, DeviceTensor, Stream};

use super::binding::{Bound, bind};
use super::kernel::OneKernel;
use super::reduction::Reduction;
use super::sequence::{Place, Sequence};
use super::{Order, Runs};
use crate::Argument;
use crate::te::dtype::DType;
use crate::te::error::TeError;
use crate::te::pool::{Pool, lock};
use crate::te::tensor::Tensor;

/// Reductions on a device.
pub(super) struct ReduceKernel {
    device: Device,
    whole: OneKernel,
    /// The same in several kernels; none where that is never better.
    steps: Vec<(OneKernel, Vec<Place>)>,
    /// What lies in memory between steps.
    between: Vec<Tensor>,
    memory: Pool<Vec<DeviceTensor>>,
    /// What the last run chose, and its text.
    last: Mutex<Option<(String, String)>>,
}

impl ReduceKernel {
    pub(super) fn new(device: &Device, whole: Reduction, order: Order) -> Result<Self, TeError> {
        let is_cpu = device.arch().is_none();
        let in_steps = if is_cpu { whole.passes.len() > 1 } else { whole.comes_back() && order == Order::Device };
        let sequence = in_steps.then(|| Sequence::of(&whole, !is_cpu)).transpose()?;
        let Sequence { steps, between } = sequence.unwrap_or_default();
        let step = |step: super::sequence::Step| {
            // The tree is the one that a single kernel has.
            let reduction = Reduction { in_one_block: order == Order::Shape, ..step.reduction };
            (OneKernel::new(device, reduction, order), step.places)
        };
        Ok(Self {
            device: device.clone(),
            whole: OneKernel::new(device, whole, order),
            steps: steps.into_iter().map(step).collect(),
            between,
            memory: Pool::default(),
            last: Mutex::default(),
        })
    }

    fn run_steps(&self, stream: &Stream, bound: &Bound<'_>) -> Result<(String, String), TeError> {
        let shapes: Vec<Vec<usize>> =
            self.between.iter().map(|tensor| extents(tensor, bound)).collect::<Result<_, _>>()?;
        let fits = |kept: &Vec<DeviceTensor>| kept.iter().zip(&shapes).all(|(tensor, shape)| tensor.shape() == shape);
        let memory = match self.memory.take(stream, fits) {
            Some(memory) => memory,
            None => self.allocate(&shapes)?,
        };
        let (mut choices, mut sources) = (Vec::new(), Vec::new());
        for (kernel, places) in &self.steps {
            let tensor = |place: &Place| match place {
                Place::Argument(place) => bound.tensors[*place],
                Place::Between(place) => &memory[*place],
            };
            let bound = Bound { tensors: places.iter().map(tensor).collect(), sizes: bound.sizes.clone() };
            let Some(prepared) = kernel.prepare(&bound)? else { continue };
            let (choice, source) = kernel.run(stream, &bound, &prepared)?;
            choices.push(choice);
            sources.push(source);
        }
        self.memory.put(stream, memory);
        Ok((format!("{} kernels: {}", choices.len(), choices.join("; then ")), sources.join("\n")))
    }

    fn allocate(&self, shapes: &[Vec<usize>]) -> Result<Vec<DeviceTensor>, TeError> {
        let allocate = |(tensor, shape): (&Tensor, &Vec<usize>)| match tensor.dtype() {
            DType::Number(element) => Ok(self.device.zeros_of(element, shape)?),
            DType::Bool => Err(super::refused("memory of truth values")),
        };
        self.between.iter().zip(shapes).map(allocate).collect()
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

    fn device(&self) -> &Device {
        &self.device
    }

    fn name(&self) -> String {
        self.whole.reduction.outputs[0].tensor.name()
    }

    fn run_on(&self, stream: &Stream, arguments: &[Argument<'_>]) -> Result<(), TeError> {
        let reduction = &self.whole.reduction;
        let inputs = reduction.parameters.len() - reduction.outputs.len();
        let bound = bind(&self.device, &reduction.parameters, inputs, arguments)?;
        let Some(prepared) = self.whole.prepare(&bound)? else { return Ok(()) };
        let in_steps = !self.steps.is_empty() && (self.device.arch().is_none() || prepared.is_starved(&self.device));
        let made =
            if in_steps { self.run_steps(stream, &bound)? } else { self.whole.run(stream, &bound, &prepared)? };
        *lock(&self.last) = Some(made);
        Ok(())
    }

    fn last(&self) -> Option<(String, String)> {
        lock(&self.last).clone()
    }
}
