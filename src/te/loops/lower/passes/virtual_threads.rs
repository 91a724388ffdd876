//! Virtual threads: one thread does the work of several, interleaved statement by statement.
//!
//! A loop bound to a virtual thread does not become one loop around everything inside it. A statement that depends on
//! the virtual thread runs for all virtual threads before the next statement begins, as if they ran in lockstep.
//! Statements that don't depend on it run once. Private memory of a virtual thread (`local`, allocated inside) whose
//! content differs between them gets a first dimension over them. Virtual threads share shared and global memory, as
//! threads do.
//!
//! Barriers are placed before this pass, between statements; the loop of a virtual thread does not count as a loop
//! around them. No virtual threads are left after this pass, so targets and printers need not know them.

use std::collections::HashSet;

use super::simplify::simplify;
use crate::te::arith::simplify as simplified;
use crate::te::error::{LoweringError, TeError};
use crate::te::expr::buffer::{Buffer, Scope};
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::thread::Thread;
use crate::te::expr::var::Var;
use crate::te::loops::ir::rewrite::{redirect, substitute, with_fresh_buffers};
use crate::te::loops::ir::stmt::{LoopKind, Stmt};

/// From this many virtual threads on, a statement is repeated by a loop instead of being written out.
const WRITTEN_OUT: i64 = 16;

/// Removes virtual threads from a program.
///
/// # Errors
/// [`LoweringError::VirtualThread`] if the work of the virtual threads can't be interleaved.
pub(crate) fn inject(statement: Stmt) -> Result<Stmt, TeError> {
    if !has_virtual(&statement) {
        return Ok(statement);
    }
    let statement = each_child(statement, &mut inject)?;
    match statement {
        Stmt::Launch { thread: Thread::Virtual, var, extent, body } => {
            let Some(count) = extent.as_int() else {
                return Err(refuse(var, "the number of virtual threads must be a constant"));
            };
            let mut injector =
                Injector { var, count, own: HashSet::new(), varying: HashSet::from([var]), touched: HashSet::new() };
            injector.private_memory(&body);
            while injector.touch(&body, false) {}
            injector.check_memory(&body)?;
            Ok(simplify(injector.interleave(*body)?))
        }
        other => Ok(other),
    }
}

fn has_virtual(statement: &Stmt) -> bool {
    matches!(statement, Stmt::Launch { thread: Thread::Virtual, .. })
        || statement.children().into_iter().any(has_virtual)
}

/// The statement with each direct inner statement replaced, or the first error.
fn each_child(statement: Stmt, f: &mut dyn FnMut(Stmt) -> Result<Stmt, TeError>) -> Result<Stmt, TeError> {
    let mut mistake = None;
    let result = statement.map_children(&mut |child| match (&mistake, f(child)) {
        (None, Err(error)) => {
            mistake = Some(error);
            Stmt::Seq(Vec::new())
        }
        (_, Ok(child)) => child,
        (Some(_), Err(_)) => Stmt::Seq(Vec::new()),
    });
    mistake.map_or(Ok(result), Err)
}

fn refuse(var: Var, reason: &'static str) -> TeError {
    LoweringError::VirtualThread { axis: var.name().to_owned(), reason }.into()
}

/// Interleaves the work of one loop of virtual threads.
struct Injector {
    var: Var,
    count: i64,
    /// Memory that each virtual thread has a copy of.
    own: HashSet<Buffer>,
    /// The variables whose values depend on the virtual thread.
    varying: HashSet<Var>,
    /// The copies whose content differs between virtual threads.
    touched: HashSet<Buffer>,
}

impl Injector {
    fn private_memory(&mut self, statement: &Stmt) {
        if let Stmt::Allocate { buffer, .. } = statement
            && buffer.scope() == Scope::Local
        {
            self.own.insert(buffer.clone());
        }
        statement.children().into_iter().for_each(|child| self.private_memory(child));
    }

    /// # Errors
    /// [`LoweringError::VirtualThread`] for memory whose extents depend on the virtual thread.
    fn check_memory(&self, statement: &Stmt) -> Result<(), TeError> {
        if let Stmt::Allocate { buffer, .. } = statement
            && buffer.allocation().iter().any(|extent| self.varies(extent))
        {
            let reason = "memory of a stage inside would have another extent for each virtual thread; compute the stage \
                          outside, or bind the loop to threads";
            return Err(refuse(self.var, reason));
        }
        statement.children().into_iter().try_for_each(|child| self.check_memory(child))
    }

