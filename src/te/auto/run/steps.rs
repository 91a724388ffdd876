//! Runs a scan step by step; on a GPU in one launch, if a block can do the stages of a step.

use epilogue_runtime::{DeviceTensor, Stream};

use super::cell::CellKernel;
use super::several::SeveralKernels;
use crate::te::auto::bind::arguments::BoundTensors;
use crate::te::auto::kernel::{Ran, Runs};
use crate::te::auto::split::sequence::StepTensor;
use crate::te::error::{RunError, TeError};
use crate::te::expr::expression::Expr;
use crate::te::expr::var::Var;

/// A scan that runs step by step.
pub(in crate::te::auto) struct StepKernels {
    pub(super) inputs: usize,
    pub(super) total_steps: Expr,
    pub(super) given_steps: Expr,
    pub(super) time: Var,
    pub(super) given: (SeveralKernels, Vec<StepTensor>),
    pub(super) step: (SeveralKernels, Vec<StepTensor>),
    /// The kernel for all steps at once; `None` if each step is run by itself.
    pub(super) cell: Option<CellKernel>,
}

impl Runs for StepKernels {
    fn run_bound(&self, stream: &Stream, bound: &BoundTensors<'_>) -> Result<Option<Ran>, TeError> {
        let steps =
            |x: &Expr| usize::try_from(bound.sizes.value(x)?).map_err(|_| TeError::from(RunError::IntegerRange));
        let (total, given) = (steps(&self.total_steps)?, steps(&self.given_steps)?);
        if total == 0 {
            return Ok(None);
        }
        if total < given {
            let reason = format!("the scan has {total} steps, but {given} are given");
            return Err(RunError::Failed { reason }.into());
        }
        let (inputs, states) = bound.tensors.split_at(self.inputs);
        let first = states.iter().map(|state| state.slice(0, 0..given)).collect::<Result<Vec<_>, _>>()?;
        let run = |(kernels, tensors): &(SeveralKernels, Vec<StepTensor>), rows: &[DeviceTensor], sizes| {
            let tensor = |tensor: &StepTensor| match tensor {
                StepTensor::Input(place) => inputs[*place],
                StepTensor::History(state) => states[*state],
                StepTensor::Rows(state) => &rows[*state],
            };
            kernels.run_all(stream, &BoundTensors { tensors: tensors.iter().map(tensor).collect(), sizes })
        };
        let together = match &self.cell {
            Some(cell) if total > given => Some((cell, cell.choose(bound, total - given)?)),
            _ => None,
        };
        let mut all = run(&self.given, &first, bound.sizes.clone())?;
        let reason = match together {
            Some((cell, Ok(plan))) => {
                let text = cell.run(stream, bound, &plan)?;
                return Ok(Some(Ran {
                    choice: plan.describe().into(),
                    source: [&*all.source, &text].join("\n").into(),
                }));
            }
            Some((_, Err(reason))) => format!(" ({reason})"),
            None => String::new(),
        };
        for step in given..total {
            let rows = states.iter().map(|state| row(state, step)).collect::<Result<Vec<_>, _>>()?;
            let number = i64::try_from(step).map_err(|_| RunError::IntegerRange)?;
            let of_step = run(&self.step, &rows, bound.sizes.with(self.time, number))?;
            if step + 1 == total {
                let choice = format!("{} steps, one after the other{reason}, of {}", total - given, of_step.choice);
                all = Ran { choice: choice.into(), source: [&*all.source, &*of_step.source].join("\n").into() };
            }
        }
        Ok(Some(all))
    }
}

/// One step of a state.
fn row(state: &DeviceTensor, step: usize) -> Result<DeviceTensor, TeError> {
    Ok(state.slice(0, step..step + 1)?.reshape(&state.shape()[1..])?)
}
