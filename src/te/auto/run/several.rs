//! Runs several kernels in a row on a device, with memory for intermediate tensors.

use epilogue_runtime::{Device, Stream};

use super::reduce::{Intermediates, ReduceKernel};
use super::scan::ScanKernel;
use super::steps::StepKernels;
use crate::te::auto::bind::arguments::Bound;
use crate::te::auto::kernel::{Ran, Runs};
use crate::te::auto::order::Order;
use crate::te::auto::split::by_pass::TensorOrigin;
use crate::te::auto::split::by_shape::{KernelSequence, Part};
use crate::te::error::TeError;
use crate::te::lang::var::Var;

/// Scans and reductions on a device, which run one after another.
pub(in crate::te::auto) struct SeveralKernels {
    kernels: Vec<(PartKernel, Vec<TensorOrigin>)>,
    intermediates: Intermediates,
}

enum PartKernel {
    Scan(Box<ScanKernel>),
    Reduce(Box<ReduceKernel>),
    Steps(Box<StepKernels>),
}

impl PartKernel {
    fn as_runs(&self) -> &dyn Runs {
        match self {
            Self::Scan(kernel) => &**kernel,
            Self::Reduce(kernel) => &**kernel,
            Self::Steps(kernel) => &**kernel,
        }
    }
}

impl SeveralKernels {
    pub(in crate::te::auto) fn new(device: &Device, sequence: KernelSequence, order: Order) -> Result<Self, TeError> {
        let KernelSequence { parts, intermediates, .. } = sequence;
        let kernel = |(part, origins): (Part, Vec<TensorOrigin>)| {
            let kernel = match part {
                Part::Scan(recurrence) => PartKernel::Scan(Box::new(ScanKernel::new(device, *recurrence, order)?)),
                Part::Steps(steps) => PartKernel::Steps(Box::new(StepKernels::new(device, *steps, order)?)),
                Part::Reduce(reduction) => PartKernel::Reduce(Box::new(ReduceKernel::new(device, reduction, order)?)),
            };
            Ok((kernel, origins))
        };
        let kernels = parts.into_iter().map(kernel).collect::<Result<_, TeError>>()?;
        Ok(Self { kernels, intermediates: Intermediates::new(intermediates) })
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

    /// Runs on tensors that have been checked.
    pub(in crate::te::auto) fn run_all(&self, stream: &Stream, bound: &Bound<'_>) -> Result<Ran, TeError> {
        let memory = self.intermediates.take(stream, bound)?;
        let mut all = Vec::with_capacity(self.kernels.len());
        for (kernel, origins) in &self.kernels {
            let tensor = |origin: &TensorOrigin| match origin {
                TensorOrigin::Argument(place) => bound.tensors[*place],
                TensorOrigin::Intermediate(place) => &memory[*place],
            };
            let bound = Bound { tensors: origins.iter().map(tensor).collect(), sizes: bound.sizes.clone() };
            all.extend(kernel.as_runs().run_bound(stream, &bound)?);
        }
        self.intermediates.put(stream, memory);
        Ok(Ran::one_after_another(&all))
    }
}

impl Runs for SeveralKernels {
    fn run_bound(&self, stream: &Stream, bound: &Bound<'_>) -> Result<Option<Ran>, TeError> {
        self.run_all(stream, bound).map(Some)
    }
}
