//! Which pointers of a kernel are `__restrict__`: all of them, but where the compiler would take that for too much.
//!
//! NVRTC (13.0 at least) turns `c ? P[i] : B[j]` into one load at a chosen address, and where the kernel writes no `B`
//! and `B` is `__restrict__`, that load is `ld.global.nc`, although the kernel may have written `P[i]` before. Such a
//! load may read only what no one writes while the kernel runs (PTX ISA 9.7.9.9). Where a kernel chooses whether to read
//! what it writes, the pointers that it only reads are plain: that they aren't those it writes is said by those.

use std::collections::HashSet;

use crate::te::ir::device_call::CallArgument;
use crate::te::ir::stmt::{Note, Stmt};
use crate::te::lang::buffer::{Buffer, Scope};
use crate::te::lang::expr::Kind;

/// What a kernel does with global memory.
#[derive(Default)]
pub(super) struct Restricted {
    written: HashSet<Buffer>,
    /// What it reads under a condition, and what functions of the user's get pointers to.
    chosen: HashSet<Buffer>,
}

impl Restricted {
    pub(super) fn of(body: &Stmt) -> Self {
        let mut found = Self::default();
        let mut pending = vec![body];
        while let Some(statement) = pending.pop() {
            found.add(statement);
            pending.extend(statement.children());
        }
        found.written.retain(|buffer| buffer.scope() == Scope::Global);
        found
    }

    fn add(&mut self, statement: &Stmt) {
        match statement {
            Stmt::Store { buffer, .. } => self.written.extend([buffer.clone()]),
            Stmt::Note { note: Note::Call(call), .. } => {
                for argument in &call.arguments {
                    if let CallArgument::Pointer(buffer, _) = argument {
                        self.chosen.insert(buffer.clone());
                    }
                }
            }
            _ => {}
        }
        for x in statement.expressions() {
            x.visit_guarded(false, &mut |x, guarded| {
                if let Kind::Load(buffer, _) = x.kind()
                    && guarded
                {
                    self.chosen.insert(buffer.clone());
                }
            });
        }
    }

    /// Whether a pointer to this memory is `__restrict__`.
    pub(super) fn has(&self, buffer: &Buffer) -> bool {
        self.written.contains(buffer) || self.written.is_disjoint(&self.chosen)
    }
}
