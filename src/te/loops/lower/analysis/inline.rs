//! Inlining: writes the bodies of inlined stages where they are read.

use std::collections::HashMap;

use crate::te::error::{ScheduleError, TeError};
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::tensor::{Compute, Operation, OperationKind};
use crate::te::loops::schedule::{Attach, Schedule};

/// The most operations of a stage after inlining. If each of a chain of inlined stages is read at two places, the
/// number doubles with every stage.
const MOST: usize = 1 << 16;

/// Removes the inlined stages of a schedule.
///
/// # Errors
/// [`ScheduleError::Inlined`] for a stage that becomes too large;
/// [`ExpressionError::Nested`](crate::te::ExpressionError::Nested).
pub(crate) fn inline(schedule: &Schedule) -> Result<Schedule, TeError> {
    let mut result = schedule.clone();
    while let Some(index) = result.stages.iter().position(|stage| matches!(stage.attach, Attach::Inline)) {
        let stage = result.stages.remove(index);
        let Some(inlined) = stage.operation.as_compute() else { continue };
        let is_it = |x: &Expr| {
            matches!(x.kind(), Kind::Read(tensor, _)
                if std::sync::Arc::ptr_eq(tensor.operation(), &stage.origin)
                    || std::sync::Arc::ptr_eq(tensor.operation(), &stage.operation))
        };
        for reader in &mut result.stages {
            let Some(compute) = reader.operation.as_compute() else { continue };
            let ranges = compute.ranges();
            if ranges.iter().any(|range| range.min.contains(is_it) || range.extent.contains(is_it)) {
                let reason = format!(
                    "{} reduces over a range that it gives; compute it by itself (`compute_root`)",
                    reader.operation.name()
                );
                let stage = stage.operation.name().to_owned();
                return Err(ScheduleError::Primitive { primitive: "compute_inline", stage, reason }.into());
            }
            let body: Vec<Expr> = compute.body.iter().map(|x| expand(x, inlined, &is_it)).collect();
            if body != compute.body {
                check_size(reader.operation.name(), &body)?;
                let (axes, reduce_axes) = (compute.axes.clone(), compute.reduce_axes.clone());
                let kind = OperationKind::Compute(Compute { axes, reduce_axes, body });
                reader.operation = Operation::new(reader.operation.name(), kind);
            }
        }
    }
    Ok(result)
}

fn check_size(stage: &str, body: &[Expr]) -> Result<(), TeError> {
    let (mut operations, mut mistake) = (0, None);
    for x in body {
        x.visit(&mut |x| {
            operations += 1;
            mistake = mistake.take().or_else(|| x.error());
        });
    }
    if operations > MOST {
        return Err(ScheduleError::Inlined { stage: stage.to_owned(), most: MOST }.into());
    }
    mistake.map_or(Ok(()), Err)
}

/// An element that is read at several places is expanded once.
fn expand(x: &Expr, inlined: &Compute, is_it: &dyn Fn(&Expr) -> bool) -> Expr {
    let mut expanded: HashMap<Expr, Expr> = HashMap::new();
    x.rewrite(&mut |inner| match inner.kind() {
        Kind::Read(_, indices) if is_it(&inner) => {
            if let Some(known) = expanded.get(&inner) {
                return known.clone();
            }
            let body = inlined.body[0].substitute(&|var| {
                let place = inlined.axes.iter().position(|axis| axis.var() == var)?;
                indices.get(place).cloned()
            });
            expanded.insert(inner, body.clone());
            body
        }
        _ => inner,
    })
}
