//! Tensorized loops: checks the intrinsic against the loops that it replaces, and gives it its memory.

use super::Emitter;
use crate::te::arith::{Linear, simplify, simplify_in};
use crate::te::error::{LoweringError, RunError, ScheduleError, TeError};
use crate::te::expr::axis::{Axis, AxisKind};
use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::var::Var;
use crate::te::loops::ir::rewrite::{redirect, substitute, with_fresh_buffers};
use crate::te::loops::ir::stmt::Stmt;
use crate::te::loops::lower::analysis::matching::{Match, Span};
use crate::te::loops::schedule::intrinsic::{BufferDecl, TensorIntrin};
use crate::te::loops::schedule::{Attach, Stage};
use crate::te::text::expression;

/// An intrinsic with its implementation in terms of the program's memory.
struct Placed {
    intrin: TensorIntrin,
    found: Match,
    /// For each declared buffer, the program's memory, and the indices of its first element there.
    memory: Vec<(Buffer, Buffer, Vec<Expr>)>,
}

impl Placed {
    /// A part of the implementation, with the values of the sizes and the program's memory.
    fn part(&self, part: &Stmt) -> Stmt {
        let sized = |var: Var| self.found.sizes.iter().find(|(known, _)| *known == var).map(|(_, value)| value.clone());
        let place = |buffer: &Buffer, indices: &[Expr]| {
            let (_, memory, base) = self.memory.iter().find(|(declared, ..)| declared == buffer)?;
            let leading = base.len().checked_sub(indices.len())?;
            let at = |(d, first): (usize, &Expr)| match d.checked_sub(leading) {
                Some(place) => simplify(&(first + &indices[place])),
                None => first.clone(),
            };
            Some((memory.clone(), base.iter().enumerate().map(at).collect()))
        };
        redirect(substitute(with_fresh_buffers(part.clone()), &sized), &place)
    }
}

