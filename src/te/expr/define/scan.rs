//! Scans: recurrences along the first dimension, with their checks.

use std::collections::HashSet;
use std::slice::from_ref;
use std::sync::Arc;

use crate::te::arith::{Context, equal, simplify};
use crate::te::error::{ScanError, TeError};
use crate::te::expr::axis::{Axis, AxisKind, Domain};
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::graph::visit_operations;
use crate::te::expr::tensor::{Operation, OperationKind, Scan, Tensor};
use crate::te::expr::var::Var;

/// A recurrence of one state: `update[t]` is computed from earlier steps, which it reads through `state`.
///
/// The first dimension is time. `init` gives the first steps; their number is its first extent. `inputs` are other
/// tensors that the update reads; they may be left out.
///
/// # Errors
/// [`TeError`] when the shapes or types of the three differ, or when the update reads the state at its own step or
/// later.
pub fn scan(init: &Tensor, update: &Tensor, state: &Tensor, inputs: &[Tensor]) -> Result<Tensor, TeError> {
    let mut all = scan_all(from_ref(init), from_ref(update), from_ref(state), inputs)?;
    Ok(all.swap_remove(0))
}

/// A recurrence of several states at once.
///
/// # Errors
/// The errors of [`scan`], and lists of different lengths.
pub fn scan_all(
    init: &[Tensor],
    update: &[Tensor],
    state: &[Tensor],
    inputs: &[Tensor],
) -> Result<Vec<Tensor>, TeError> {
    if init.len() != state.len() || update.len() != state.len() || state.is_empty() {
        return Err(ScanError::Count { init: init.len(), update: update.len(), state: state.len() }.into());
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
    if simplify(&steps).as_int().is_some_and(|steps| steps < 1) {
        return Err(ScanError::Shape {
            what: "init",
            tensor: init[0].name(),
            dimension: 0,
            needed: "1 or more".to_owned(),
            given: crate::te::text::expression(&steps),
        }
        .into());
    }
    let total = state[0].shape().swap_remove(0);
    for tensor in state {
        let given = tensor.shape().swap_remove(0);
        if !equal(&given, &total) {
            return Err(shape_error("state", tensor, 0, &total, &given));
        }
    }
    for tensor in update {
        check_reads(tensor, tensor.axis(0)?, state, &steps)?;
    }
    let axis = Axis::new("scan.idx", Some(Domain::new(steps.clone(), simplify(&(total - steps)))), AxisKind::Ordered);
    let scan =
        Scan { axis, init: init.to_vec(), update: update.to_vec(), state: state.to_vec(), inputs: inputs.to_vec() };
    let operation = Operation::checked("scan", OperationKind::Scan(scan))?;
    Ok((0..state.len()).map(|value| Tensor::new(Arc::clone(&operation), value)).collect())
}

fn shape_error(what: &'static str, tensor: &Tensor, dimension: usize, needed: &Expr, given: &Expr) -> TeError {
    ScanError::Shape {
        what,
        tensor: tensor.name(),
        dimension,
        needed: crate::te::text::expression(needed),
        given: crate::te::text::expression(given),
    }
    .into()
}

/// Checks the three tensors of one state.
fn check_state(init: &Tensor, update: &Tensor, state: &Tensor) -> Result<(), TeError> {
    if !matches!(state.operation().kind(), OperationKind::Placeholder { .. }) {
        return Err(TeError::Scan(ScanError::State { tensor: state.name() }));
    }
    for (what, tensor) in [("init", init), ("update", update)] {
        if tensor.operation().as_compute().is_none() {
            return Err(ScanError::Body { what, tensor: tensor.name() }.into());
        }
        if tensor.dtype() != state.dtype() {
            return Err(ScanError::Type { what, needed: state.dtype(), given: tensor.dtype() }.into());
        }
        if tensor.rank() != state.rank() || state.rank() == 0 {
            return Err(ScanError::Rank { what, needed: state.rank().max(1), given: tensor.rank() }.into());
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

/// At how many steps an update may read its intermediate stages, all together.
const MOST_READ: usize = 1 << 12;

/// An intermediate stage of an update, and at which step the update reads it.
struct Reached {
    stage: Tensor,
    time: Axis,
    /// The update's step `t` reads the stage at `t + offset`.
    offset: i64,
    /// Whether the read is under a condition.
    guarded: bool,
}

/// Follows the update through its intermediate stages: every read of the state must be of an earlier step.
///
/// The update may read an intermediate stage at `t + d`. If this stage reads the state at `t - e`, the update reads the
/// state at `t + d - e`.
fn check_reads(update: &Tensor, time: Axis, state: &[Tensor], steps: &Expr) -> Result<(), TeError> {
    let mut pending = vec![Reached { stage: update.clone(), time, offset: 0, guarded: false }];
    let mut seen: HashSet<(Tensor, i64, bool)> = HashSet::new();
    while let Some(reached) = pending.pop() {
        let Some(compute) = reached.stage.operation().as_compute() else { continue };
        let mut result = Ok(());
        let mut found = Vec::new();
        for body in &compute.body {
            body.visit_guarded(reached.guarded, &mut |x, guarded| {
                let Kind::Read(tensor, indices) = x.kind() else { return };
                if result.is_ok() {
                    match check_read(&reached, &compute.reduce_axes, (tensor, indices), state, steps, guarded) {
                        Ok(next) => found.extend(next),
                        Err(error) => result = Err(error),
                    }
                }
            });
        }
        result?;
        for next in found {
            if seen.insert((next.stage.clone(), next.offset, next.guarded)) {
                pending.push(next);
            }
        }
        if seen.len() > MOST_READ {
            return Err(ScanError::Steps { tensor: update.name(), most: MOST_READ }.into());
        }
    }
    Ok(())
}

/// Checks one read. Gives the stage that is read, if it is an intermediate one.
fn check_read(
    reached: &Reached,
    reduced: &[Axis],
    (tensor, indices): (&Tensor, &[Expr]),
    state: &[Tensor],
    steps: &Expr,
    guarded: bool,
) -> Result<Option<Reached>, TeError> {
    let is_state = state.contains(tensor);
    if !is_state && !reads_state(tensor, state) {
        return Ok(None);
    }
    let index = || indices.first().map(crate::te::text::expression).unwrap_or_default();
    let (stage, name) = (reached.stage.name(), tensor.name());
    let range = indices.first().and_then(|index| distance(index, reached.time, reduced));
    let range =
        range.map(|(least, greatest)| (least.saturating_add(reached.offset), greatest.saturating_add(reached.offset)));
    match range {
        Some((least, greatest)) if is_state && greatest < 0 => match steps.as_int() {
            Some(steps) if !guarded && least < -steps => {
                Err(ScanError::Before { stage, tensor: name, index: index(), back: least.saturating_neg(), steps }
                    .into())
            }
            _ => Ok(None),
        },
        Some((least, greatest)) if !is_state && least == greatest => {
            let time = tensor.axis(0)?;
            Ok(Some(Reached { stage: tensor.clone(), time, offset: least, guarded }))
        }
        _ => {
            let step = range.filter(|(least, greatest)| least == greatest).map(|(step, _)| step);
            Err(ScanError::Read { stage, tensor: name, index: index(), step }.into())
        }
    }
}

/// The least and greatest distance of an index from the step, while reduced axes run; `None` if it depends on more.
fn distance(index: &Expr, time: Axis, reduced: &[Axis]) -> Option<(i64, i64)> {
    let mut context = Context::default();
    let domain = |var: Var| reduced.iter().find(|axis| axis.var() == var)?.domain();
    for axis in reduced {
        context.push(axis.var(), &domain(axis.var())?.extent);
    }
    let from_zero = index.substitute(&|var| Some(&domain(var)?.min + var));
    let (least, greatest) = context.extremes(&simplify(&(from_zero - time)));
    Some((least.as_int()?, greatest.as_int()?))
}

/// Whether a tensor is computed from a state, directly or through other stages. It is then inside the scan; reading the
/// scan's result doesn't count.
pub(crate) fn reads_state(tensor: &Tensor, state: &[Tensor]) -> bool {
    let is_state = |operation: &Arc<Operation>| state.iter().any(|state| Arc::ptr_eq(state.operation(), operation));
    let mut found = false;
    visit_operations([tensor.operation()], &mut |operation| {
        found = found || is_state(operation);
        !found && operation.as_scan().is_none_or(|scan| scan.state != state)
    });
    found
}
