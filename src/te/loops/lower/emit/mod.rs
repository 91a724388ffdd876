//! Makes the loops of each stage, with the stages computed inside them, the initialisation and the tests.

mod access;
mod double_buffer;
mod prefetch;
mod rolling;
mod scan;
mod tensorize;
mod values;
mod within;

use crate::te::arith::{Context, equal};
use crate::te::error::{LoweringError, RunError, ScheduleError, TeError};
use crate::te::expr::axis::{Axis, AxisKind};
use crate::te::expr::buffer::{Buffer, Scope};
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::reduce::Reduce;
use crate::te::expr::tensor::{OperationKind, Tensor};
use crate::te::expr::thread::Thread;
use crate::te::expr::var::Var;
use crate::te::loops::ir::program::Program;
use crate::te::loops::ir::stmt::{LoopKind, Note, Stmt};
use crate::te::loops::lower::analysis::bounds::{Plan, argument_buffer};
use crate::te::loops::lower::analysis::over_threads::Over;
use crate::te::loops::lower::analysis::preconditions::requirements;
use crate::te::loops::lower::passes::double_buffer::DoubleBuffered;
use crate::te::loops::lower::passes::pragmas::{check_parallel, skip_regions};
use crate::te::loops::schedule::loops::keeps_order;
use crate::te::loops::schedule::{Attach, Schedule, Stage};
use crate::te::text::expression;

/// The program, and what later passes need to know about it.
pub(super) struct Emitted {
    pub(super) program: Program,
    /// The stages whose memory gets two halves.
    pub(super) doubled: Vec<DoubleBuffered>,
}

pub(super) fn emit(schedule: &Schedule, plan: Plan, arguments: &[&Tensor], name: &str) -> Result<Emitted, TeError> {
    let mut given: Vec<(Tensor, Buffer)> = Vec::with_capacity(arguments.len());
    for tensor in arguments {
        let missing = || ScheduleError::NotScheduled { tensor: tensor.name() };
        let unread = matches!(tensor.operation().kind(), OperationKind::Placeholder { .. });
        let buffer = match schedule.index_of(tensor.operation()) {
            Some(index) => plan.buffers[index].get(tensor.value()).cloned(),
            None => unread.then(|| argument_buffer(tensor, None)),
        };
        let buffer = buffer.ok_or_else(missing)?;
        if let Some((other, _)) = given.iter().find(|(_, known)| *known == buffer) {
            let reason = match other == *tensor {
                true => "it is given twice among the arguments".to_owned(),
                false => format!("it lies in the memory of {}, which is among the arguments, too", other.name()),
            };
            return Err(RunError::Argument { tensor: tensor.name(), reason }.into());
        }
        given.push(((*tensor).clone(), buffer));
    }
    let requirements = requirements(schedule, &plan)?;
    let mut emitter = Emitter { schedule, plan, context: Context::default(), launched: Vec::new() };
    let body = within::proved(skip_regions(emitter.roots()?));
    check_parallel(&body)?;
    let doubled = emitter.double_buffered();
    let program = Program { name: name.to_owned(), arguments: given, requirements, body };
    Ok(Emitted { program, doubled })
}

/// How a stage's reduction is done, at a place in its loops.
struct Reducing {
    over: Over,
    /// Private memory of each thread, for the serial loops before a reduction over threads.
    partial: Vec<Buffer>,
}

pub(super) struct Emitter<'a> {
    pub(super) schedule: &'a Schedule,
    pub(super) plan: Plan,
    pub(super) context: Context,
    /// The thread indices in scope, with the variable of each.
    launched: Vec<(Thread, Var, Expr)>,
}

