//! Common subexpressions: index arithmetic on loop counters that a store repeats is computed once, before it.
//!
//! Sizes and thread indices are constant through a kernel, so the device's compiler keeps what is made of them in
//! registers by itself.

use std::collections::HashSet;

use crate::te::expr::{Expr, Kind, Var};
use crate::te::ir::Stmt;

pub(super) fn share_index_arithmetic(statement: Stmt) -> Stmt {
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

fn shared(store: Stmt, loops: &HashSet<Var>, count: &mut usize) -> Stmt {
    let mut found: Vec<(Expr, usize, usize)> = Vec::new();
    for expression in store.expressions() {
        expression.visit(&mut |x| {
            if !is_arithmetic(x, loops) {
                return;
            }
            match found.iter_mut().find(|(known, ..)| known == x) {
                Some((_, times, _)) => *times += 1,
                None => found.push((x.clone(), 1, size(x))),
            }
        });
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
        let var = Var::new(&format!("cse_var_{count}"), x.dtype());
        statement = statement.map_expressions(&mut |e| replace(e, &x, var));
        lets.push((var, x));
    }
    lets.into_iter().fold(statement, |body, (var, value)| Stmt::Let { var, value, body: Box::new(body) })
}

fn occurrences(statement: &Stmt, x: &Expr) -> usize {
    let mut times = 0;
    for expression in statement.expressions() {
        expression.visit(&mut |e| times += usize::from(e == x));
    }
    times
}

/// Integer arithmetic on loop counters and constants, of at least one operation.
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

fn size(x: &Expr) -> usize {
    let mut nodes = 0;
    x.visit(&mut |_| nodes += 1);
    nodes
}

fn replace(x: &Expr, from: &Expr, to: Var) -> Expr {
    if x == from { to.into() } else { x.map_operands(&mut |operand| replace(operand, from, to)) }
}
