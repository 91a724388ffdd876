//! Runs launches as loops: a program for a device's threads, one block at a time.
//!
//! Blocks run on the host's threads in any order: no block waits for another, and none reads what another wrote before
//! the launch is over (lowering refuses everything else). The threads of a block meet at a barrier, at a reduction over
//! threads, and where one reads memory that another wrote. The statements between two meeting points become a nest of
//! loops over the threads, so that all threads have arrived at each point. Private memory that is used on both sides of
//! a point becomes an array over threads.
//!
//! A loop that contains a meeting point must have the same number of iterations in all threads. A condition around one
//! may depend on thread indices, but not on memory. Everything else is refused.

use std::collections::HashMap;

use crate::te::arith::simplify;
use crate::te::error::{LoweringError, TeError};
use crate::te::expr::buffer::{Buffer, Scope};
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::thread::Thread;
use crate::te::expr::var::Var;
use crate::te::loops::ir::rewrite::{redirect, substitute};
use crate::te::loops::ir::stmt::{AllReduce, LoopKind, Stmt};

/// This many blocks along one axis are enough for the host's threads.
const ENOUGH_BLOCKS: i64 = 64;

/// Removes launches, barriers and reductions over threads from a program.
pub(super) fn serialize(body: Stmt) -> Result<Stmt, TeError> {
    Serializer::default().host(body)
}

#[derive(Default)]
struct Serializer {
    /// Private memory of threads that is allocated outside their launch.
    waiting: Vec<Buffer>,
    /// Whether a loop over blocks around this place already uses all of the host's threads.
    shared_out: bool,
    /// Memory that the program allocates and that all blocks use.
    scratch: Vec<Buffer>,
}

/// The threads of a launch: their index, its variable, and how many they are.
type Axis = (Thread, Var, Expr);

/// The threads that run a statement, outermost first, each with its condition.
#[derive(Clone, Default)]
struct Threads {
    axes: Vec<Axis>,
    guards: Vec<Expr>,
}

impl Serializer {
    /// Rewrites a statement outside the launches of threads. Each kind of statement has a function of its own. This
    /// function calls itself at every level of nesting, so it must use little of the stack.
    fn host(&mut self, statement: Stmt) -> Result<Stmt, TeError> {
        match statement {
            Stmt::Launch { thread: Thread::Block(_), .. } => self.blocks(statement),
            Stmt::Launch { .. } => self.launch(statement),
            Stmt::Allocate { .. } => self.allocation(statement),
            Stmt::AllReduce(_) => Err(refuse("a reduction over threads that are not launched".to_owned())),
            Stmt::Barrier => Ok(Stmt::Seq(Vec::new())),
            other => map(other, &mut |child| self.host(child)),
        }
    }

    /// Rewrites a launch of blocks to a loop.
    fn blocks(&mut self, statement: Stmt) -> Result<Stmt, TeError> {
        let Stmt::Launch { var, extent, body, .. } = statement else { return Ok(statement) };
        let outside = self.shared_out;
        // Blocks that share memory allocated outside of them take turns.
        self.shared_out |= self.scratch.iter().any(|buffer| is_written_and_read(&body, buffer));
        let kind = if self.shared_out { LoopKind::Serial } else { LoopKind::Parallel };
        self.shared_out |= extent.as_int().is_none_or(|blocks| blocks >= ENOUGH_BLOCKS);
        let body = self.host(*body);
        self.shared_out = outside;
        Ok(Stmt::For { var, extent, kind, body: Box::new(body?) })
    }

    /// Rewrites a launch of threads.
    fn launch(&mut self, statement: Stmt) -> Result<Stmt, TeError> {
        let Stmt::Launch { thread, var, extent, body } = statement else { return Ok(statement) };
        let threads = Threads { axes: vec![(thread, var, extent)], guards: Vec::new() };
        let mut used = Vec::new();
        accessed(&body, &mut used);
        let own: Vec<Buffer> = self.waiting.iter().filter(|buffer| used.contains(buffer)).cloned().collect();
        let inner = |this: &mut Self, body| this.threads(body, &threads);
        self.with_arrays(own, &threads, *body, inner)
    }

