//! Common subexpression elimination: index arithmetic on loop counters that a store repeats is computed once, before
//! it.
//!
//! Sizes and thread indices are constant in a kernel, so the device's compiler keeps arithmetic on them in registers
//! anyway.

use std::collections::HashSet;

use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::var::Var;
use crate::te::loops::ir::stmt::Stmt;

pub(crate) fn share_index_arithmetic(statement: Stmt) -> Stmt {
    walk(statement, &mut HashSet::new(), &mut 0)
}

fn walk(statement: Stmt, loops: &mut HashSet<Var>, count: &mut usize) -> Stmt {
    match statement {
        Stmt::For { var, extent, kind, body } => {
            loops.insert(var);
            let body = Box::new(walk(*body, loops, count));
            loops.remove(&var);
            Stmt::For { var, extent, kind, body }
        }
        Stmt::Store { .. } => shared(statement, loops, count),
        other => other.map_children(&mut |child| walk(child, loops, count)),
    }
}

/// The largest store that is considered, in operations. Targets share the parts of larger ones by themselves.
const MOST: usize = 1 << 10;

fn shared(store: Stmt, loops: &HashSet<Var>, count: &mut usize) -> Stmt {
    let mut operations = 0;
    store.expressions().into_iter().for_each(|x| x.visit(&mut |_| operations += 1));
    if operations > MOST {
        return store;
    }
    let mut found: Vec<(Expr, u64, u64)> = Vec::new();
    for expression in store.expressions() {
        for (x, occurs) in expression.occurrences() {
            if !is_arithmetic(x, loops) {
                continue;
            }
            match found.iter_mut().find(|(known, ..)| known == x) {
                Some((_, times, _)) => *times = times.saturating_add(occurs),
                None => found.push((x.clone(), occurs, x.unfolded())),
            }
        }
    }
    found.retain(|(_, times, _)| *times > 1);
    found.sort_by_key(|(.., size)| std::cmp::Reverse(*size));
    let mut statement = store;
    let mut lets = Vec::new();
    for (x, ..) in found {
        if occurrences(&statement, &x) < 2 {
            continue;
        }
        *count += 1;
        // Not a size: the value may be negative, and simplification must know this.
        let var = Var::local(&format!("cse_var_{count}"), x.dtype());
        statement = statement.map_expressions(&mut |e| replace(e, &x, var));
        lets.push((var, x));
    }
    lets.into_iter().fold(statement, |body, (var, value)| Stmt::Let { var, value, body: Box::new(body) })
}

fn occurrences(statement: &Stmt, x: &Expr) -> u64 {
    let of = |whole: &Expr| -> u64 {
        whole.occurrences().into_iter().filter(|(part, _)| *part == x).map(|(_, times)| times).sum()
    };
    statement.expressions().into_iter().map(of).sum()
}

/// Whether it is integer arithmetic on loop counters and constants, with at least one operation.
fn is_arithmetic(x: &Expr, loops: &HashSet<Var>) -> bool {
    let mut operations = 0;
    let mut only = x.dtype().is_integer();
    let mut counters = 0;
    x.visit(&mut |x| match x.kind() {
        Kind::Binary(..) => operations += 1,
        Kind::Var(var) if loops.contains(var) => counters += 1,
        Kind::Int(_) => {}
        _ => only = false,
    });
    only && operations > 0 && counters > 0
}

fn replace(x: &Expr, from: &Expr, to: Var) -> Expr {
    x.replaced(&mut |part| (part == from).then(|| to.into()))
}
