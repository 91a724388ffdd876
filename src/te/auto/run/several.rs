//! Kernels in a row on a device, with memory for what passes from one to the next.

use std::sync::Mutex;

use epilogue_runtime::{Device, Stream};

use super::reduce::{Between, ReduceKernel};
use super::scan::ScanKernel;
use super::steps::StepKernels;
use crate::Argument;
use crate::sync::lock;
use crate::te::auto::bind::arguments::{Bound, bind};
use crate::te::auto::kernel::Runs;
use crate::te::auto::order::Order;
use crate::te::auto::split::by_pass::Place;
use crate::te::auto::split::by_shape::{Part, Several};
use crate::te::error::TeError;
use crate::te::lang::tensor::Tensor;
use crate::te::lang::var::Var;

/// Scans and reductions on a device, one after the other.
pub(in crate::te::auto) struct SeveralKernels {
    device: Device,
    parameters: Vec<Tensor>,
    /// How many of the parameters are read.
    inputs: usize,
    kernels: Vec<(PartKernel, Vec<Place>)>,
    between: Between,
    last: Mutex<Option<(String, String)>>,
}

enum PartKernel {
    Scan(Box<ScanKernel>),
    Reduce(Box<ReduceKernel>),
    Steps(Box<StepKernels>),
}

impl SeveralKernels {
    pub(in crate::te::auto) fn new(device: &Device, several: Several, order: Order) -> Result<Self, TeError> {
        let Several { parts, between, parameters, inputs } = several;
        let kernel = |(part, places): (Part, Vec<Place>)| {
            let kernel = match part {
                Part::Scan(recurrence) => PartKernel::Scan(Box::new(ScanKernel::new(device, *recurrence, order)?)),
                Part::Steps(steps) => PartKernel::Steps(Box::new(StepKernels::new(device, *steps, order)?)),
                Part::Reduce(reduction) => PartKernel::Reduce(Box::new(ReduceKernel::new(device, reduction, order)?)),
            };
            Ok((kernel, places))
        };
        let kernels = parts.into_iter().map(kernel).collect::<Result<_, TeError>>()?;
        let between = Between::new(between);
        Ok(Self { device: device.clone(), parameters, inputs, kernels, between, last: Mutex::default() })
    }

    /// The same kernels, run at one value of a size after the other.
    pub(in crate::te::auto) fn at_steps(mut self, size: Var) -> Self {
        let at_steps = |kernel: PartKernel| match kernel {
            PartKernel::Reduce(kernel) => PartKernel::Reduce(Box::new(kernel.at_steps(size))),
            other => other,
        };
        self.kernels = self.kernels.into_iter().map(|(kernel, places)| (at_steps(kernel), places)).collect();
        self
    }

    /// Runs on tensors that have been checked; gives the choice in words and the text.
    pub(in crate::te::auto) fn run_bound(
        &self,
        stream: &Stream,
        bound: &Bound<'_>,
    ) -> Result<(String, String), TeError> {
        let memory = self.between.take(stream, bound)?;
        let (mut choices, mut sources) = (Vec::new(), Vec::new());
        for (kernel, places) in &self.kernels {
            let tensor = |place: &Place| match place {
                Place::Argument(place) => bound.tensors[*place],
                Place::Between(place) => &memory[*place],
            };
            let bound = Bound { tensors: places.iter().map(tensor).collect(), sizes: bound.sizes.clone() };
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
        self.between.put(stream, memory);
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
