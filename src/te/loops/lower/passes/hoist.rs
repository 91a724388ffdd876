//! Moves allocations and tests outward. Tests on thread indices stay in their loops, which may hold barriers.

use crate::te::expr::buffer::{Buffer, Scope};
use crate::te::expr::expression::Expr;
use crate::te::expr::thread::Thread;
use crate::te::expr::var::Var;
use crate::te::loops::ir::stmt::{LoopKind, Stmt};

/// Moves memory of a fixed extent outside all loops, so that it is allocated once: directly inside the outermost
/// launch, or outside of it if it is global. Global memory comes first, since threads can't allocate any.
pub(crate) fn hoist_allocations(statement: Stmt) -> Stmt {
    let (statement, mut freed) = lift(statement, false);
    freed.sort_by_key(|buffer| buffer.scope() != Scope::Global);
    wrap(freed, statement)
}

fn wrap(buffers: Vec<Buffer>, body: Stmt) -> Stmt {
    buffers.into_iter().rev().fold(body, |body, buffer| Stmt::Allocate { buffer, body: Box::new(body) })
}

/// The statement without the allocations that can move further out, and those allocations.
fn lift(statement: Stmt, launched: bool) -> (Stmt, Vec<Buffer>) {
    match statement {
        Stmt::Allocate { buffer, body } => {
            let (body, mut freed) = lift(*body, launched);
            freed.insert(0, buffer);
            (body, freed)
        }
        Stmt::Launch { thread, var, extent, body } => {
            let (body, freed) = lift(*body, true);
            let (out, stay): (Vec<_>, Vec<_>) = freed
                .into_iter()
                .partition(|buffer| (launched || buffer.scope() == Scope::Global) && !uses(buffer, var));
            (Stmt::Launch { thread, var, extent, body: Box::new(wrap(stay, body)) }, out)
        }
        Stmt::For { var, extent, kind, body } => {
            let (body, freed) = lift(*body, launched);
            // Iterations that run at the same time need separate memory.
            let own = kind == LoopKind::Parallel;
            let (stay, out): (Vec<_>, Vec<_>) = freed.into_iter().partition(|buffer| own || uses(buffer, var));
            (Stmt::For { var, extent, kind, body: Box::new(wrap(stay, body)) }, out)
        }
        other => {
            let mut freed = Vec::new();
            let statement = other.map_children(&mut |child| {
                let (child, inner) = lift(child, launched);
                freed.extend(inner);
                child
            });
            (statement, freed)
        }
    }
}

fn uses(buffer: &Buffer, var: Var) -> bool {
    buffer.allocation().iter().any(|extent| extent.uses(var))
}

/// Moves a test outside of a loop on which it doesn't depend. A test on thread indices stays, because the statement
/// that it guards may hold a barrier, which all threads must reach.
pub(crate) fn hoist_conditions(statement: Stmt) -> Stmt {
    match statement {
        Stmt::For { var, extent, kind, body } => match hoist_conditions(*body) {
            Stmt::If { condition, then } if !condition.uses(var) && !on_threads(&condition) => {
                let inner = Stmt::For { var, extent, kind, body: then };
                Stmt::If { condition, then: Box::new(hoist_conditions(inner)) }
            }
            body => Stmt::For { var, extent, kind, body: Box::new(body) },
        },
        other => other.map_children(&mut hoist_conditions),
    }
}

fn on_threads(condition: &Expr) -> bool {
    condition.contains(|x| matches!(x.as_var().and_then(Var::thread), Some(Thread::Thread(_) | Thread::Block(_))))
}
