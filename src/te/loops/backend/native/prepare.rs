//! Passes before code generation: they remove what a compiler of loops doesn't need.

use std::collections::HashMap;

use crate::te::arith::simplify;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::var::Var;
use crate::te::loops::ir::rewrite::substitute;
use crate::te::loops::ir::stmt::{LoopKind, Stmt};

/// Removes prefetches and notes about statements.
pub(super) fn without_notes(statement: Stmt) -> Stmt {
    match statement {
        Stmt::Note { body, .. } => without_notes(*body),
        Stmt::Prefetch { .. } => Stmt::Seq(Vec::new()),
        other => other.map_children(&mut without_notes),
    }
}

/// Loops marked to be unrolled are written out up to this many statements and expressions.
const UNROLL_LIMIT: usize = 4096;

/// Writes loops that are marked to be unrolled as one statement after another.
pub(super) fn unroll(statement: Stmt) -> Stmt {
    match statement {
        Stmt::For { var, extent, kind: LoopKind::Unrolled, body } => {
            let body = unroll(*body);
            let times = extent.as_int().and_then(|n| usize::try_from(n).ok());
            let fits = times.filter(|n| n.saturating_mul(size(&body)) <= UNROLL_LIMIT);
            let Some(times) = fits else {
                return Stmt::For { var, extent, kind: LoopKind::Serial, body: Box::new(body) };
            };
            let iteration = |i: usize| {
                let value = Expr::new(var.dtype(), Kind::Int(i64::try_from(i).unwrap_or(i64::MAX)));
                substitute(body.clone(), &|v| (v == var).then(|| value.clone())).map_expressions(&mut simplify)
            };
            Stmt::sequence((0..times).map(iteration))
        }
        other => other.map_children(&mut unroll),
    }
}

/// Replaces variables by known values.
pub(super) fn specialise(statement: Stmt, values: &HashMap<Var, i64>) -> Stmt {
    let replace = |var: Var| values.get(&var).map(|value| Expr::new(var.dtype(), Kind::Int(*value)));
    substitute(statement, &replace).map_expressions(&mut simplify)
}

fn size(statement: &Stmt) -> usize {
    let mut nodes = 1;
    statement.expressions().into_iter().for_each(|x| x.visit(&mut |_| nodes += 1));
    nodes + statement.children().into_iter().map(size).sum::<usize>()
}