    /// Rewrites an allocation and the statement inside it. A chain of stages can nest hundreds of these.
    fn allocation(&mut self, mut statement: Stmt) -> Result<Stmt, TeError> {
        let (shared_out, waiting, scratch) = (self.shared_out, self.waiting.len(), self.scratch.len());
        while let Stmt::Allocate { buffer, body } = statement {
            if buffer.scope() == Scope::Local && is_each_threads(&body, &buffer)? {
                self.waiting.push(buffer);
            } else {
                // Private memory of a block that is allocated outside its blocks exists once, so the blocks take turns.
                self.shared_out |= matches!(buffer.scope(), Scope::Shared | Scope::Warp);
                self.scratch.push(buffer);
            }
            statement = *body;
        }
        let made = self.host(statement);
        self.shared_out = shared_out;
        self.waiting.truncate(waiting);
        let kept: Vec<Buffer> = self.scratch.drain(scratch..).collect();
        let around = |body, buffer| Stmt::Allocate { buffer, body: Box::new(body) };
        made.map(|body| kept.into_iter().rev().fold(body, around))
    }

    /// Rewrites a statement inside a launch of threads.
    fn threads(&mut self, statement: Stmt, threads: &Threads) -> Result<Stmt, TeError> {
        if !meets(&statement) {
            return Ok(threads.each(plain(statement)?));
        }
        match statement {
            Stmt::Barrier => Ok(Stmt::Seq(Vec::new())),
            Stmt::AllReduce(reduce) => all_reduce(&reduce, threads),
            Stmt::Seq(statements) => self.sequence(statements, threads),
            Stmt::Launch { thread: thread @ Thread::Thread(_), var, extent, body } => {
                let mut inner = threads.clone();
                inner.axes.push((thread, var, extent));
                self.threads(*body, &inner)
            }
            Stmt::Launch { thread, .. } => Err(refuse(format!("{} launched inside threads", thread.name()))),
            Stmt::For { var, extent, kind, body } => {
                if threads.varies(&extent) {
                    return Err(refuse(format!(
                        "a loop around a barrier whose extent differs from thread to thread ({})",
                        var.name()
                    )));
                }
                // Conditions must not depend on the loop, because they are tested inside it.
                Ok(Stmt::For { var, extent, kind, body: Box::new(self.threads(*body, threads)?) })
            }
            Stmt::If { condition, then } if !threads.varies(&condition) => {
                Ok(Stmt::If { condition, then: Box::new(self.threads(*then, threads)?) })
            }
            Stmt::If { condition, then } => {
                if condition.loads() {
                    return Err(refuse("a barrier under a condition that reads memory".to_owned()));
                }
                let mut inner = threads.clone();
                inner.guards.push(condition);
                self.threads(*then, &inner)
            }
            Stmt::Let { var, value, body } => {
                if value.loads() {
                    return Err(refuse(format!("a barrier inside the scope of {}, which reads memory", var.name())));
                }
                let replace = |v: Var| (v == var).then(|| value.clone());
                self.threads(substitute(*body, &replace), threads)
            }
            Stmt::Allocate { buffer, body } if buffer.scope() == Scope::Local => {
                self.with_arrays(vec![buffer], threads, *body, |this, body| this.threads(body, threads))
            }
            Stmt::Allocate { buffer, body } => {
                Ok(Stmt::Allocate { buffer, body: Box::new(self.threads(*body, threads)?) })
            }
            Stmt::Note { body, .. } => self.threads(*body, threads),
            store @ (Stmt::Store { .. } | Stmt::Prefetch { .. }) => Ok(threads.each(store)),
        }
    }

    /// Fuses statements without barriers that share no data between threads into one loop over the threads.
    fn sequence(&mut self, statements: Vec<Stmt>, threads: &Threads) -> Result<Stmt, TeError> {
        let mut result = Vec::new();
        let mut together: Vec<Stmt> = Vec::new();
        for statement in statements {
            let apart = meets(&statement);
            let mut joined = together.clone();
            joined.push(statement.clone());
            if !apart && !meets(&Stmt::Seq(joined.clone())) {
                together = joined;
                continue;
            }
            if !together.is_empty() {
                result.push(threads.each(plain(Stmt::sequence(std::mem::take(&mut together)))?));
            }
            if apart {
                result.push(self.threads(statement, threads)?);
            } else {
                together.push(statement);
            }
        }
        if !together.is_empty() {
            result.push(threads.each(plain(Stmt::sequence(together))?));
        }
        Ok(Stmt::sequence(result))
    }

