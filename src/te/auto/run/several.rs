//! Runs several kernels in a row on a device, with memory for intermediate tensors.

use epilogue_runtime::Stream;

use super::intermediates::{Intermediates, part};
use crate::te::auto::bind::arguments::BoundTensors;
use crate::te::auto::kernel::{Ran, Runs};
use crate::te::auto::split::by_pass::TensorOrigin;
use crate::te::error::TeError;

/// Scans and reductions on a device, which run one after another.
pub(in crate::te::auto) struct SeveralKernels {
    pub(super) kernels: Vec<(Box<dyn Runs>, Vec<TensorOrigin>)>,
    pub(super) intermediates: Intermediates,
}

impl SeveralKernels {
    /// Runs on tensors that have been checked.
    pub(super) fn run_all(&self, stream: &Stream, bound: &BoundTensors<'_>) -> Result<Ran, TeError> {
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
    fn run_bound(&self, stream: &Stream, bound: &BoundTensors<'_>) -> Result<Option<Ran>, TeError> {
        self.run_all(stream, bound).map(Some)
    }
}
