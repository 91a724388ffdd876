//! Makes the kernels of a sequence. A scan may need a sequence of its own: for the rows of a step, or for outputs that
//! reduce its columns.

use super::backend::Backend;
use super::intermediates::Intermediates;
use super::scan::ScanKernel;
use super::several::SeveralKernels;
use super::steps::StepKernels;
use crate::te::auto::bind::iteration_space::place_of;
use crate::te::auto::kernel::Runs;
use crate::te::auto::order::Order;
use crate::te::auto::pattern::recurrence::Recurrence;
use crate::te::auto::split::by_pass::TensorOrigin;
use crate::te::auto::split::sequence::{KernelPart, KernelSequence, ScanStage, Stepwise};
use crate::te::error::TeError;
use crate::te::expr::tensor::Tensor;
use crate::te::expr::var::Var;

/// Scans and reductions that run one after another. `step` is a size for whose values the kernels are run one after
/// another.
pub(in crate::te::auto) fn several(
    backend: &dyn Backend,
    sequence: KernelSequence,
    order: Order,
    step: Option<Var>,
) -> Result<SeveralKernels, TeError> {
    let KernelSequence { parts, intermediates, .. } = sequence;
    let kernel = |(part, origins): (KernelPart, Vec<TensorOrigin>)| {
        let kernel: Box<dyn Runs> = match part {
            KernelPart::Scan(recurrence) => Box::new(scan(backend, *recurrence, order)?),
            KernelPart::Steps(stepwise) => Box::new(steps(backend, *stepwise, order)?),
            KernelPart::Reduce(reduction) => backend.reduction(reduction, order, step)?,
            KernelPart::ByData(range) => backend.by_data(&range)?,
        };
        Ok((kernel, origins))
    };
    let kernels = parts.into_iter().map(kernel).collect::<Result<_, TeError>>()?;
    Ok(SeveralKernels { kernels, intermediates: Intermediates::new(intermediates) })
}

/// A scan whose columns don't read each other.
pub(in crate::te::auto) fn scan(
    backend: &dyn Backend,
    pattern: Recurrence,
    order: Order,
) -> Result<ScanKernel, TeError> {
    let over_nothing = match pattern.over_nothing()? {
        Some((map, places)) => Some((backend.reduction(map, order, None)?, places)),
        None => None,
    };
    let apart = apart(backend, &pattern, order)?;
    Ok(ScanKernel { steps: backend.scan(order), pattern, over_nothing, apart })
}

/// The kernels of a scan whose columns are reduced: first the scan, then the outputs that are computed from its states.
fn apart(
    backend: &dyn Backend,
    pattern: &Recurrence,
    order: Order,
) -> Result<Option<(SeveralKernels, Vec<usize>)>, TeError> {
    if pattern.column_reduction.is_none() {
        return Ok(None);
    }
    let outputs: Vec<Tensor> = pattern.outputs.iter().map(|output| output.tensor.clone()).collect();
    let Some(sequence) = KernelSequence::of(&outputs)? else { return Ok(None) };
    let place = |tensor: &Tensor| place_of(&pattern.parameters, tensor);
    let places = sequence.parameters.iter().map(place).collect::<Result<_, _>>()?;
    Ok(Some((several(backend, sequence, order, None)?, places)))
}

/// A scan that runs step by step.
fn steps(backend: &dyn Backend, pattern: Stepwise, order: Order) -> Result<StepKernels, TeError> {
    let Stepwise { inputs, total_steps, given_steps, time, given, step, cell, .. } = pattern;
    let cell = cell.and_then(|cell| backend.cell(cell, order));
    let build = |stage: ScanStage| -> Result<_, TeError> {
        Ok((several(backend, stage.kernels, order, Some(time))?, stage.tensors))
    };
    Ok(StepKernels { inputs, total_steps, given_steps, time, given: build(given)?, step: build(step)?, cell })
}