    /// Replaces private memory of threads, which is allocated inside their launch, by each thread's part of an array.
    fn with_arrays(
        &mut self,
        buffers: Vec<Buffer>,
        threads: &Threads,
        body: Stmt,
        run: impl FnOnce(&mut Self, Stmt) -> Result<Stmt, TeError>,
    ) -> Result<Stmt, TeError> {
        let mut arrays = HashMap::new();
        let mut order = Vec::new();
        for buffer in buffers {
            let owners = threads.owners(&buffer, &body)?;
            let mut shape: Vec<Expr> = owners.iter().map(|(.., extent)| extent.clone()).collect();
            shape.extend(buffer.allocation());
            let array = Buffer::compact(buffer.name(), buffer.dtype(), shape, Scope::Local);
            let number = owners.iter().fold(Expr::int(0), |n, (_, var, extent)| n * extent + Expr::from(*var));
            order.push(array.clone());
            arrays.insert(buffer, (array, number));
        }
        let own = |buffer: &Buffer, indices: &[Expr]| {
            let (array, number) = arrays.get(buffer)?;
            let size = buffer.length();
            let inside = indices.first().cloned().unwrap_or_else(|| Expr::int(0));
            Some((array.clone(), vec![simplify(&(number * size + inside))]))
        };
        // This is done last, so that the results of reductions over threads are ordinary stores.
        let body = redirect(run(self, body)?, &own);
        Ok(order.into_iter().rev().fold(body, |body, buffer| Stmt::Allocate { buffer, body: Box::new(body) }))
    }
}

impl Threads {
    /// A statement for every thread that takes part.
    fn each(&self, statement: Stmt) -> Stmt {
        if statement.is_empty() {
            return statement;
        }
        self.loops(&self.axes, self.guarded(statement))
    }

    fn guarded(&self, statement: Stmt) -> Stmt {
        self.guards
            .iter()
            .rev()
            .fold(statement, |then, condition| Stmt::If { condition: condition.clone(), then: Box::new(then) })
    }

    fn loops(&self, axes: &[Axis], body: Stmt) -> Stmt {
        axes.iter().rev().fold(body, |body, (_, var, extent)| Stmt::For {
            var: *var,
            extent: extent.clone(),
            kind: LoopKind::Serial,
            body: Box::new(body),
        })
    }

    /// The threads that each have a copy of private memory: those of the launches around a statement, and inside of it around all
    /// that uses the memory.
    fn owners(&self, buffer: &Buffer, body: &Stmt) -> Result<Vec<Axis>, TeError> {
        let mut found = Vec::new();
        launches_around(buffer, body, &mut self.axes.clone(), &mut found);
        let known = |axes: &[Axis]| axes.iter().map(|(thread, var, _)| (*thread, *var)).collect::<Vec<_>>();
        if found.iter().any(|axes| known(axes) != known(&found[0])) {
            let name = buffer.name();
            return Err(refuse(format!(
                "{name}, a thread's own memory that other threads, of a launch inside, use, too"
            )));
        }
        Ok(found.into_iter().next().unwrap_or_else(|| self.axes.clone()))
    }

    /// Whether a value may differ from thread to thread.
    fn varies(&self, x: &Expr) -> bool {
        x.loads() || self.axes.iter().any(|(_, var, _)| x.uses(*var))
    }
}

