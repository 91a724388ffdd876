//! Scans: recurrences along the first dimension.

use std::slice::from_ref;
use std::sync::Arc;

use super::arith::{equal, simplify};
use super::axis::{Axis, AxisKind, Domain};
use super::error::TeError;
use super::expr::{Expr, Kind};
use super::tensor::{Operation, OperationKind, Scan, Tensor};

/// A recurrence of one state: `update[t]` is computed from earlier steps, which it reads through `state`.
///
/// The first dimension is time. `init` gives the first steps, as many as its first extent. `inputs` are what else the
/// update reads; they may be left out.
///
/// # Errors
/// [`TeError`] when shapes or types of the three differ, or when the update reads the state at its own or a later step.
pub fn scan(init: &Tensor, update: &Tensor, state: &Tensor, inputs: &[Tensor]) -> Result<Tensor, TeError> {
    let mut all = scan_all(from_ref(init), from_ref(update), from_ref(state), inputs)?;
    Ok(all.swap_remove(0))
}

/// A recurrence of several states at once.
///
/// # Errors
/// As [`scan`], and when the three lists are not of one length.
pub fn scan_all(
    init: &[Tensor],
    update: &[Tensor],
    state: &[Tensor],
    inputs: &[Tensor],
) -> Result<Vec<Tensor>, TeError> {
    if init.len() != state.len() || update.len() != state.len() || state.is_empty() {
        return Err(TeError::ScanCount { init: init.len(), update: update.len(), state: state.len() });
    }
    for ((init, update), state) in init.iter().zip(update).zip(state) {
        check_state(init, update, state)?;
    }
    let steps = init[0].shape().swap_remove(0);
    for tensor in init {
        let given = tensor.shape().swap_remove(0);
        if !equal(&given, &steps) {
            return Err(shape_error("init", tensor, 0, &steps, &given));
        }
    }
    let total = state[0].shape().swap_remove(0);
    for tensor in state {
        let given = tensor.shape().swap_remove(0);
        if !equal(&given, &total) {
            return Err(shape_error("state", tensor, 0, &total, &given));
        }
    }
    for tensor in update {
        check_reads(tensor, tensor.axis(0)?, state)?;
    }
    let axis = Axis::new("scan.idx", Some(Domain::new(steps.clone(), simplify(&(total - steps)))), AxisKind::Ordered);
    let scan =
        Scan { axis, init: init.to_vec(), update: update.to_vec(), state: state.to_vec(), inputs: inputs.to_vec() };
    let operation = Operation::new("scan", OperationKind::Scan(scan));
    Ok((0..state.len()).map(|value| Tensor::new(Arc::clone(&operation), value)).collect())
}

fn shape_error(what: &'static str, tensor: &Tensor, dimension: usize, needed: &Expr, given: &Expr) -> TeError {
    TeError::ScanShape {
        what,
        tensor: tensor.name(),
        dimension,
        needed: super::text::expression(needed),
        given: super::text::expression(given),
    }
}

/// The three tensors of one state agree, and each is what it must be.
fn check_state(init: &Tensor, update: &Tensor, state: &Tensor) -> Result<(), TeError> {
    if !matches!(state.operation().kind(), OperationKind::Placeholder { .. }) {
        return Err(TeError::ScanState { tensor: state.name() });
    }
    for (what, tensor) in [("init", init), ("update", update)] {
        if tensor.operation().as_compute().is_none() {
            return Err(TeError::ScanBody { what, tensor: tensor.name() });
        }
        if tensor.dtype() != state.dtype() {
            return Err(TeError::ScanType { what, needed: state.dtype(), given: tensor.dtype() });
        }
        if tensor.rank() != state.rank() || state.rank() == 0 {
            return Err(TeError::ScanRank { what, needed: state.rank().max(1), given: tensor.rank() });
        }
        let from = usize::from(what == "init");
        for (dimension, (needed, given)) in state.shape().iter().zip(&tensor.shape()).enumerate().skip(from) {
            if !equal(needed, given) {
                return Err(shape_error(what, tensor, dimension, needed, given));
            }
        }
    }
    Ok(())
}

/// Follows the update through its intermediate stages: every read of the state must be of an earlier step.
///
/// A stage between is read at `t + d`; what it reads of the state at `t - e` is then read at `t + d - e`.
fn check_reads(stage: &Tensor, time: Axis, state: &[Tensor]) -> Result<(), TeError> {
    let mut pending = vec![(stage.clone(), time, 0i64)];
    let mut seen: Vec<(Tensor, i64)> = Vec::new();
    while let Some((stage, time, offset)) = pending.pop() {
        let Some(compute) = stage.operation().as_compute() else { continue };
        let mut mistake = None;
        for body in &compute.body {
            body.visit(&mut |x| {
                let Kind::Read(tensor, indices) = x.kind() else { return };
                let is_state = state.contains(tensor);
                if !is_state && !reads_state(tensor, state) {
                    return;
                }
                let step = indices.first().map(|index| simplify(&(index - time)));
                match step.and_then(|step| step.as_int()) {
                    Some(step) if is_state && step + offset < 0 => {}
                    Some(step) if !is_state => {
                        let next = (tensor.clone(), step + offset);
                        if !seen.contains(&next) {
                            seen.push(next);
                            if let Ok(inner) = tensor.axis(0) {
                                pending.push((tensor.clone(), inner, step + offset));
                            }
                        }
                    }
                    step => {
                        let index = indices.first().map(super::text::expression).unwrap_or_default();
                        mistake = Some(TeError::ScanRead {
                            stage: stage.name(),
                            tensor: tensor.name(),
                            index,
                            step: step.map(|step| step + offset),
                        });
                    }
                }
            });
        }
        if let Some(error) = mistake {
            return Err(error);
        }
    }
    Ok(())
}

/// Whether a tensor is computed from a state, at once or through other stages: inside the scan, that is, and not from
/// its result.
pub(crate) fn reads_state(tensor: &Tensor, state: &[Tensor]) -> bool {
    let is_result = tensor.operation().as_scan().is_some_and(|scan| scan.state == state);
    let through = |operation: &Operation| operation.inputs().iter().any(|input| reads_state(input, state));
    state.contains(tensor) || !is_result && through(tensor.operation())
}
