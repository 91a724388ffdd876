//! Simplifies every expression with the ranges of the counters, and removes statements that do nothing.

use crate::te::arith::{Context, simplify_in};
use crate::te::loops::ir::stmt::Stmt;

pub(crate) fn simplify(statement: Stmt) -> Stmt {
    walk(statement, &mut Context::default())
}

fn walk(statement: Stmt, context: &mut Context) -> Stmt {
    match statement {
        Stmt::For { var, extent, kind, body } => {
            let extent = simplify_in(&extent, context);
            context.push(var, &extent);
            let body = walk(*body, context);
            context.pop();
            if body.is_empty() || extent.as_int().is_some_and(|n| n <= 0) {
                return Stmt::Seq(Vec::new());
            }
            Stmt::For { var, extent, kind, body: Box::new(body) }
        }
        Stmt::Launch { thread, var, extent, body } => {
            let extent = simplify_in(&extent, context);
            context.push(var, &extent);
            let body = walk(*body, context);
            context.pop();
            Stmt::Launch { thread, var, extent, body: Box::new(body) }
        }
        Stmt::If { condition, then } => {
            let condition = simplify_in(&condition, context);
            let then = walk(*then, context);
            match condition.as_int() {
                Some(0) => Stmt::Seq(Vec::new()),
                Some(_) => then,
                None if then.is_empty() => then,
                None => Stmt::If { condition, then: Box::new(then) },
            }
        }
        Stmt::Seq(statements) => {
            let statements: Vec<Stmt> = statements.into_iter().map(|s| walk(s, context)).collect();
            Stmt::sequence(statements)
        }
        Stmt::Let { var, value, body } => {
            let value = simplify_in(&value, context);
            Stmt::Let { var, value, body: Box::new(walk(*body, context)) }
        }
        Stmt::Allocate { buffer, body } => Stmt::Allocate { buffer, body: Box::new(walk(*body, context)) },
        Stmt::Note { note, body } => {
            let body = walk(*body, context);
            if body.is_empty() {
                return body;
            }
            let note = note.map_expressions(&mut |x| simplify_in(x, context));
            Stmt::Note { note, body: Box::new(body) }
        }
        leaf @ (Stmt::Store { .. } | Stmt::AllReduce(_) | Stmt::Barrier | Stmt::Prefetch { .. }) => {
            leaf.map_expressions(&mut |x| simplify_in(x, context))
        }
    }
}