/// Combines values of several threads in thread order, for every choice of the indices that are not reduced over.
fn all_reduce(reduce: &AllReduce, threads: &Threads) -> Result<Stmt, TeError> {
    let reduced: Vec<Thread> = reduce.threads.iter().filter_map(|axis| axis.thread()).collect();
    let (inner, outer): (Vec<_>, Vec<_>) =
        threads.axes.iter().cloned().partition(|(thread, ..)| reduced.contains(thread));
    if inner.len() != reduced.len() {
        return Err(refuse("a reduction over threads that are not launched".to_owned()));
    }
    let scalar = |prefix: &str, x: &Expr| Buffer::compact(prefix, x.dtype(), vec![Expr::int(1)], Scope::Local);
    let totals: Vec<Buffer> = reduce.combiner.identity.iter().map(|x| scalar("total", x)).collect();
    let at = |buffer: &Buffer| Expr::new(buffer.dtype(), Kind::Load(buffer.clone(), vec![Expr::int(0)]));
    let store =
        |buffer: &Buffer, value: Expr| Stmt::Store { buffer: buffer.clone(), indices: vec![Expr::int(0)], value };
    let start: Vec<Stmt> = totals.iter().zip(&reduce.combiner.identity).map(|(b, x)| store(b, x.clone())).collect();
    let left: Vec<Expr> = totals.iter().map(at).collect();
    let combined = reduce.combiner.combine(&left, &reduce.source);
    let fresh: Vec<Var> = combined.iter().map(|x| Var::local("combined", x.dtype())).collect();
    let stores = Stmt::sequence(totals.iter().zip(&fresh).map(|(b, var)| store(b, Expr::from(*var))));
    let step = fresh.iter().zip(combined).rev().fold(stores, |body, (var, value)| Stmt::Let {
        var: *var,
        value,
        body: Box::new(body),
    });
    let step = Stmt::If { condition: reduce.condition.clone(), then: Box::new(step) };
    let give = Stmt::sequence(reduce.results.iter().zip(&totals).map(|(result, total)| store(result, at(total))));
    let mut statements = start;
    statements.push(threads.loops(&inner, threads.guarded(step)));
    statements.push(threads.loops(&inner, threads.guarded(give)));
    let body = totals
        .into_iter()
        .rev()
        .fold(Stmt::sequence(statements), |body, buffer| Stmt::Allocate { buffer, body: Box::new(body) });
    Ok(threads.loops(&outer, body))
}

/// A statement for one thread: launches inside it become loops.
fn plain(statement: Stmt) -> Result<Stmt, TeError> {
    match statement {
        Stmt::Launch { thread: Thread::Thread(_), var, extent, body } => {
            Ok(Stmt::For { var, extent, kind: LoopKind::Serial, body: Box::new(plain(*body)?) })
        }
        Stmt::Launch { thread, .. } => Err(refuse(format!("{} launched inside threads", thread.name()))),
        other => map(other, &mut plain),
    }
}

/// Whether the threads meet somewhere inside a statement.
fn meets(statement: &Stmt) -> bool {
    if matches!(statement, Stmt::Barrier | Stmt::AllReduce(_)) {
        return true;
    }
    if matches!(statement, Stmt::Allocate { buffer, .. } if buffer.scope() != Scope::Local) {
        return true;
    }
    // A single statement reads before it writes. Several, or its next iteration, may see what other threads wrote.
    let several = matches!(statement, Stmt::For { .. } | Stmt::Seq(_));
    several && hands_over(statement) || statement.children().into_iter().any(meets)
}

/// Whether memory that several threads can access is written at one index and read at another.
fn hands_over(statement: &Stmt) -> bool {
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    collect(statement, &mut writes, &mut reads);
    writes.iter().any(|(buffer, written)| {
        buffer.scope() != Scope::Local && reads.iter().any(|(other, read)| other == buffer && read != written)
    })
}

fn is_written_and_read(statement: &Stmt, buffer: &Buffer) -> bool {
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    collect(statement, &mut writes, &mut reads);
    let uses = |accesses: &[Access]| accesses.iter().any(|(other, _)| other == buffer);
    uses(&writes) && uses(&reads)
}

type Access = (Buffer, Vec<Expr>);

fn collect(statement: &Stmt, writes: &mut Vec<Access>, reads: &mut Vec<Access>) {
    if let Stmt::Store { buffer, indices, .. } = statement {
        writes.push((buffer.clone(), indices.clone()));
    }
    for x in statement.expressions() {
        x.visit(&mut |x| {
            if let Kind::Load(buffer, indices) = x.kind() {
                reads.push((buffer.clone(), indices.clone()));
            }
        });
    }
    statement.children().into_iter().for_each(|child| collect(child, writes, reads));
}

