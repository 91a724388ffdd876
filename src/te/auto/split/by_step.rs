//! Splits scans by steps, if their columns read each other's state: recurrent cells whose gates are products of the
//! state and a matrix, states of several widths, updates that look back over all steps so far.
//!
//! ```text
//! init ──► rows 0..k of the states        for step in k..T:  the states' rows before ──► kernels ──► row `step`
//! ```
//!
//! A step is an ordinary set of kernels ([`KernelSequence`]) in which time is a size. They compute the stages of the
//! update without their time axis, each at the step at which the update reads it. The kernels read the states from the
//! memory of all steps, and write one row of it, which no read of an update reaches ([`scan`](crate::te::expr::define::scan)
//! has checked this). So no other order is needed than that of kernels in a stream. Computations that use a step's
//! index but don't depend on the state are done for that step only.

use std::sync::Arc;

use super::by_shape::KernelSequence;
use super::cell::Cell;
use super::slicing::Slicing;
use crate::te::auto::pattern::reads::refused;
use crate::te::dtype::DType;
use crate::te::error::TeError;
use crate::te::expr::define::compute::compute_over;
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::{Operation, Scan, Tensor};
use crate::te::expr::var::{Var, var};

/// The origin of a tensor of a step's kernels.
#[derive(Clone, Copy, Debug)]
pub(in crate::te::auto) enum StepTensor {
    /// A tensor that the scan reads, by its number.
    Input(usize),
    /// All steps of a state.
    History(usize),
    /// The rows of a state that are written: the given ones, or that of a step.
    Rows(usize),
}

/// Kernels, and the origins of their tensors.
#[derive(Debug)]
pub(in crate::te::auto) struct Stage {
    pub(in crate::te::auto) kernels: KernelSequence,
    pub(in crate::te::auto) tensors: Vec<StepTensor>,
}

/// A scan that runs step by step.
#[derive(Debug)]
pub(in crate::te::auto) struct Stepwise {
    /// The tensors that are read, then the states.
    pub(in crate::te::auto) parameters: Vec<Tensor>,
    /// The number of tensors that are read.
    pub(in crate::te::auto) inputs: usize,
    pub(in crate::te::auto) total_steps: Expr,
    pub(in crate::te::auto) given_steps: Expr,
    /// The variable that stands for the number of the step in the kernels.
    pub(in crate::te::auto) time: Var,
    pub(in crate::te::auto) given: Stage,
    pub(in crate::te::auto) step: Stage,
    /// All steps as one launch, if a block can do the stages of a step.
    pub(in crate::te::auto) cell: Option<Cell>,
}

impl Stepwise {
    /// # Errors
    /// [`LoweringError::Target`](crate::te::LoweringError::Target) for states of truth values, and for what no kernel
    /// can do.
    pub(in crate::te::auto) fn of(operation: &Arc<Operation>) -> Result<Self, TeError> {
        let refuse = || refused(&format!("{}, which is not a scan,", operation.name()));
        let scan = operation.as_scan().ok_or_else(refuse)?;
        if let Some(state) = scan.state.iter().find(|state| state.dtype() == DType::Bool) {
            return Err(refused(&format!("{}, a state of truth values (cast it to u8),", state.name())));
        }
        let domain = scan.axis.domain().ok_or_else(refuse)?;
        let time = var("step");
        let mut slicing = Slicing { state: &scan.state, now: time.into(), axis: None, made: Vec::new() };
        let rows: Vec<Tensor> = scan.update.iter().map(|update| slicing.at(update, 0)).collect::<Result<_, _>>()?;
        let mut inputs = Vec::new();
        let given = Stage::of(&scan.init, scan, &mut inputs)?;
        let step = Stage::of(&rows, scan, &mut inputs)?;
        let mut of_cell = inputs.clone();
        let cell = Cell::of(scan, &mut of_cell).ok();
        if cell.is_some() {
            inputs = of_cell;
        }
        let count = inputs.len();
        let states = (0..operation.values()).map(|value| Tensor::new(Arc::clone(operation), value));
        Ok(Self {
            parameters: inputs.into_iter().chain(states).collect(),
            inputs: count,
            total_steps: scan.state[0].shape().swap_remove(0),
            given_steps: domain.min.clone(),
            time,
            given,
            step,
            cell,
        })
    }
}

impl Stage {
    /// The kernels that compute rows of the states.
    fn of(rows: &[Tensor], scan: &Scan, inputs: &mut Vec<Tensor>) -> Result<Self, TeError> {
        // Every state has a separate output, even if one tensor belongs to several states.
        let own =
            |(place, row): (usize, &Tensor)| if rows[..place].contains(row) { copy(row) } else { Ok(row.clone()) };
        let own = rows.iter().enumerate().map(own).collect::<Result<Vec<_>, _>>()?;
        let kernels = KernelSequence::of_any(&own)?.ok_or_else(|| refused("a scan without states"))?;
        let mut tensors = Vec::with_capacity(kernels.parameters.len());
        for (number, tensor) in kernels.parameters.iter().enumerate() {
            tensors.push(if number >= kernels.inputs {
                StepTensor::Rows(number - kernels.inputs)
            } else if let Some(state) = scan.state.iter().position(|state| state == tensor) {
                StepTensor::History(state)
            } else {
                let known = inputs.iter().position(|input| input == tensor);
                StepTensor::Input(known.unwrap_or_else(|| {
                    inputs.push(tensor.clone());
                    inputs.len() - 1
                }))
            });
        }
        Ok(Self { kernels, tensors })
    }
}

fn copy(tensor: &Tensor) -> Result<Tensor, TeError> {
    let made = compute_over(tensor.shape(), &tensor.name(), |axes| {
        vec![tensor.at(axes.iter().map(|axis| Expr::from(*axis)).collect::<Vec<_>>())]
    })?;
    Ok(made[0].clone())
}
