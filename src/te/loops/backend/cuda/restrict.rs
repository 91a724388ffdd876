//! Decides which pointers of a kernel are `__restrict__`: all of them, unless the compiler would conclude too much from
//! it.
//!
//! NVRTC (13.0 at least) turns `c ? P[i] : B[j]` into one load from a chosen address. If the kernel does not write `B`,
//! and `B` is `__restrict__`, it uses `ld.global.nc`, although the kernel may have written `P[i]` before. This load may only read what nobody writes while the kernel runs (PTX ISA 9.7.9.9). So if a kernel reads, under a condition,
//! memory that it also writes, the pointers that it only reads are plain. That they don't alias the written ones still
//! follows from the `__restrict__` of those.
//!
//! A barrier is no write to memory that only one pointer reaches: the compiler may read this memory once for all,
//! although other threads write it between two barriers. So if a kernel has barriers, the pointers to memory that it
//! writes and reads are plain, too.

use std::collections::HashSet;

use crate::te::expr::buffer::{Buffer, Scope};
use crate::te::expr::expression::Kind;
use crate::te::loops::ir::device_call::CallArgument;
use crate::te::loops::ir::stmt::{Note, Stmt};

/// How a kernel uses global memory.
#[derive(Default)]
pub(super) struct Restricted {
    written: HashSet<Buffer>,
    /// The memory that it reads under a condition, and the memory whose pointers the user's functions get.
    chosen: HashSet<Buffer>,
    /// The memory that it may read, in any way.
    read: HashSet<Buffer>,
    has_barriers: bool,
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
                        self.read.insert(buffer.clone());
                        self.chosen.insert(buffer.clone());
                    }
                }
            }
            Stmt::Barrier | Stmt::AllReduce(_) => self.has_barriers = true,
            _ => {}
        }
        for x in statement.expressions() {
            x.visit_guarded(false, &mut |x, guarded| {
                if let Kind::Load(buffer, _) = x.kind() {
                    self.read.insert(buffer.clone());
                    if guarded {
                        self.chosen.insert(buffer.clone());
                    }
                }
            });
        }
    }

    /// Whether a pointer to this memory is `__restrict__`.
    pub(super) fn has(&self, buffer: &Buffer) -> bool {
        if !self.written.contains(buffer) {
            return self.written.is_disjoint(&self.chosen);
        }
        !(self.has_barriers && self.read.contains(buffer))
    }
}