    /// Whether the value may differ between virtual threads.
    fn varies(&self, x: &Expr) -> bool {
        let mut varies = false;
        x.visit(&mut |x| {
            varies |= match x.kind() {
                Kind::Var(var) => self.varying.contains(var),
                Kind::Load(buffer, _) => self.touched.contains(buffer),
                _ => false,
            };
        });
        varies
    }

    /// Adds everything that depends on the virtual thread because of a statement. `control` tells whether it depends on
    /// the virtual thread that the statement runs at all. Gives whether something was added.
    fn touch(&mut self, statement: &Stmt, control: bool) -> bool {
        let own = statement.expressions().into_iter().any(|x| self.varies(x));
        let depends = control || own;
        let mut new = false;
        match statement {
            Stmt::Let { var, .. } | Stmt::For { var, .. } if own => new |= self.varying.insert(*var),
            Stmt::Store { buffer, .. } if depends && self.own.contains(buffer) => {
                new |= self.touched.insert(buffer.clone());
            }
            Stmt::AllReduce(reduce) if depends => {
                for result in reduce.results.iter().filter(|result| self.own.contains(result)) {
                    new |= self.touched.insert(result.clone());
                }
            }
            _ => {}
        }
        let inside = depends && !matches!(statement, Stmt::Let { .. });
        for child in statement.children() {
            new |= self.touch(child, inside);
        }
        new
    }

    fn interleave(&self, statement: Stmt) -> Result<Stmt, TeError> {
        let depends = statement.expressions().into_iter().any(|x| self.varies(x));
        match statement {
            Stmt::Allocate { buffer, body } if self.touched.contains(&buffer) => {
                if reduces_into(&body, &buffer) {
                    return self.repeat(Stmt::Allocate { buffer, body });
                }
                // Each copy keeps its strides.
                let whole = buffer.strides().first().zip(buffer.shape().first());
                let step = whole.map_or_else(|| Expr::int(1), |(stride, extent)| simplified(&(stride * extent)));
                let shape = [Expr::int(self.count)].iter().chain(buffer.shape()).cloned().collect();
                let strides = [step].iter().chain(buffer.strides()).cloned().collect();
                let separators: Vec<usize> = buffer.separators().iter().map(|place| place + 1).collect();
                let all = Buffer::new(buffer.name(), buffer.dtype(), shape, strides, buffer.scope())
                    .with_separators(&separators);
                let place = |accessed: &Buffer, indices: &[Expr]| {
                    let mut of_thread = vec![Expr::from(self.var)];
                    of_thread.extend(indices.iter().cloned());
                    (*accessed == buffer).then(|| (all.clone(), of_thread))
                };
                let body = Box::new(self.interleave(redirect(*body, &place))?);
                Ok(Stmt::Allocate { buffer: all, body })
            }
            whole if depends => self.repeat(whole),
            other => each_child(other, &mut |child| self.interleave(child)),
        }
    }

    /// The statement for every virtual thread, one after another.
    fn repeat(&self, statement: Stmt) -> Result<Stmt, TeError> {
        if let Some(reason) = common(&statement) {
            return Err(refuse(self.var, reason));
        }
        if self.count < WRITTEN_OUT && !has_loop(&statement) {
            let copy =
                |i| with_fresh_buffers(substitute(statement.clone(), &|var| (var == self.var).then(|| Expr::int(i))));
            return Ok(Stmt::sequence((0..self.count).map(copy)));
        }
        let counter = Var::counter(&format!("{}.s", self.var.name()));
        let body = Box::new(substitute(statement, &|var| (var == self.var).then(|| counter.into())));
        Ok(Stmt::For { var: counter, extent: Expr::int(self.count), kind: LoopKind::Serial, body })
    }
}

/// The reason why a statement must not be done by one virtual thread after another, if there is one.
fn common(statement: &Stmt) -> Option<&'static str> {
    match statement {
        Stmt::Allocate { buffer, .. } if buffer.scope() != Scope::Local => Some(
            "memory that its virtual threads share is used under a loop or test that depends on the virtual thread",
        ),
        Stmt::Launch { .. } | Stmt::Barrier => {
            Some("threads are launched, or wait, under a loop or test that depends on the virtual thread")
        }
        other => other.children().into_iter().find_map(common),
    }
}

fn has_loop(statement: &Stmt) -> bool {
    matches!(statement, Stmt::For { .. }) || statement.children().into_iter().any(has_loop)
}

fn reduces_into(statement: &Stmt, buffer: &Buffer) -> bool {
    matches!(statement, Stmt::AllReduce(reduce) if reduce.results.contains(buffer))
        || statement.children().into_iter().any(|child| reduces_into(child, buffer))
}
