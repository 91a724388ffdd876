//! Which buffers statements use, which decides where a script allocates them.

use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::Kind;
use crate::te::loops::ir::device_call::CallArgument;
use crate::te::loops::ir::stmt::{Note, Stmt};

/// The buffers that a statement stores to and loads from, in the order in which they are written.
pub(super) fn accesses(statement: &Stmt, found: &mut Vec<Buffer>) {
    own_accesses(statement, found);
    if let Stmt::Note { note: Note::Call(_), .. } = statement {
        return;
    }
    for child in statement.children() {
        accesses(child, found);
    }
}

fn own_accesses(statement: &Stmt, found: &mut Vec<Buffer>) {
    let mut add = |buffer: &Buffer| {
        if !found.contains(buffer) {
            found.push(buffer.clone());
        }
    };
    if let Stmt::Store { buffer, .. } | Stmt::Prefetch { buffer, .. } = statement {
        add(buffer);
    }
    for x in statement.expressions() {
        x.visit(&mut |x| {
            if let Kind::Load(buffer, _) = x.kind() {
                add(buffer);
            }
        });
    }
    match statement {
        Stmt::AllReduce(reduce) => reduce.results.iter().for_each(&mut add),
        Stmt::Note { note: Note::Call(call), .. } => {
            for argument in &call.arguments {
                if let CallArgument::Pointer(buffer, _) = argument {
                    add(buffer);
                }
            }
        }
        _ => {}
    }
}

/// Whether a statement uses a buffer itself, or in a part that is printed on the same level.
pub(super) fn at_own_level(statement: &Stmt, buffer: &Buffer) -> bool {
    let mut own = Vec::new();
    own_accesses(statement, &mut own);
    if own.contains(buffer) {
        return true;
    }
    match statement {
        Stmt::Let { body, .. } => {
            let inner: Vec<&Stmt> = match &**body {
                Stmt::Seq(statements) => statements.iter().collect(),
                other => vec![other],
            };
            inner.iter().any(|statement| at_own_level(statement, buffer))
        }
        _ => false,
    }
}
