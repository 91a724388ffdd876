//! Runs several kernels in a row on a device, with memory for intermediate tensors.

use std::sync::Mutex;

use epilogue_runtime::{Device, Stream};

use super::reduce::{Intermediates, ReduceKernel};
use super::scan::ScanKernel;
use super::steps::StepKernels;
use crate::Argument;
use crate::sync::lock;
use crate::te::auto::bind::arguments::{Bound, bind};
use crate::te::auto::kernel::Runs;
use crate::te::auto::order::Order;
use crate::te::auto::split::by_pass::TensorOrigin;
use crate::te::auto::split::by_shape::{KernelSequence, Part};
use crate::te::error::TeError;
use crate::te::lang::tensor::Tensor;
use crate::te::lang::var::Var;

/// Scans and reductions on a device, which run one after another.
pub(in crate::te::auto) struct SeveralKernels {
    device: Device,
    parameters: Vec<Tensor>,
    /// The number of parameters that are inputs.
    inputs: usize,
    kernels: Vec<(PartKernel, Vec<TensorOrigin>)>,
    intermediates: Intermediates,
    last: Mutex<Option<(String, String)>>,
}

enum PartKernel {
    Scan(Box<ScanKernel>),
    Reduce(Box<ReduceKernel>),
    Steps(Box<StepKernels>),
}

impl SeveralKernels {
    pub(in crate::te::auto) fn new(device: &Device, sequence: KernelSequence, order: Order) -> Result<Self, TeError> {
        let KernelSequence { parts, intermediates, parameters, inputs } = sequence;
        let kernel = |(part, origins): (Part, Vec<TensorOrigin>)| {
            let kernel = match part {
                Part::Scan(recurrence) => PartKernel::Scan(Box::new(ScanKernel::new(device, *recurrence, order)?)),
                Part::Steps(steps) => PartKernel::Steps(Box::new(StepKernels::new(device, *steps, order)?)),
                Part::Reduce(reduction) => PartKernel::Reduce(Box::new(ReduceKernel::new(device, reduction, order)?)),
            };
            Ok((kernel, origins))
        };
        let kernels = parts.into_iter().map(kernel).collect::<Result<_, TeError>>()?;
        let intermediates = Intermediates::new(intermediates);
        Ok(Self { device: device.clone(), parameters, inputs, kernels, intermediates, last: Mutex::default() })
    }

    /// The same kernels, to be run for one value of a size after another.
    pub(in crate::te::auto) fn at_steps(mut self, size: Var) -> Self {
        let at_steps = |kernel: PartKernel| match kernel {
            PartKernel::Reduce(kernel) => PartKernel::Reduce(Box::new(kernel.at_steps(size))),
            other => other,
        };
        self.kernels = self.kernels.into_iter().map(|(kernel, origins)| (at_steps(kernel), origins)).collect();
        self
    }

    /// Runs on tensors that have been checked. Gives the choice in words and the text.
    pub(in crate::te::auto) fn run_bound(
        &self,
        stream: &Stream,
        bound: &Bound<'_>,
    ) -> Result<(String, String), TeError> {
        let memory = self.intermediates.take(stream, bound)?;
        let (mut choices, mut sources) = (Vec::new(), Vec::new());
        for (kernel, origins) in &self.kernels {
            let tensor = |origin: &TensorOrigin| match origin {
                TensorOrigin::Argument(place) => bound.tensors[*place],
                TensorOrigin::Intermediate(place) => &memory[*place],
            };
            let bound = Bound { tensors: origins.iter().map(tensor).collect(), sizes: bound.sizes.clone() };
            let made = match kernel {
                PartKernel::Scan(kernel) => kernel.run_bound(stream, &bound)?,
                PartKernel::Steps(kernel) => kernel.run_bound(stream, &bound)?,
                PartKernel::Reduce(kernel) => kernel.run_bound(stream, &bound)?,
            };
            if let Some((choice, source)) = made {
                choices.push(choice);
                sources.push(source);
            }
        }
        self.intermediates.put(stream, memory);
        Ok((format!("{} kernels: {}", choices.len(), choices.join("; then ")), sources.join("\n")))
    }
}

impl Runs for SeveralKernels {
    fn parameters(&self) -> &[Tensor] {
        &self.parameters
    }

    fn inputs(&self) -> usize {
        self.inputs
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn name(&self) -> String {
        self.parameters.get(self.inputs).map(Tensor::name).unwrap_or_default()
    }

    fn run_on(&self, stream: &Stream, arguments: &[&Argument<'_>]) -> Result<(), TeError> {
        let bound = bind(&self.device, &self.parameters, self.inputs, arguments)?;
        *lock(&self.last) = Some(self.run_bound(stream, &bound)?);
        Ok(())
    }

    fn last(&self) -> Option<(String, String)> {
        lock(&self.last).clone()
    }
}
