//! Runs a scan on a device.

use epilogue_runtime::Stream;

use super::analysis::Analysis;
use super::backend::StepsOfScan;
use super::several::SeveralKernels;
use crate::te::auto::bind::arguments::BoundTensors;
use crate::te::auto::bind::iteration_space::{Space, tensor_of};
use crate::te::auto::gpu::choose::scan::MOST_REDUCED;
use crate::te::auto::kernel::{Ran, Runs};
use crate::te::auto::pattern::recurrence::Recurrence;
use crate::te::error::{RunError, TeError};

/// A scan on a device.
pub(in crate::te::auto) struct ScanKernel {
    pub(super) pattern: Recurrence,
    pub(super) steps: Box<dyn StepsOfScan>,
    /// The outputs of reduced columns if there are no columns, and the parameters that they take.
    pub(super) over_nothing: Option<(Box<dyn Runs>, Vec<usize>)>,
    /// Kernels for more columns than one kernel can reduce, and which parameters they take.
    pub(super) apart: Option<(SeveralKernels, Vec<usize>)>,
}

impl ScanKernel {
    /// Runs without columns: outputs that reduce the columns have values nevertheless.
    fn run_over_nothing(&self, stream: &Stream, bound: &BoundTensors<'_>) -> Result<Option<Ran>, TeError> {
        let Some((kernel, places)) = &self.over_nothing else { return Ok(None) };
        kernel.run_bound(stream, &of_places(bound, places))
    }

    fn space(&self, bound: &BoundTensors<'_>) -> Result<Space, TeError> {
        let pattern = &self.pattern;
        let mut space = Space::of(&pattern.axes, &pattern.reads.list, &pattern.parameters, bound)?;
        let time = pattern.outer();
        for output in &pattern.outputs {
            let tensor = tensor_of(&pattern.parameters, bound, &output.tensor)?;
            space.push_output(tensor, &output.axes);
            let computed = space.extents[time];
            let Some(steps) = space.outputs.last_mut() else { continue };
            // From the first element to that of the first computed step.
            let mut skip = pattern.given_steps * steps.strides[time];
            if output.reversed {
                // The computed steps fill everything except the last `given_steps` places.
                skip = (computed - 1) * steps.strides[time];
                steps.strides[time] = -steps.strides[time];
            }
            steps.address = steps.address.wrapping_add_signed(skip * steps.size as i64);
        }
        Ok(space)
    }
}

impl Runs for ScanKernel {
    fn run_bound(&self, stream: &Stream, bound: &BoundTensors<'_>) -> Result<Option<Ran>, TeError> {
        let pattern = &self.pattern;
        if let Some(ran) = self.steps.again(pattern, bound)? {
            return Ok(Some(ran));
        }
        let total = bound.sizes.value(&pattern.total_steps)?;
        if total == 0 {
            return Ok(None);
        }
        if total < pattern.given_steps {
            let reason = format!("the scan has {total} steps, but {} are given", pattern.given_steps);
            return Err(RunError::Failed { reason }.into());
        }
        let space = self.space(bound)?;
        if space.extents[..pattern.outer()].contains(&0) {
            return self.run_over_nothing(stream, bound);
        }
        if let (Some(reduction), Some((several, places))) = (&pattern.column_reduction, &self.apart) {
            let reduced = reduction.axes.iter().fold(1i64, |all, axis| all.saturating_mul(space.extents[*axis]));
            if reduced > MOST_REDUCED {
                return several.run_bound(stream, &of_places(bound, places));
            }
        }
        let (axes, reads) = (&pattern.axes, &pattern.reads.list);
        let analysis = Analysis::of_space(space, axes, reads, &pattern.expressions(), bound)?;
        self.steps.run(pattern, stream, bound, &analysis).map(Some)
    }
}

/// Some of a run's tensors.
fn of_places<'a>(bound: &BoundTensors<'a>, places: &[usize]) -> BoundTensors<'a> {
    BoundTensors { tensors: places.iter().map(|place| bound.tensors[*place]).collect(), sizes: bound.sizes.clone() }
}
