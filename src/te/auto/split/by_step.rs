//! Splits scans by steps, if their columns read each other's state. Examples are recurrent cells with gates that
//! multiply the state by a matrix, and states of several widths. An update may also look back over all steps so far.
//!
//! ```text
//! init ──► rows 0..k of the states        for step in k..T:  the states' rows before ──► kernels ──► row `step`
//! ```
//!
//! The rows of a step are ordinary tensors in which time is a size, so ordinary kernels compute them ([`by_shape`]).
//! They are the stages of the update without their time axis, each at the step at which the update reads it. The
//! kernels read the states from the memory of all steps, and write one row of it. No read of an update reaches this
//! row ([`scan`](crate::te::expr::define::scan) has checked it). So no other order is needed than that of kernels in a
//! stream. Computations that use a step's index but don't depend on the state are done for that step only.
//!
//! [`by_shape`]: super::by_shape

use std::sync::Arc;

use super::slicing::Slicing;
use crate::te::auto::pattern::reads::refused;
use crate::te::dtype::DType;
use crate::te::error::TeError;
use crate::te::expr::define::compute::compute_over;
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::{Operation, Scan, Tensor};
use crate::te::expr::var::{Var, var};

/// A scan as the rows of its states, each state with tensors of its own.
pub(super) struct StepRows<'a> {
    pub(super) scan: &'a Scan,
    pub(super) total_steps: Expr,
    pub(super) given_steps: Expr,
    /// The variable that stands for the number of the step.
    pub(super) time: Var,
    /// The given rows.
    pub(super) given: Vec<Tensor>,
    /// The row of one step.
    pub(super) step: Vec<Tensor>,
}

impl<'a> StepRows<'a> {
    /// # Errors
    /// [`LoweringError::Target`](crate::te::LoweringError::Target) for states of truth values, and for what is no scan.
    pub(super) fn of(operation: &'a Arc<Operation>) -> Result<Self, TeError> {
        let refuse = || refused(&format!("{}, which is not a scan,", operation.name()));
        let scan = operation.as_scan().ok_or_else(refuse)?;
        if let Some(state) = scan.state.iter().find(|state| state.dtype() == DType::Bool) {
            return Err(refused(&format!("{}, a state of truth values (cast it to u8),", state.name())));
        }
        let domain = scan.axis.domain().ok_or_else(refuse)?;
        let time = var("step");
        let mut slicing = Slicing { state: &scan.state, now: time.into(), axis: None, made: Vec::new() };
        let rows: Vec<Tensor> = scan.update.iter().map(|update| slicing.at(update, 0)).collect::<Result<_, _>>()?;
        Ok(Self {
            scan,
            total_steps: scan.state[0].shape().swap_remove(0),
            given_steps: domain.min.clone(),
            time,
            given: each_its_own(&scan.init)?,
            step: each_its_own(&rows)?,
        })
    }
}

/// Copies a tensor that belongs to several states, so that every state has a separate output.
fn each_its_own(rows: &[Tensor]) -> Result<Vec<Tensor>, TeError> {
    let own = |(place, row): (usize, &Tensor)| if rows[..place].contains(row) { copy(row) } else { Ok(row.clone()) };
    rows.iter().enumerate().map(own).collect()
}

fn copy(tensor: &Tensor) -> Result<Tensor, TeError> {
    let made = compute_over(tensor.shape(), &tensor.name(), |axes| {
        vec![tensor.at(axes.iter().map(|axis| Expr::from(*axis)).collect::<Vec<_>>())]
    })?;
    Ok(made[0].clone())
}