impl Emitter<'_> {
    fn stage(&self, index: usize) -> &Stage {
        &self.schedule.stages[index]
    }

    /// Makes what `body` makes, inside a launch of thread indices.
    fn launching(
        &mut self,
        threads: Vec<(Thread, Var, Expr)>,
        body: impl FnOnce(&mut Self) -> Result<Stmt, TeError>,
    ) -> Result<Stmt, TeError> {
        for (thread, var, extent) in &threads {
            self.launched.push((*thread, *var, extent.clone()));
            self.context.push(*var, extent);
        }
        let made = body(self);
        for _ in &threads {
            self.launched.pop();
            self.context.pop();
        }
        let launch = |body, (thread, var, extent)| Stmt::Launch { thread, var, extent, body: Box::new(body) };
        made.map(|body| threads.into_iter().rev().fold(body, launch))
    }

    /// The extent of a thread index in the first of some stages that binds a loop to it.
    fn extent_among(&self, thread: Thread, stages: impl Fn(usize) -> bool) -> Result<Option<Expr>, TeError> {
        let mut bound =
            self.schedule.stages.iter().enumerate().filter(|(part, _)| stages(*part)).filter_map(|(part, stage)| {
                let (leaf, _) = stage.threads.iter().find(|(_, axis)| axis.thread() == Some(thread))?;
                Some((part, *leaf))
            });
        bound.next().map(|(part, leaf)| self.extent(part, leaf)).transpose()
    }

    /// Makes every stage that is computed separately, in order.
    fn roots(&mut self) -> Result<Stmt, TeError> {
        let mut statements = Vec::new();
        let mut memory = self.plan.unasked.clone();
        for index in 0..self.schedule.stages.len() {
            let stage = self.stage(index);
            let alone = matches!(stage.attach, Attach::Root) && stage.group.is_none();
            if !alone || matches!(stage.operation.kind(), OperationKind::Placeholder { .. }) {
                continue;
            }
            if self.plan.internal[index] {
                memory.extend(self.plan.buffers[index].iter().cloned());
            }
            statements.push(self.nest(index)?);
        }
        Ok(allocate(memory, Stmt::sequence(statements)))
    }

    /// Makes one stage with everything that is computed inside it.
    fn nest(&mut self, index: usize) -> Result<Stmt, TeError> {
        match self.stage(index).operation.kind() {
            OperationKind::Placeholder { .. } => Ok(Stmt::Seq(Vec::new())),
            OperationKind::Scan(_) => self.scan(index),
            OperationKind::Compute(compute) => {
                if let Kind::Reduce(reduce, _) = compute.body[0].kind()
                    && !reduce.combiner.commutative
                    && !keeps_order(self.stage(index))
                {
                    let stage = self.stage(index).name().to_owned();
                    let reason = "its reducer is not commutative, and the loops would change the order";
                    return Err(LoweringError::ThreadReduction { stage, reason }.into());
                }
                let nest = self.plan.nests[index].as_ref();
                let once = |leaf| nest.is_some_and(|nest| nest.extent(leaf).as_int() == Some(1));
                let over = Over::of(self.stage(index), once)?;
                self.level(index, 0, &Reducing { over, partial: Vec::new() })
            }
        }
    }

    /// Makes the loops of a stage from a place on.
    fn level(&mut self, index: usize, place: usize, reducing: &Reducing) -> Result<Stmt, TeError> {
        let schedule = self.schedule;
        let stage = &schedule.stages[index];
        let mut statements = Vec::new();
        let mut memory = Vec::new();
        if place > 0 {
            (statements, memory) = self.attached(index, stage.leaves[place - 1])?;
            statements.extend(self.prefetches(index, place)?);
        }
        let first_reduction = stage.leaves.iter().position(|leaf| leaf.kind() == AxisKind::Reduce);
        let starts = first_reduction.unwrap_or(stage.leaves.len()) == place;
        let reduce = stage.operation.as_compute().and_then(|compute| match compute.body[0].kind() {
            Kind::Reduce(reduce, _) => Some(reduce.clone()),
            _ => None,
        });
        let tensorized = stage.tensorized_from()?;
        let whole = tensorized.is_some_and(|from| from <= place);
        if let Some(reduce) = reduce.as_ref().filter(|_| starts && !whole) {
            let (initial, nothing) = match reducing.over {
                Over::Loops => (Some(self.initialise(index, place, reduce)?), false),
                Over::Threads | Over::ThreadsAfterLoops(_) => self.over_no_threads(index, place, reduce)?,
            };
            statements.extend(initial);
            if nothing {
                return Ok(allocate(memory, Stmt::sequence(statements)));
            }
        }
        let each_first = reducing.over == Over::ThreadsAfterLoops(place) && reducing.partial.is_empty();
        if let Some(reduce) = reduce.as_ref().filter(|_| each_first) {
            statements.push(self.threads_after_loops(index, place, reduce, reducing.over)?);
        } else if tensorized == Some(place) {
            statements.push(self.tensorized(index, place)?);
        } else if let Some(leaf) = stage.leaves.get(place) {
            statements.push(self.around(index, *leaf, &mut |this| this.level(index, place + 1, reducing))?);
        } else {
            statements.push(self.provide(index, reducing)?);
        }
        Ok(allocate(memory, Stmt::sequence(statements)))
    }

    /// Makes the serial loops of a reduction, whose values each thread combines in private memory, and then the
    /// reduction over the threads.
    fn threads_after_loops(
        &mut self,
        index: usize,
        place: usize,
        reduce: &Reduce,
        over: Over,
    ) -> Result<Stmt, TeError> {
        let partial = |(i, x): (usize, &Expr)| {
            Buffer::compact(&format!("partial{i}"), x.dtype(), vec![Expr::int(1)], Scope::Local)
        };
        let partial: Vec<Buffer> = reduce.source.iter().enumerate().map(partial).collect();
        let reset = partial.iter().zip(&reduce.combiner.identity).map(|(buffer, identity)| Stmt::Store {
            buffer: buffer.clone(),
            indices: vec![Expr::int(0)],
            value: identity.clone(),
        });
        let mut statements: Vec<Stmt> = reset.collect();
        let leaf = self.stage(index).leaves[place];
        let reducing = Reducing { over, partial };
        statements.push(self.around(index, leaf, &mut |this| this.level(index, place + 1, &reducing))?);
        let own = |buffer: &Buffer| Expr::new(buffer.dtype(), Kind::Load(buffer.clone(), vec![Expr::int(0)]));
        let source = reducing.partial.iter().map(own).collect();
        statements.push(self.reduce_over_threads(index, reduce, source, Expr::truth(true))?);
        Ok(allocate(reducing.partial, Stmt::sequence(statements)))
    }

    /// Makes the stages computed inside a loop, and gives their memory.
    fn attached(&mut self, index: usize, leaf: Axis) -> Result<(Vec<Stmt>, Vec<Buffer>), TeError> {
        let (mut statements, mut memory) = (Vec::new(), Vec::new());
        for child in 0..self.schedule.stages.len() {
            let here = matches!(&self.stage(child).attach, Attach::At(operation, axis)
                if self.schedule.index_of(operation) == Some(index) && *axis == leaf);
            if here {
                memory.extend(self.plan.buffers[child].iter().cloned());
                statements.push(self.nest(child)?);
            }
        }
        Ok((statements, memory))
    }

    /// Makes a loop around what `body` makes: a plain loop, a launch, or nothing for a single iteration.
    fn around(
        &mut self,
        index: usize,
        leaf: Axis,
        body: &mut dyn FnMut(&mut Self) -> Result<Stmt, TeError>,
    ) -> Result<Stmt, TeError> {
        let schedule = self.schedule;
        let stage = &schedule.stages[index];
        let extent = self.extent(index, leaf)?;
        let kind = stage.kinds.get(&leaf).copied().unwrap_or(LoopKind::Serial);
        let Some(axis) = stage.threads.get(&leaf).copied() else {
            if extent.as_int() == Some(1) {
                return Ok(with_pragmas(stage, leaf, body(self)?));
            }
            self.context.push(leaf.var(), &extent);
            let inner = body(self);
            self.context.pop();
            let statement = Stmt::For { var: leaf.var(), extent, kind, body: Box::new(inner?) };
            return Ok(with_pragmas(stage, leaf, statement));
        };
        let Some(thread) = axis.thread() else {
            return Err(ScheduleError::NotAThread { name: axis.name().to_owned() }.into());
        };
        let is_virtual = thread == Thread::Virtual;
        if is_virtual && extent.as_int().is_none_or(|extent| extent < 1) {
            let axis = format!("{} of {} (extent {})", leaf.name(), stage.name(), expression(&extent));
            let reason = "a loop bound to a virtual thread needs a constant extent; split it by a constant first";
            return Err(LoweringError::VirtualThread { axis, reason }.into());
        }
        self.context.push(axis.var(), &extent);
        // Each axis of a virtual thread is separate.
        let same = |(known, var, _): &&(Thread, Var, Expr)| *known == thread && (!is_virtual || *var == axis.var());
        let known = self.launched.iter().find(same).cloned();
        let result = match known {
            Some((_, var, launched)) => {
                let inner = body(self);
                if !equal(&launched, &extent) {
                    self.context.pop();
                    return Err(LoweringError::ThreadExtent {
                        thread: thread.name(),
                        stage: self.stage(index).name().to_owned(),
                        needed: expression(&launched),
                        given: expression(&extent),
                    }
                    .into());
                }
                inner.map(|inner| with_pragmas(stage, leaf, rename(inner, axis.var(), var)))
            }
            None => {
                self.launched.push((thread, axis.var(), extent.clone()));
                let inner = body(self);
                self.launched.pop();
                inner.map(|inner| {
                    let body = Box::new(with_pragmas(stage, leaf, inner));
                    Stmt::Launch { thread, var: axis.var(), extent, body }
                })
            }
        };
        self.context.pop();
        result
    }
}

/// Wraps a statement in the pragmas of a loop.
fn with_pragmas(stage: &Stage, leaf: Axis, statement: Stmt) -> Stmt {
    let own = stage.pragmas.iter().filter(|(axis, _)| *axis == leaf);
    own.rev()
        .fold(statement, |body, (axis, pragma)| Stmt::Note { note: Note::Pragma(*axis, *pragma), body: Box::new(body) })
}

fn allocate(buffers: Vec<Buffer>, body: Stmt) -> Stmt {
    buffers.into_iter().rev().fold(body, |body, buffer| Stmt::Allocate { buffer, body: Box::new(body) })
}

fn rename(statement: Stmt, from: Var, to: Var) -> Stmt {
    let replace = |var: Var| (var == from).then(|| Expr::from(to));
    crate::te::loops::ir::rewrite::substitute(statement, &replace)
}
