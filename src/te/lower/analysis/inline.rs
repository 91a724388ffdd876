//! Puts the bodies of inlined stages where they are read.

use std::collections::HashMap;

use crate::te::lang::expr::{Expr, Kind};
use crate::te::lang::tensor::{Compute, Operation, OperationKind};
use crate::te::schedule::{Attach, Schedule};

/// The same schedule without its inlined stages.
pub(crate) fn inline(schedule: &Schedule) -> Schedule {
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
            let body: Vec<Expr> = compute.body.iter().map(|x| expand(x, inlined, &is_it)).collect();
            if body != compute.body {
                let (axes, reduce_axes) = (compute.axes.clone(), compute.reduce_axes.clone());
                let kind = OperationKind::Compute(Compute { axes, reduce_axes, body });
                reader.operation = Operation::new(reader.operation.name(), kind);
            }
        }
    }
    result
}

/// An element that is read at several places is put there once.
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
