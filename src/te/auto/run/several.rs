//! Runs several kernels in a row on a device, with memory for intermediate tensors.

use epilogue_runtime::Stream;

use super::backend::Backend;
use super::intermediates::{Intermediates, part};
use super::scan::ScanKernel;
use super::steps::StepKernels;
use crate::te::auto::bind::arguments::Bound;
use crate::te::auto::kernel::{Ran, Runs};
use crate::te::auto::order::Order;
use crate::te::auto::split::by_pass::TensorOrigin;
use crate::te::auto::split::by_shape::{KernelSequence, Part};
use crate::te::error::TeError;
use crate::te::expr::var::Var;

/// Scans and reductions on a device, which run one after another.
pub(in crate::te::auto) struct SeveralKernels {
    kernels: Vec<(Box<dyn Runs>, Vec<TensorOrigin>)>,
    intermediates: Intermediates,
}

impl SeveralKernels {
    /// `step` is a size for whose values the kernels are run one after another.
    pub(in crate::te::auto) fn new(
        backend: &dyn Backend,
        sequence: KernelSequence,
        order: Order,
        step: Option<Var>,
    ) -> Result<Self, TeError> {
        let KernelSequence { parts, intermediates, .. } = sequence;
        let kernel = |(part, origins): (Part, Vec<TensorOrigin>)| {
            let kernel: Box<dyn Runs> = match part {
                Part::Scan(recurrence) => Box::new(ScanKernel::new(backend, *recurrence, order)?),
                Part::Steps(steps) => Box::new(StepKernels::new(backend, *steps, order)?),
                Part::Reduce(reduction) => backend.reduction(reduction, order, step)?,
            };
            Ok((kernel, origins))
        };
        let kernels = parts.into_iter().map(kernel).collect::<Result<_, TeError>>()?;
        Ok(Self { kernels, intermediates: Intermediates::new(intermediates) })
    }

    /// Runs on tensors that have been checked.
    pub(in crate::te::auto) fn run_all(&self, stream: &Stream, bound: &Bound<'_>) -> Result<Ran, TeError> {
        let memory = self.intermediates.take(stream, bound)?;
        let mut all = Vec::with_capacity(self.kernels.len());
        for (kernel, origins) in &self.kernels {
            all.extend(kernel.run_bound(stream, &part(bound, origins, &memory))?);
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
