//! Makes the loops: each stage's nest, with the stages computed inside it, its initialisation and its tests.

use super::bounds::{Plan, check_thread_reduction};
use super::double_buffer::DoubleBuffered;
use super::loops::keeps_order;
use super::pragmas::{check_parallel, skip_regions};
use super::promises::requirements;
use crate::te::arith::{Context, equal, simplify_in};
use crate::te::axis::{Axis, AxisKind, Thread};
use crate::te::dtype::DType;
use crate::te::error::TeError;
use crate::te::expr::{Binary, Expr, Kind, Var};
use crate::te::ir::{AllReduce, Buffer, LoopKind, Note, Program, Scope, Stmt};
use crate::te::reduce::Reduce;
use crate::te::schedule::{Attach, Schedule, Stage};
use crate::te::tensor::{Compute, OperationKind, Tensor};
use crate::te::text::expression;

/// What is made: the program, and what later passes need to know of it.
pub(super) struct Emitted {
    pub(super) program: Program,
    /// The stages whose memory is to have two halves.
    pub(super) doubled: Vec<DoubleBuffered>,
}

pub(super) fn emit(schedule: &Schedule, plan: Plan, arguments: &[&Tensor], name: &str) -> Result<Emitted, TeError> {
    let mut given = Vec::with_capacity(arguments.len());
    for tensor in arguments {
        let buffer = plan.buffers[schedule.index(tensor)?].get(tensor.value());
        let missing = || TeError::NotScheduled { tensor: tensor.name() };
        let buffer = buffer.ok_or_else(missing)?;
        if buffer.dtype() == DType::Bool {
            let reason = "it holds truth values, which no array has; cast it, for example to u8".to_owned();
            return Err(TeError::Argument { tensor: tensor.name(), reason });
        }
        given.push(((*tensor).clone(), buffer.clone()));
    }
    let requirements = requirements(schedule, &plan)?;
    let mut emitter = Emitter { schedule, plan, context: Context::default(), launched: Vec::new() };
    let body = skip_regions(emitter.roots()?);
    check_parallel(&body)?;
    let doubled = emitter.double_buffered();
    let program = Program { name: name.to_owned(), arguments: given, requirements, body };
    Ok(Emitted { program, doubled })
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

    /// Every stage that is computed by itself, in order.
    fn roots(&mut self) -> Result<Stmt, TeError> {
        let mut statements = Vec::new();
        let mut memory = Vec::new();
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

    /// One stage with everything that is computed inside it.
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
                    return Err(TeError::ThreadReduction { stage, reason });
                }
                let threads = check_thread_reduction(self.stage(index))?;
                self.level(index, 0, threads)
            }
        }
    }

    /// The loops of a stage from a place on.
    fn level(&mut self, index: usize, place: usize, threads: bool) -> Result<Stmt, TeError> {
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
        if let Some(reduce) = reduce.as_ref().filter(|_| starts && !threads && !whole) {
            statements.push(self.initialise(index, place, reduce)?);
        }
        if tensorized == Some(place) {
            statements.push(self.tensorized(index, place)?);
        } else if let Some(leaf) = stage.leaves.get(place) {
            statements.push(self.around(index, *leaf, &mut |this| this.level(index, place + 1, threads))?);
        } else {
            statements.push(self.provide(index, threads)?);
        }
        Ok(allocate(memory, Stmt::sequence(statements)))
    }

    /// The stages computed inside a loop, and their memory.
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

    /// A loop around what `body` makes: a plain one, a launch, or none for a single iteration.
    fn around(
        &mut self,
        index: usize,
        leaf: Axis,
        body: &mut dyn FnMut(&mut Self) -> Result<Stmt, TeError>,
    ) -> Result<Stmt, TeError> {
        let schedule = self.schedule;
        let stage = &schedule.stages[index];
        let extent = self.plan.nests[index].as_ref().map_or_else(|| Expr::int(1), |nest| nest.extent(leaf));
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
            return Err(TeError::NotAThread { name: axis.name().to_owned() });
        };
        let is_virtual = thread == Thread::Virtual;
        if is_virtual && extent.as_int().is_none_or(|extent| extent < 1) {
            let axis = format!("{} of {} (extent {})", leaf.name(), stage.name(), expression(&extent));
            let reason = "a loop bound to a virtual thread needs a constant extent; split it by a constant first";
            return Err(TeError::VirtualThread { axis, reason });
        }
        self.context.push(axis.var(), &extent);
        // Every virtual thread's axis is one of its own.
        let same = |(known, var, _): &&(Thread, Var, Expr)| *known == thread && (!is_virtual || *var == axis.var());
        let known = self.launched.iter().find(same).cloned();
        let result = match known {
            Some((_, var, launched)) => {
                let inner = body(self);
                if !equal(&launched, &extent) {
                    self.context.pop();
                    return Err(TeError::ThreadExtent {
                        thread: thread.name(),
                        stage: self.stage(index).name().to_owned(),
                        needed: expression(&launched),
                        given: expression(&extent),
                    });
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

    /// The identities or initial values, over the data loops from a place on.
    fn initialise(&mut self, index: usize, place: usize, reduce: &Reduce) -> Result<Stmt, TeError> {
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
            return Err(TeError::Primitive {
                primitive: "tensorize",
                stage: stage.name().to_owned(),
                reason: "a loop of it is fused of data and reduction axes; an intrinsic needs them apart".to_owned(),
            });
        }
        loops.extend(parts);
        let whole = self.plan.nests[index].replace(nest);
        let result = self.initial_stores(index, &loops, reduce);
        self.plan.nests[index] = whole;
        result
    }

    fn initial_stores(&mut self, index: usize, loops: &[Axis], reduce: &Reduce) -> Result<Stmt, TeError> {
        if let Some((leaf, rest)) = loops.split_first() {
            return self.around(index, *leaf, &mut |this| this.initial_stores(index, rest, reduce));
        }
        if let Some(from) = self.schedule.stages[index].tensorized_from()? {
            return self.tensorized_reset(index, from);
        }
        let values = if reduce.init.is_empty() { &reduce.combiner.identity } else { &reduce.init };
        let stores = self.stores(index, values)?;
        let mut bounds = self.split_bounds(index, |axis| axis.kind() == AxisKind::Data);
        if !reduce.init.is_empty() || !self.plan.internal[index] {
            bounds.extend(self.domain_bounds(index));
        }
        bounds.extend(self.is_new(index));
        bounds.extend(self.first_of_idle(index));
        self.where_stored(index, bounds, stores)
    }

    /// What one iteration of all loops does. What a loop over data and reduction axes makes of the data axes has a name,
    /// the one it has where the reduction is initialised.
    fn provide(&mut self, index: usize, threads: bool) -> Result<Stmt, TeError> {
        let stage = &self.schedule.stages[index];
        let Some((nest, parts)) = self.plan.nests[index].as_ref().and_then(|nest| nest.with_parts(stage)) else {
            return self.provide_with(index, threads);
        };
        for (axis, _) in &parts {
            self.context.push(axis.var(), &nest.extent(*axis));
        }
        let whole = self.plan.nests[index].replace(nest);
        let result = self.provide_with(index, threads);
        self.plan.nests[index] = whole;
        parts.iter().for_each(|_| self.context.pop());
        let named = |body, (axis, value): (Axis, Expr)| Stmt::Let { var: axis.var(), value, body: Box::new(body) };
        Ok(parts.into_iter().fold(result?, named))
    }

    fn provide_with(&mut self, index: usize, threads: bool) -> Result<Stmt, TeError> {
        let schedule = self.schedule;
        let stage = &schedule.stages[index];
        let Some(compute) = stage.operation.as_compute() else { return Ok(Stmt::Seq(Vec::new())) };
        let mut bounds = self.split_bounds(index, |_| true);
        bounds.extend(self.domain_bounds(index));
        bounds.extend(self.is_new(index));
        bounds.extend(self.first_of_idle(index));
        match compute.body[0].kind() {
            Kind::Reduce(reduce, _) if threads => self.reduce_over_threads(index, reduce, bounds),
            Kind::Reduce(reduce, _) => {
                let update = self.update(index, compute, reduce)?;
                let condition = self.lowered(index, &reduce.condition)?;
                let mut all = bounds;
                all.extend(conjuncts(&condition));
                self.where_stored(index, all, update)
            }
            _ => {
                let stores = self.stores(index, &compute.body)?;
                self.where_stored(index, bounds, stores)
            }
        }
    }

    /// Stores under the bounds and under the stage's own condition. A thread index of the condition that is not yet
    /// launched here is launched, as far as its kernel launches it elsewhere.
    fn where_stored(&mut self, index: usize, mut bounds: Vec<Expr>, stores: Stmt) -> Result<Stmt, TeError> {
        let schedule = self.schedule;
        let Some(predicate) = &schedule.stages[index].store_predicate else { return Ok(self.guarded(bounds, stores)) };
        let mut indices: Vec<(Thread, Var)> = Vec::new();
        predicate.visit(&mut |x| {
            if let Some((thread, var)) = x.as_var().and_then(|var| Some((Thread::of(var)?, var)))
                && !indices.contains(&(thread, var))
                && !self.launched.iter().any(|(_, launched, _)| *launched == var)
            {
                indices.push((thread, var));
            }
        });
        let mut launches = Vec::new();
        let mut renamed = Vec::new();
        for (thread, var) in indices {
            if thread == Thread::Virtual {
                let reason = "the store predicate uses it, but no loop around the store is bound to it";
                return Err(TeError::VirtualThread { axis: var.name().to_owned(), reason });
            }
            if let Some((_, launched, _)) = self.launched.iter().find(|(known, ..)| *known == thread) {
                renamed.push((var, *launched));
            } else {
                let extent = self.kernel_extent(index, thread)?;
                self.context.push(var, &extent);
                self.launched.push((thread, var, extent.clone()));
                launches.push((thread, var, extent));
            }
        }
        let rename = |var: Var| renamed.iter().find(|(old, _)| *old == var).map(|(_, new)| Expr::from(*new));
        bounds.push(self.lowered(index, &predicate.substitute(&rename))?);
        let mut body = self.guarded(bounds, stores);
        for (thread, var, extent) in launches.into_iter().rev() {
            self.launched.pop();
            self.context.pop();
            body = Stmt::Launch { thread, var, extent, body: Box::new(body) };
        }
        Ok(body)
    }

    /// One step of a sequential reduction.
    fn update(&mut self, index: usize, compute: &Compute, reduce: &Reduce) -> Result<Stmt, TeError> {
        let indices = self.target(index, compute);
        let old: Vec<Expr> = self.plan.buffers[index]
            .iter()
            .map(|buffer| Expr::new(buffer.dtype(), Kind::Load(buffer.clone(), indices.clone())))
            .collect();
        let mut source = Vec::with_capacity(reduce.source.len());
        for x in &reduce.source {
            source.push(self.lowered(index, x)?);
        }
        let combined = reduce.combiner.combine(&old, &source);
        let buffers = self.plan.buffers[index].clone();
        let store = |(buffer, value): (Buffer, Expr)| Stmt::Store { buffer, indices: indices.clone(), value };
        if let [value] = combined.as_slice() {
            return Ok(store((buffers[0].clone(), value.clone())));
        }
        // Every value is combined from the old ones before any is stored.
        let fresh: Vec<Var> = combined.iter().map(|x| Var::new("combined", x.dtype())).collect();
        let stores = buffers.into_iter().zip(fresh.iter().map(|var| Expr::from(*var))).map(store);
        let body = Stmt::sequence(stores);
        Ok(fresh.into_iter().zip(combined).rev().fold(body, |body, (var, value)| Stmt::Let {
            var,
            value,
            body: Box::new(body),
        }))
    }

    /// A reduction over threads: each gives one value, all get the result, one stores it.
    fn reduce_over_threads(&mut self, index: usize, reduce: &Reduce, bounds: Vec<Expr>) -> Result<Stmt, TeError> {
        let schedule = self.schedule;
        let stage = &schedule.stages[index];
        let mut source = Vec::with_capacity(reduce.source.len());
        for x in &reduce.source {
            source.push(self.lowered(index, x)?);
        }
        let mut all = self.simplified(bounds);
        all.extend(conjuncts(&self.lowered(index, &reduce.condition)?));
        let all = all.into_iter().filter(|x| x.as_int() != Some(1));
        let condition = all.reduce(|a, b| a.and(b)).unwrap_or_else(|| Expr::truth(true));
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
        // Only rows that exist are stored, and each by one thread only.
        let mut guards = self.split_bounds(index, |axis| axis.kind() == AxisKind::Data);
        guards.extend(self.domain_bounds(index));
        guards.extend(self.is_new(index));
        guards.extend(self.first_of_idle(index));
        guards.extend(threads.iter().map(|thread| thread.var().equal(0)));
        let store = self.where_stored(index, guards, stores)?;
        let reduction = Stmt::AllReduce(AllReduce {
            combiner: reduce.combiner.clone(),
            source,
            condition,
            threads,
            results: results.clone(),
        });
        Ok(allocate(results, Stmt::sequence([reduction, store])))
    }

    /// A scan: the initial steps, then the loop over time around all updates.
    fn scan(&mut self, index: usize) -> Result<Stmt, TeError> {
        let schedule = self.schedule;
        let stage = &schedule.stages[index];
        let Some(scan) = stage.operation.as_scan() else { return Ok(Stmt::Seq(Vec::new())) };
        let mut outer: Vec<(Thread, Var, Expr)> = Vec::new();
        for axis in &stage.env_threads {
            let Some(thread) = axis.thread() else { continue };
            let extent = self.thread_extent(index, thread)?;
            self.launched.push((thread, axis.var(), extent.clone()));
            self.context.push(axis.var(), &extent);
            outer.push((thread, axis.var(), extent));
        }
        let mut statements = Vec::new();
        for init in &scan.init {
            statements.push(self.nest(schedule.index(init)?)?);
        }
        statements.push(self.steps(index, 0)?);
        let mut body = Stmt::sequence(statements);
        for (thread, var, extent) in outer.into_iter().rev() {
            self.launched.pop();
            self.context.pop();
            body = Stmt::Launch { thread, var, extent, body: Box::new(body) };
        }
        Ok(body)
    }

    /// The loops over time and what one step does.
    fn steps(&mut self, index: usize, place: usize) -> Result<Stmt, TeError> {
        let schedule = self.schedule;
        let stage = &schedule.stages[index];
        if let Some(leaf) = stage.leaves.get(place) {
            return self.around(index, *leaf, &mut |this| this.steps(index, place + 1));
        }
        let (mut statements, mut memory) = (Vec::new(), Vec::new());
        for part in 0..schedule.stages.len() {
            let inner = &schedule.stages[part];
            let same = |scan: &std::sync::Arc<_>| schedule.index_of(scan) == Some(index);
            let intermediate = matches!(inner.attach, Attach::Root) && inner.group.as_ref().is_some_and(same);
            let update = matches!(&inner.attach, Attach::ScanUpdate(scan) if same(scan));
            if intermediate || update {
                if self.plan.internal[part] {
                    memory.extend(self.plan.buffers[part].iter().cloned());
                }
                let statement = self.nest(part)?;
                statements.push(statement);
            }
        }
        let bounds = self.split_bounds(index, |_| true);
        let body = self.guarded(bounds, Stmt::sequence(statements));
        Ok(allocate(memory, body))
    }

    /// The extent that a scan's parts give to a thread index.
    fn thread_extent(&self, index: usize, thread: Thread) -> Result<Expr, TeError> {
        let schedule = self.schedule;
        for (part, stage) in schedule.stages.iter().enumerate() {
            let update = matches!(&stage.attach, Attach::ScanUpdate(scan) if schedule.index_of(scan) == Some(index));
            let bound = stage.threads.iter().find(|(_, axis)| axis.thread() == Some(thread));
            if let (true, Some((leaf, _)), Some(nest)) = (update, bound, &self.plan.nests[part]) {
                return Ok(nest.extent(*leaf));
            }
        }
        Err(TeError::Bound {
            stage: schedule.stages[index].name().to_owned(),
            axis: thread.name().to_owned(),
            reason: "bind a loop of the scan's update to it",
        })
    }

    /// The extent that the stages computed in one launch with this one give to a thread index.
    fn kernel_extent(&self, index: usize, thread: Thread) -> Result<Expr, TeError> {
        let schedule = self.schedule;
        let root = schedule.outermost(index);
        for (part, stage) in schedule.stages.iter().enumerate() {
            let bound = stage.threads.iter().find(|(_, axis)| axis.thread() == Some(thread));
            if let (Some((leaf, _)), Some(nest)) = (bound, &self.plan.nests[part])
                && schedule.outermost(part) == root
            {
                return Ok(nest.extent(*leaf));
            }
        }
        Err(TeError::Bound {
            stage: schedule.stages[index].name().to_owned(),
            axis: thread.name().to_owned(),
            reason: "the store predicate needs it: bind a loop of the stage, or of one computed inside it, to it",
        })
    }

    /// The element of the stage's buffers that one iteration computes.
    fn target(&self, index: usize, compute: &Compute) -> Vec<Expr> {
        let Some(nest) = &self.plan.nests[index] else { return Vec::new() };
        let indices = compute.axes.iter().map(|axis| nest.value(*axis)).collect();
        self.relative(index, indices)
    }

    /// Indices of a tensor as indices of its buffer.
    pub(super) fn relative(&self, index: usize, indices: Vec<Expr>) -> Vec<Expr> {
        let origins = &self.plan.origins[index];
        let rolling = self.plan.rolling[index].as_ref();
        let shift = |(d, x): (usize, Expr)| match origins.get(d) {
            Some(_) if rolling.is_some_and(|rolling| rolling.dimension == d) => {
                simplify_in(&rolling.map_or(x.clone(), |rolling| rolling.place(&x)), &self.context)
            }
            Some(origin) => simplify_in(&(x - origin), &self.context),
            None => simplify_in(&x, &self.context),
        };
        let indices: Vec<Expr> = indices.into_iter().enumerate().map(shift).collect();
        match &self.schedule.stages[index].layout {
            Some(layout) => layout.map.apply(&indices).iter().map(|x| simplify_in(x, &self.context)).collect(),
            None => indices,
        }
    }

    fn stores(&mut self, index: usize, values: &[Expr]) -> Result<Stmt, TeError> {
        let mut lowered = Vec::with_capacity(values.len());
        for value in values {
            lowered.push(self.lowered(index, value)?);
        }
        self.stores_of(index, lowered)
    }

    fn stores_of(&mut self, index: usize, values: Vec<Expr>) -> Result<Stmt, TeError> {
        let schedule = self.schedule;
        let Some(compute) = schedule.stages[index].operation.as_compute() else { return Ok(Stmt::Seq(Vec::new())) };
        let indices = self.target(index, compute);
        let buffers = &self.plan.buffers[index];
        let store =
            |(buffer, value): (&Buffer, Expr)| Stmt::Store { buffer: buffer.clone(), indices: indices.clone(), value };
        Ok(Stmt::sequence(buffers.iter().zip(values).map(store)))
    }

    /// An expression of a stage's body in terms of its loops and of buffers.
    fn lowered(&self, index: usize, x: &Expr) -> Result<Expr, TeError> {
        let Some(nest) = &self.plan.nests[index] else { return Ok(x.clone()) };
        let roots = &self.stage(index).root_axes;
        let x = x.substitute(&|var| roots.iter().find(|axis| axis.var() == var).map(|axis| nest.value(*axis)));
        let x = self.loaded(&x)?;
        Ok(simplify_in(&x, &self.context))
    }

    /// Reads of tensors as loads from buffers.
    fn loaded(&self, x: &Expr) -> Result<Expr, TeError> {
        let mut mistake = None;
        let inner = x.map_operands(&mut |operand| match self.loaded(operand) {
            Ok(operand) => operand,
            Err(error) => {
                mistake = Some(error);
                operand.clone()
            }
        });
        if let Some(error) = mistake {
            return Err(error);
        }
        let Kind::Read(tensor, indices) = inner.kind() else { return Ok(inner) };
        let producer = self.schedule.index(tensor)?;
        let buffer = self.plan.buffers[producer].get(tensor.value());
        let missing = || TeError::MissingArgument { tensor: tensor.name(), what: "an input" };
        let buffer = buffer.ok_or_else(missing)?.clone();
        Ok(Expr::new(inner.dtype(), Kind::Load(buffer, self.relative(producer, indices.clone()))))
    }

    pub(super) fn split_bounds(&self, index: usize, of: impl Fn(Axis) -> bool) -> Vec<Expr> {
        self.plan.nests[index].as_ref().map(|nest| nest.split_bounds(of)).unwrap_or_default()
    }

    /// The tests that what is computed lies in the tensor, where bound inference may have asked for more.
    pub(super) fn domain_bounds(&self, index: usize) -> Vec<Expr> {
        let stage = self.stage(index);
        let (Some(compute), Some(nest)) = (stage.operation.as_compute(), &self.plan.nests[index]) else {
            return Vec::new();
        };
        let first = match stage.attach {
            Attach::At(..) => 0,
            // Of a slice of a scan; the scan's loop keeps time inside.
            Attach::ScanInit(_) | Attach::ScanUpdate(_) => 1,
            _ if stage.group.is_some() => 0,
            _ => return Vec::new(),
        };
        let mut bounds = Vec::new();
        for axis in compute.axes.iter().skip(first) {
            let (Some(whole), actual) = (axis.domain(), nest.domain(*axis)) else { continue };
            if *whole != actual {
                let value = nest.value(*axis);
                bounds.push(value.clone().greater_equal(&whole.min));
                bounds.push(value.less(&whole.min + &whole.extent));
            }
        }
        bounds
    }

    /// The tests that choose one of the threads that compute the same elements of shared memory: those of the thread
    /// indices around a stage that it is not bound to.
    pub(super) fn first_of_idle(&self, index: usize) -> Vec<Expr> {
        let stage = self.stage(index);
        let shared = self.plan.buffers[index].iter().any(|buffer| buffer.scope() == Scope::Shared);
        let own = |thread: Thread| stage.threads.values().any(|axis| axis.thread() == Some(thread));
        let idle = |(thread, ..): &&(Thread, Var, Expr)| {
            shared && self.plan.internal[index] && matches!(thread, Thread::Thread(_)) && !own(*thread)
        };
        self.launched.iter().filter(idle).map(|(_, var, _)| var.equal(0)).collect()
    }

    /// Tests that can't be proved, without repetition.
    pub(super) fn simplified(&self, bounds: Vec<Expr>) -> Vec<Expr> {
        let mut kept: Vec<Expr> = Vec::new();
        for bound in bounds {
            let bound = simplify_in(&bound, &self.context);
            if bound.as_int() != Some(1) && !kept.contains(&bound) {
                kept.push(bound);
            }
        }
        kept
    }

    pub(super) fn guarded(&self, bounds: Vec<Expr>, body: Stmt) -> Stmt {
        self.simplified(bounds).into_iter().rev().fold(body, |body, bound| {
            let comparison = matches!(bound.kind(), Kind::Binary(op, ..) if op.is_truth() && *op != Binary::Eq);
            let condition = if comparison && !reads_memory(&bound) { bound.likely() } else { bound };
            Stmt::If { condition, then: Box::new(body) }
        })
    }
}

/// What the schedule says of a loop, around it.
fn with_pragmas(stage: &Stage, leaf: Axis, statement: Stmt) -> Stmt {
    let own = stage.pragmas.iter().filter(|(axis, _)| *axis == leaf);
    own.rev()
        .fold(statement, |body, (axis, pragma)| Stmt::Note { note: Note::Pragma(*axis, *pragma), body: Box::new(body) })
}

fn reads_memory(x: &Expr) -> bool {
    let mut found = false;
    x.visit(&mut |x| found |= matches!(x.kind(), Kind::Load(..)));
    found
}

/// The conditions that must all hold, without `likely`: it is put back where a test is written.
fn conjuncts(x: &Expr) -> Vec<Expr> {
    match x.kind() {
        Kind::Binary(Binary::And, a, b) => {
            let mut all = conjuncts(a);
            all.extend(conjuncts(b));
            all
        }
        Kind::Likely(inner) => conjuncts(inner),
        _ => vec![x.clone()],
    }
}

fn allocate(buffers: Vec<Buffer>, body: Stmt) -> Stmt {
    buffers.into_iter().rev().fold(body, |body, buffer| Stmt::Allocate { buffer, body: Box::new(body) })
}

fn rename(statement: Stmt, from: Var, to: Var) -> Stmt {
    let replace = |var: Var| (var == from).then(|| Expr::from(to));
    crate::te::rewrite::substitute(statement, &replace)
}
