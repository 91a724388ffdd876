//! Makes the work of one iteration of a stage's loops: values, initial values, reductions over threads, and the tests
//! under which they are stored.

use super::{Emitter, Reducing, allocate};
use crate::te::arith::simplify_in;
use crate::te::error::{LoweringError, ScheduleError, TeError};
use crate::te::expr::axis::{Axis, AxisKind};
use crate::te::expr::buffer::{Buffer, Scope};
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::reduce::Reduce;
use crate::te::expr::tensor::Compute;
use crate::te::expr::thread::Thread;
use crate::te::expr::var::Var;
use crate::te::loops::ir::stmt::{AllReduce, Stmt};
use crate::te::loops::lower::analysis::over_threads::Over;

impl Emitter<'_> {
    /// Makes the identities or initial values, over the data loops from a place on.
    pub(super) fn initialise(&mut self, index: usize, place: usize, reduce: &Reduce) -> Result<Stmt, TeError> {
        let schedule = self.schedule;
        let stage = &schedule.stages[index];
        let tensorized = stage.tensorized_from()?;
        let end = tensorized.unwrap_or(stage.leaves.len());
        let mut loops = stage.leaves.get(place..end).map(<[Axis]>::to_vec).unwrap_or_default();
        loops.retain(|leaf| leaf.kind() != AxisKind::Reduce);
        let Some((nest, parts)) = self.plan.nests[index].as_ref().and_then(|nest| nest.over_data(stage)) else {
            return self.initial_stores(index, &loops, reduce);
        };
        if tensorized.is_some() {
            return Err(ScheduleError::Primitive {
                primitive: "tensorize",
                stage: stage.name().to_owned(),
                reason: "a loop of it is fused of data and reduction axes; an intrinsic needs them apart".to_owned(),
            }
            .into());
        }
        loops.extend(parts);
        let whole = self.plan.nests[index].replace(nest);
        let result = self.initial_stores(index, &loops, reduce);
        self.plan.nests[index] = whole;
        result
    }

    pub(super) fn initial_stores(&mut self, index: usize, loops: &[Axis], reduce: &Reduce) -> Result<Stmt, TeError> {
        if let Some((leaf, rest)) = loops.split_first() {
            return self.around(index, *leaf, &mut |this| this.initial_stores(index, rest, reduce));
        }
        if let Some(from) = self.schedule.stages[index].tensorized_from()? {
            return self.tensorized_reset(index, from);
        }
        let values = if reduce.init.is_empty() { &reduce.combiner.identity } else { &reduce.init };
        let stores = self.stores(index, values)?;
        let mut bounds = self.split_bounds(index, |axis| axis.kind() == AxisKind::Data)?;
        if !reduce.init.is_empty() || !self.plan.internal[index] {
            bounds.extend(self.domain_bounds(index));
        }
        bounds.extend(self.is_new(index));
        bounds.extend(self.first_of_idle(index));
        self.where_stored(index, bounds, stores)
    }

    /// Makes the work of one iteration of all loops. Data axes that a loop over data and reduction axes determines get
    /// a name, the same as where the reduction is initialised.
    pub(super) fn provide(&mut self, index: usize, reducing: &Reducing) -> Result<Stmt, TeError> {
        let stage = &self.schedule.stages[index];
        let Some((nest, parts)) = self.plan.nests[index].as_ref().and_then(|nest| nest.with_parts(stage)) else {
            return self.provide_with(index, reducing);
        };
        for (axis, _) in &parts {
            self.context.push(axis.var(), &nest.extent(*axis));
        }
        let whole = self.plan.nests[index].replace(nest);
        let result = self.provide_with(index, reducing);
        self.plan.nests[index] = whole;
        parts.iter().for_each(|_| self.context.pop());
        let named = |body, (axis, value): (Axis, Expr)| Stmt::Let { var: axis.var(), value, body: Box::new(body) };
        Ok(parts.into_iter().fold(result?, named))
    }

    pub(super) fn provide_with(&mut self, index: usize, reducing: &Reducing) -> Result<Stmt, TeError> {
        let schedule = self.schedule;
        let stage = &schedule.stages[index];
        let Some(compute) = stage.operation.as_compute() else { return Ok(Stmt::Seq(Vec::new())) };
        let mut bounds = self.split_bounds(index, |_| true)?;
        bounds.extend(self.domain_bounds(index));
        bounds.extend(self.is_new(index));
        bounds.extend(self.first_of_idle(index));
        match compute.body[0].kind() {
            Kind::Reduce(reduce, _) if reducing.over == Over::Threads => {
                let source = self.sources(index, reduce)?;
                let mut all = self.simplified(bounds);
                all.extend(self.lowered(index, &reduce.condition)?.conjuncts().into_iter().cloned());
                let all = all.into_iter().filter(|x| x.as_int() != Some(1));
                let condition = all.reduce(|a, b| a.and(b)).unwrap_or_else(|| Expr::truth(true));
                self.reduce_over_threads(index, reduce, source, condition)
            }
            Kind::Reduce(reduce, _) => {
                let mut all = bounds;
                all.extend(self.lowered(index, &reduce.condition)?.conjuncts().into_iter().cloned());
                if reducing.partial.is_empty() {
                    let buffers = self.plan.buffers[index].clone();
                    let update = self.update(index, reduce, buffers, &self.target(index, compute))?;
                    return self.where_stored(index, all, update);
                }
                let update = self.update(index, reduce, reducing.partial.clone(), &[Expr::int(0)])?;
                Ok(self.guarded(all, update))
            }
            _ => {
                let stores = self.stores(index, &compute.body)?;
                self.where_stored(index, bounds, stores)
            }
        }
    }

    /// Makes stores under the bounds and the stage's own predicate. If the predicate uses a thread index that is not
    /// yet launched here, it is launched, provided that the same kernel launches it elsewhere.
    pub(super) fn where_stored(&mut self, index: usize, mut bounds: Vec<Expr>, stores: Stmt) -> Result<Stmt, TeError> {
        let schedule = self.schedule;
        let Some(predicate) = &schedule.stages[index].store_predicate else { return Ok(self.guarded(bounds, stores)) };
        let mut indices: Vec<(Thread, Var)> = Vec::new();
        predicate.visit(&mut |x| {
            if let Some((thread, var)) = x.as_var().and_then(|var| Some((var.thread()?, var)))
                && !indices.contains(&(thread, var))
                && !self.launched.iter().any(|(_, launched, _)| *launched == var)
            {
                indices.push((thread, var));
            }
        });
        let mut launches: Vec<(Thread, Var, Expr)> = Vec::new();
        let mut renamed = Vec::new();
        for (thread, var) in indices {
            if thread == Thread::Virtual {
                let reason = "the store predicate uses it, but no loop around the store is bound to it";
                return Err(LoweringError::VirtualThread { axis: var.name().to_owned(), reason }.into());
            }
            if let Some((_, launched, _)) = self.launched.iter().chain(&launches).find(|(known, ..)| *known == thread) {
                renamed.push((var, *launched));
            } else {
                launches.push((thread, var, self.kernel_extent(index, thread)?));
            }
        }
        let rename = |var: Var| renamed.iter().find(|(old, _)| *old == var).map(|(_, new)| Expr::from(*new));
        let predicate = predicate.substitute(&rename);
        self.launching(launches, |this| {
            bounds.push(this.lowered(index, &predicate)?);
            Ok(this.guarded(bounds, stores))
        })
    }

    /// The extent of a thread index in the stages that are computed in the same launch as this one.
    fn kernel_extent(&self, index: usize, thread: Thread) -> Result<Expr, TeError> {
        let schedule = self.schedule;
        let root = schedule.outermost(index);
        let extent = self.extent_among(thread, |part| schedule.outermost(part) == root)?;
        extent.ok_or_else(|| {
            LoweringError::Bound {
                stage: schedule.stages[index].name().to_owned(),
                axis: thread.name().to_owned(),
                reason: "the store predicate needs it: bind a loop of the stage, or of one computed inside it, to it",
            }
            .into()
        })
    }

    /// Makes the result of a reduction over threads if there are no threads, so that none could store it: the
    /// identities or initial values. They are under a test unless the case is certain; `None` if it is impossible. The
    /// flag tells whether there are never any threads.
    pub(super) fn over_no_threads(
        &mut self,
        index: usize,
        place: usize,
        reduce: &Reduce,
    ) -> Result<(Option<Stmt>, bool), TeError> {
        let stage = &self.schedule.stages[index];
        let bound = |leaf: &&Axis| leaf.kind() == AxisKind::Reduce && stage.threads.contains_key(leaf);
        let leaves = stage.leaves.iter().filter(bound);
        let extents = leaves.map(|leaf| self.extent(index, *leaf)).collect::<Result<Vec<_>, _>>()?;
        let empty = extents.iter().map(|extent| extent.equal(0));
        let Some(empty) = empty.reduce(|a, b| a.or(b)) else { return Ok((None, false)) };
        let empty = simplify_in(&empty, &self.context);
        match empty.as_int() {
            Some(0) => Ok((None, false)),
            Some(_) => Ok((Some(self.initialise(index, place, reduce)?), true)),
            None => {
                let initial = self.initialise(index, place, reduce)?;
                Ok((Some(Stmt::If { condition: empty, then: Box::new(initial) }), false))
            }
        }
    }

    fn sources(&self, index: usize, reduce: &Reduce) -> Result<Vec<Expr>, TeError> {
        reduce.source.iter().map(|x| self.lowered(index, x)).collect()
    }

    /// Makes one step of a sequential reduction, into an element of each buffer.
    fn update(&self, index: usize, reduce: &Reduce, buffers: Vec<Buffer>, indices: &[Expr]) -> Result<Stmt, TeError> {
        let load = |buffer: &Buffer| Expr::new(buffer.dtype(), Kind::Load(buffer.clone(), indices.to_vec()));
        let old: Vec<Expr> = buffers.iter().map(load).collect();
        let combined = reduce.combiner.combine(&old, &self.sources(index, reduce)?);
        let store = |(buffer, value): (Buffer, Expr)| Stmt::Store { buffer, indices: indices.to_vec(), value };
        if let [value] = combined.as_slice() {
            return Ok(store((buffers[0].clone(), value.clone())));
        }
        // All new values are computed from the old ones before any is stored.
        let fresh: Vec<Var> = combined.iter().map(|x| Var::local("combined", x.dtype())).collect();
        let stores = buffers.into_iter().zip(fresh.iter().map(|var| Expr::from(*var))).map(store);
        let body = Stmt::sequence(stores);
        Ok(fresh.into_iter().zip(combined).rev().fold(body, |body, (var, value)| Stmt::Let {
            var,
            value,
            body: Box::new(body),
        }))
    }

    /// Makes a reduction over threads. Each thread gives one value if the condition holds, and all get the result. In
    /// shared memory one thread stores it.
    pub(super) fn reduce_over_threads(
        &mut self,
        index: usize,
        reduce: &Reduce,
        source: Vec<Expr>,
        condition: Expr,
    ) -> Result<Stmt, TeError> {
        let schedule = self.schedule;
        let stage = &schedule.stages[index];
        let threads: Vec<Axis> = stage
            .leaves
            .iter()
            .filter(|leaf| leaf.kind() == AxisKind::Reduce)
            .filter_map(|leaf| stage.threads.get(leaf).copied())
            .collect();
        let temporary = |(i, x): (usize, &Expr)| {
            Buffer::compact(&format!("reduce_temp{i}"), x.dtype(), vec![Expr::int(1)], Scope::Local)
        };
        let results: Vec<Buffer> = reduce.source.iter().enumerate().map(temporary).collect();
        let values: Vec<Expr> = results
            .iter()
            .map(|buffer| Expr::new(buffer.dtype(), Kind::Load(buffer.clone(), vec![Expr::int(0)])))
            .collect();
        let stores = self.stores_of(index, values)?;
        // Only elements that exist are stored, each by one thread.
        let mut guards = self.split_bounds(index, |axis| axis.kind() == AxisKind::Data)?;
        guards.extend(self.domain_bounds(index));
        guards.extend(self.is_new(index));
        guards.extend(self.first_of_idle(index));
        // In private memory, every thread stores its own copy.
        if self.plan.buffers[index].iter().any(|buffer| buffer.scope().is_shared_by_threads()) {
            guards.extend(threads.iter().map(|thread| thread.var().equal(0)));
        }
        let store = self.where_stored(index, guards, stores)?;
        let reduction = Stmt::AllReduce(Box::new(AllReduce {
            combiner: reduce.combiner.clone(),
            source,
            condition,
            threads,
            results: results.clone(),
        }));
        Ok(allocate(results, Stmt::sequence([reduction, store])))
    }

    /// The element of the stage's buffers that one iteration computes.
    pub(super) fn target(&self, index: usize, compute: &Compute) -> Vec<Expr> {
        let Some(nest) = &self.plan.nests[index] else { return Vec::new() };
        let indices = compute.axes.iter().map(|axis| nest.value(*axis)).collect();
        self.relative(index, indices)
    }

    pub(super) fn stores(&mut self, index: usize, values: &[Expr]) -> Result<Stmt, TeError> {
        let mut lowered = Vec::with_capacity(values.len());
        for value in values {
            lowered.push(self.lowered(index, value)?);
        }
        self.stores_of(index, lowered)
    }

    pub(super) fn stores_of(&mut self, index: usize, values: Vec<Expr>) -> Result<Stmt, TeError> {
        let schedule = self.schedule;
        let Some(compute) = schedule.stages[index].operation.as_compute() else { return Ok(Stmt::Seq(Vec::new())) };
        let indices = self.target(index, compute);
        let buffers = &self.plan.buffers[index];
        let store =
            |(buffer, value): (&Buffer, Expr)| Stmt::Store { buffer: buffer.clone(), indices: indices.clone(), value };
        Ok(Stmt::sequence(buffers.iter().zip(values).map(store)))
    }
}