fn accessed(statement: &Stmt, found: &mut Vec<Buffer>) {
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    collect(statement, &mut writes, &mut reads);
    found.extend(writes.into_iter().chain(reads).map(|(buffer, _)| buffer));
    fn results(statement: &Stmt, found: &mut Vec<Buffer>) {
        if let Stmt::AllReduce(reduce) = statement {
            found.extend(reduce.results.iter().cloned());
        }
        statement.children().into_iter().for_each(|child| results(child, found));
    }
    results(statement, found);
}

/// The launches around each access to a buffer, outermost first, with those `around` the statement.
fn launches_around(buffer: &Buffer, statement: &Stmt, around: &mut Vec<Axis>, found: &mut Vec<Vec<Axis>>) {
    if uses(statement, buffer) {
        found.push(around.clone());
    }
    if let Stmt::Launch { thread, var, extent, .. } = statement {
        around.push((*thread, *var, extent.clone()));
    }
    statement.children().into_iter().for_each(|child| launches_around(buffer, child, around, found));
    if matches!(statement, Stmt::Launch { .. }) {
        around.pop();
    }
}

/// Whether a statement, without those inside of it, uses a buffer.
fn uses(statement: &Stmt, buffer: &Buffer) -> bool {
    let written = match statement {
        Stmt::Store { buffer: other, .. } => other == buffer,
        Stmt::AllReduce(reduce) => reduce.results.contains(buffer),
        _ => false,
    };
    let read = |x: &Expr| {
        let mut found = false;
        x.visit(&mut |x| found |= matches!(x.kind(), Kind::Load(other, _) if other == buffer));
        found
    };
    written || statement.expressions().into_iter().any(read)
}

/// Whether each thread has its own copy of memory that is allocated outside the launches of threads. A value that one launch leaves for another, or for the host, is the same in all its threads.
/// (It is a total, as lowering has checked.) So one copy is enough.
fn is_each_threads(body: &Stmt, buffer: &Buffer) -> Result<bool, TeError> {
    let mut launches = Vec::new();
    launches_using(body, buffer, &mut launches);
    if launches.len() <= 1 && !used_outside(body, buffer) {
        return Ok(!launches.is_empty());
    }
    if launches.into_iter().any(|launch| is_written_and_read(launch, buffer)) {
        let name = buffer.name();
        return Err(refuse(format!("{name}, a thread's own memory that threads go on with after their launch")));
    }
    Ok(false)
}

/// The launches of threads inside a statement that use a buffer; launches inside other launches are not included.
fn launches_using<'a>(statement: &'a Stmt, buffer: &Buffer, found: &mut Vec<&'a Stmt>) {
    if matches!(statement, Stmt::Launch { thread: Thread::Thread(_), .. }) {
        let mut used = Vec::new();
        accessed(statement, &mut used);
        found.extend(used.contains(buffer).then_some(statement));
        return;
    }
    statement.children().into_iter().for_each(|child| launches_using(child, buffer, found));
}

/// Whether a buffer is used outside the launches of threads.
fn used_outside(statement: &Stmt, buffer: &Buffer) -> bool {
    if matches!(statement, Stmt::Launch { thread: Thread::Thread(_), .. }) {
        return false;
    }
    uses(statement, buffer) || statement.children().into_iter().any(|child| used_outside(child, buffer))
}

/// Replaces each direct inner statement, or gives the first error.
fn map(statement: Stmt, f: &mut dyn FnMut(Stmt) -> Result<Stmt, TeError>) -> Result<Stmt, TeError> {
    let mut mistake = None;
    let result = statement.map_children(&mut |child| {
        f(child).unwrap_or_else(|error| {
            mistake.get_or_insert(error);
            Stmt::Seq(Vec::new())
        })
    });
    mistake.map_or(Ok(result), Err)
}

fn refuse(what: String) -> TeError {
    LoweringError::Target { what, target: "native code" }.into()
}
