//! Runs maps and reductions on a GPU, in one kernel or several.

use epilogue_runtime::{Device, Stream};

use super::launch::OneLaunch;
use crate::te::auto::bind::arguments::BoundTensors;
use crate::te::auto::kernel::{Ran, Runs};
use crate::te::auto::order::Order;
use crate::te::auto::pattern::fused::Reduction;
use crate::te::auto::run::intermediates::{Intermediates, part};
use crate::te::auto::split::by_pass::{PassKernel, PassSequence, TensorOrigin};
use crate::te::error::TeError;

/// Maps and reductions on a GPU.
pub(super) struct ReduceKernel {
    device: Device,
    whole: OneLaunch,
    /// The split into several kernels; empty if that is never better.
    steps: Vec<(OneLaunch, Vec<TensorOrigin>)>,
    intermediates: Intermediates,
}

impl ReduceKernel {
    pub(super) fn new(device: &Device, whole: Reduction, order: Order) -> Result<Self, TeError> {
        let in_steps = whole.comes_back() && order == Order::Device;
        let sequence = in_steps.then(|| PassSequence::of(&whole, true)).transpose()?;
        let PassSequence { steps, intermediates } = sequence.unwrap_or_default();
        let step = |step: PassKernel| {
            // Blocks may share an output.
            let reduction = Reduction { in_one_block: false, ..step.reduction };
            (OneLaunch::new(device, reduction, order), step.origins)
        };
        Ok(Self {
            device: device.clone(),
            whole: OneLaunch::new(device, whole, order),
            steps: steps.into_iter().map(step).collect(),
            intermediates: Intermediates::new(intermediates),
        })
    }

    fn run_steps(&self, stream: &Stream, bound: &BoundTensors<'_>) -> Result<Ran, TeError> {
        let memory = self.intermediates.take(stream, bound)?;
        let mut runs = Vec::with_capacity(self.steps.len());
        for (kernel, origins) in &self.steps {
            let bound = part(bound, origins, &memory);
            if let Some(planned) = kernel.plan(&bound)? {
                runs.push((kernel, bound, planned));
            }
        }
        let run = |(kernel, bound, planned): &(&OneLaunch, BoundTensors<'_>, _)| kernel.run(stream, bound, planned);
        let all = runs.iter().map(run).collect::<Result<Vec<_>, _>>()?;
        drop(runs);
        self.intermediates.put(stream, memory);
        Ok(Ran::one_after_another(&all))
    }
}

impl Runs for ReduceKernel {
    fn run_bound(&self, stream: &Stream, bound: &BoundTensors<'_>) -> Result<Option<Ran>, TeError> {
        let Some(planned) = self.whole.plan(bound)? else { return Ok(None) };
        let in_steps = !self.steps.is_empty() && planned.is_starved(&self.device);
        Ok(Some(if in_steps { self.run_steps(stream, bound)? } else { self.whole.run(stream, bound, &planned)? }))
    }
}