impl Emitter<'_> {
    /// The implementation of the intrinsic that replaces a stage's loops from `place` on.
    pub(crate) fn tensorized(&mut self, index: usize, place: usize) -> Result<Stmt, TeError> {
        let placed = self.placed(index, place)?;
        let stage = &self.schedule.stages[index];
        let refuse = |reason: &str| refuse(&placed.intrin, reason.to_owned());
        let mut bounds = self.split_bounds(index, |_| true)?;
        bounds.extend(self.domain_bounds(index));
        bounds.extend(self.first_of_idle(index));
        let bounds = self.outer_bounds(index, place, &placed.intrin, bounds)?;
        let around: Vec<Axis> =
            stage.leaves[..place].iter().copied().filter(|l| l.kind() == AxisKind::Reduce).collect();
        let implementation = placed.intrin.implementation();
        if around.is_empty() {
            let body = implementation
                .body
                .as_ref()
                .ok_or_else(|| refuse("it has no `body`, which is needed where all of the computation is inside"))?;
            return Ok(self.guarded(bounds, placed.part(body)));
        }
        let update = implementation
            .update
            .as_ref()
            .ok_or_else(|| refuse("it has no `update`, which is needed where loops of the reduction are around it"))?;
        if implementation.reset.is_some() {
            return Ok(self.guarded(bounds, placed.part(update)));
        }
        let body = implementation
            .body
            .as_ref()
            .ok_or_else(|| refuse("it has neither a `reset` nor a `body`: nothing begins the reduction around it"))?;
        let Some(nest) = &self.plan.nests[index] else { return Ok(Stmt::Seq(Vec::new())) };
        if around.iter().any(|leaf| !self.context.proves_less(&Expr::int(0), &nest.extent(*leaf))) {
            return Err(refuse("it has no `reset`, and the reduction around it may be over nothing; give one"));
        }
        let counters = around.iter().filter(|leaf| nest.extent(**leaf).as_int() != Some(1));
        let later: Vec<Expr> = counters.map(|leaf| nest.value(*leaf).not_equal(0)).collect();
        let Some(later) = later.into_iter().reduce(|a, b| a.or(b)) else {
            return Ok(self.guarded(bounds, placed.part(body)));
        };
        let first = Expr::new(later.dtype(), Kind::Not(later.clone()));
        let begin = Stmt::If { condition: first, then: Box::new(placed.part(body)) };
        let go_on = Stmt::If { condition: later, then: Box::new(placed.part(update)) };
        Ok(self.guarded(bounds, Stmt::sequence([begin, go_on])))
    }

    /// The statement that writes the identities before the surrounding loops of a reduction; empty if the intrinsic has
    /// none.
    pub(crate) fn tensorized_reset(&mut self, index: usize, place: usize) -> Result<Stmt, TeError> {
        let placed = self.placed(index, place)?;
        let Some(reset) = &placed.intrin.implementation().reset else { return Ok(Stmt::Seq(Vec::new())) };
        let mut bounds = self.split_bounds(index, |axis| axis.kind() == AxisKind::Data)?;
        bounds.extend(self.domain_bounds(index));
        bounds.extend(self.first_of_idle(index));
        let bounds = self.outer_bounds(index, place, &placed.intrin, bounds)?;
        Ok(self.guarded(bounds, placed.part(reset)))
    }

    /// Checks the intrinsic against the loops, and finds the memory that it works on.
    fn placed(&self, index: usize, place: usize) -> Result<Placed, TeError> {
        let stage = &self.schedule.stages[index];
        let missing = || RunError::Failed { reason: format!("{} has no intrinsic", stage.name()) }.into();
        let (Some((_, intrin)), Some(compute)) = (&stage.tensorized, stage.operation.as_compute()) else {
            return Err(missing());
        };
        let pattern = intrin.operation().as_compute().ok_or_else(missing)?;
        self.check_inside(index, place, intrin)?;
        let data = self.spans(index, place, intrin, &compute.axes)?;
        let reduced = self.spans(index, place, intrin, &compute.reduce_axes)?;
        let mut found = Match::default();
        found.computation(&self.context, (compute, &data, &reduced), pattern).map_err(|reason| {
            refuse(
                intrin,
                format!("{reason} (on {}, from the loop {} inward)", stage.name(), stage.leaves[place].name()),
            )
        })?;
        let mut placed = Placed { intrin: intrin.clone(), found, memory: Vec::new() };
        self.bind_memory(index, intrin, &data, &mut placed)?;
        Ok(placed)
    }

    /// Checks that only the stage's own loops are inside.
    fn check_inside(&self, index: usize, place: usize, intrin: &TensorIntrin) -> Result<(), TeError> {
        let stage = &self.schedule.stages[index];
        let inside = &stage.leaves[place..];
        if let Some(leaf) = inside.iter().find(|leaf| stage.threads.contains_key(leaf)) {
            return Err(refuse(
                intrin,
                format!("{} inside it is bound to a thread index; bind loops around it", leaf.name()),
            ));
        }
        let over_threads = |leaf: &&Axis| leaf.kind() == AxisKind::Reduce && stage.threads.contains_key(leaf);
        if let Some(leaf) = stage.leaves.iter().find(over_threads) {
            let (stage, leaf) = (stage.name(), leaf.name());
            return Err(refuse(
                intrin,
                format!("{stage} is reduced over the threads of {leaf}, which no intrinsic takes part in"),
            ));
        }
        if self.plan.rolling[index].is_some() {
            let name = stage.name();
            return Err(refuse(
                intrin,
                format!("{name}'s memory is used in a circle (`rolling_buffer`), a part at a time"),
            ));
        }
        if stage.store_predicate.is_some() {
            return Err(refuse(
                intrin,
                format!("{} has a store predicate, which says nothing of an intrinsic", stage.name()),
            ));
        }
        let attached = self.schedule.stages.iter().find(|child| {
            matches!(&child.attach, Attach::At(parent, axis)
                if self.schedule.index_of(parent) == Some(index) && inside.contains(axis))
        });
        match attached {
            Some(child) => Err(refuse(
                intrin,
                format!("{} is computed inside it; compute it at a loop around, or by itself", child.name()),
            )),
            None => Ok(()),
        }
    }

    /// The ranges of axes inside the intrinsic.
    fn spans(&self, index: usize, place: usize, intrin: &TensorIntrin, axes: &[Axis]) -> Result<Vec<Span>, TeError> {
        let stage = &self.schedule.stages[index];
        axes.iter()
            .map(|axis| {
                self.span(stage, index, place, *axis).ok_or_else(|| {
                    let (axis, leaf) = (axis.name(), stage.leaves[place].name());
                    refuse(intrin, format!(
                        "from the loop {leaf} inward, {axis} doesn't run over neighbouring values one by one; split {axis}, \
                         and put the inner loops of the splits inside"
                    ))
                })
            })
            .collect()
    }

    /// The least value of an axis while the loops from `place` on run, and the number of values. The values must be
    /// consecutive, each met once.
    fn span(&self, stage: &Stage, index: usize, place: usize, axis: Axis) -> Option<Span> {
        let nest = self.plan.nests[index].as_ref()?;
        let linear = Linear::of(&simplify_in(&nest.value(axis), &self.context));
        let inner: Vec<(Var, Expr)> =
            stage.leaves[place..].iter().map(|leaf| (leaf.var(), nest.extent(*leaf))).collect();
        let (mut steps, mut rest) = (Vec::new(), Linear { constant: linear.constant, ..Linear::default() });
        for (atom, coefficient) in linear.terms {
            match atom.as_var().and_then(|var| inner.iter().find(|(known, _)| *known == var)) {
                Some((_, extent)) => steps.push((coefficient, extent.clone())),
                None if inner.iter().any(|(var, _)| atom.uses(*var)) => return None,
                None => rest.terms.push((atom, coefficient)),
            }
        }
        // As with the digits of a number: each step must be the number of values below it.
        steps.sort_by_key(|(coefficient, _)| *coefficient);
        let mut extent = Expr::int(1);
        for (coefficient, digits) in steps {
            if extent.as_int() != Some(coefficient) {
                return None;
            }
            extent = simplify(&(digits * coefficient));
        }
        Some(Span { low: rest.into_expr(axis.var().dtype()), extent })
    }

    /// The tests that remain around the intrinsic.
    fn outer_bounds(
        &mut self,
        index: usize,
        place: usize,
        intrin: &TensorIntrin,
        bounds: Vec<Expr>,
    ) -> Result<Vec<Expr>, TeError> {
        let stage = &self.schedule.stages[index];
        let Some(nest) = &self.plan.nests[index] else { return Ok(bounds) };
        let inner: Vec<(Var, Expr)> =
            stage.leaves[place..].iter().map(|leaf| (leaf.var(), nest.extent(*leaf))).collect();
        inner.iter().for_each(|(var, extent)| self.context.push(*var, extent));
        let bounds = self.simplified(bounds);
        inner.iter().for_each(|_| self.context.pop());
        match bounds.iter().find(|bound| inner.iter().any(|(var, _)| bound.uses(*var))) {
            Some(bound) => Err(refuse(
                intrin,
                format!(
                    "the test {} depends on a loop inside it; split by what divides the extent, so that no test is needed there",
                    expression(bound)
                ),
            )),
            None => Ok(bounds),
        }
    }

    /// Gives the declared buffers their memory, and their strides and offsets the actual values.
    fn bind_memory(
        &self,
        index: usize,
        intrin: &TensorIntrin,
        data: &[Span],
        placed: &mut Placed,
    ) -> Result<(), TeError> {
        let own: Vec<Expr> = data.iter().map(|span| span.low.clone()).collect();
        for (value, declared) in intrin.outputs().iter().enumerate() {
            let Some(buffer) = self.plan.buffers[index].get(value) else { continue };
            self.check_layout(intrin, index)?;
            let base = self.relative(index, own.clone());
            self.bind_buffer(intrin, declared, buffer, base, placed)?;
        }
        for declared in intrin.inputs() {
            let part = placed.found.parts.iter().find(|part| part.pattern == declared.tensor).cloned();
            let Some(part) = part else { continue };
            let producer = self.schedule.index(&part.tensor)?;
            let missing = || LoweringError::MissingArgument { tensor: part.tensor.name(), what: "an input" };
            let buffer = self.plan.buffers[producer].get(part.tensor.value()).ok_or_else(missing)?;
            self.check_layout(intrin, producer)?;
            let base = self.relative(producer, part.base);
            self.bind_buffer(intrin, declared, buffer, base, placed)?;
        }
        Ok(())
    }

    /// Refuses memory with another layout than the tensor: a part of it is not a part of the tensor's dimensions.
    fn check_layout(&self, intrin: &TensorIntrin, index: usize) -> Result<(), TeError> {
        let stage = &self.schedule.stages[index];
        if stage.layout.is_none() && self.plan.rolling[index].is_none() {
            return Ok(());
        }
        let name = stage.name();
        let reason = format!(
            "{name} has a layout of its own (`transform_layout`, `rolling_buffer`), in which no part is a tensor's; copy {name} \
             (`cache_read`, `cache_write`)"
        );
        Err(refuse(intrin, reason))
    }

    fn bind_buffer(
        &self,
        intrin: &TensorIntrin,
        declared: &BufferDecl,
        buffer: &Buffer,
        base: Vec<Expr>,
        placed: &mut Placed,
    ) -> Result<(), TeError> {
        let name = declared.buffer.name();
        if let Some(scope) = declared.scope
            && scope != buffer.scope()
        {
            let (needed, given, of) = (scope.name(), buffer.scope().name(), buffer.name());
            return Err(refuse(
                intrin,
                format!("its {name} is in {needed} memory, {of} in {given}; set the scope of {of}"),
            ));
        }
        let leading = buffer.strides().len() - declared.strides.len();
        let extents = declared.buffer.shape();
        for (d, (stride, actual)) in declared.strides.iter().zip(&buffer.strides()[leading..]).enumerate() {
            // The stride of a dimension with one index is never used.
            let unused = placed.found.sized(&extents[d]).as_int() == Some(1);
            if !placed.found.unify(stride, actual) && !unused {
                let (needed, given) = (expression(&placed.found.sized(stride)), expression(actual));
                return Err(refuse(
                    intrin,
                    format!(
                        "stride {d} of its {name} is {needed}, that of {} is {given}; declare the stride as a variable, or copy \
                     {} (`cache_read`, `cache_write`)",
                        buffer.name(),
                        buffer.name()
                    ),
                ));
            }
        }
        let terms = base.iter().zip(buffer.strides()).map(|(index, stride)| index * stride);
        let offset = simplify(&terms.reduce(|a, b| a + b).unwrap_or_else(|| Expr::int(0)));
        let rest = simplify_in(&offset.clone().floor_mod(declared.offset_factor), &self.context);
        if declared.offset_factor > 1 && rest.as_int() != Some(0) {
            return Err(refuse(
                intrin,
                format!(
                    "its {name} begins at a multiple of {} elements, the part of {} at {}",
                    declared.offset_factor,
                    buffer.name(),
                    expression(&offset)
                ),
            ));
        }
        if let Some(var) = declared.offset
            && !placed.found.unify(&var.into(), &offset)
        {
            return Err(refuse(intrin, format!("{} would be the offset of two parts", var.name())));
        }
        placed.memory.push((declared.buffer.clone(), buffer.clone(), base));
        Ok(())
    }
}

fn refuse(intrin: &TensorIntrin, reason: String) -> TeError {
    ScheduleError::Intrinsic { intrinsic: intrin.operation().name().to_owned(), reason }.into()
}
