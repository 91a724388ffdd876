//! The primitives on the loops of one stage.

use super::record::names;
use super::stage::{Relation, SplitBy, Stage};
use crate::te::arith::simplify;
use crate::te::dtype::DType;
use crate::te::error::{ExpressionError, ScheduleError, TeError};
use crate::te::expr::axis::{Axis, AxisKind};
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::thread::Thread;
use crate::te::loops::ir::stmt::LoopKind;

impl Stage {
    /// Splits a loop in two. The inner loop runs over `factor` iterations. It runs over the whole extent if that is
    /// known to be smaller and neither loop is bound to a thread. If the factor may not divide the extent, a test skips
    /// the iterations beyond it. Gives the outer and the inner loop.
    ///
    /// # Errors
    /// [`ScheduleError::NotALoop`]; [`ScheduleError::AxisKind`] for a thread axis, or the time of a scan's update;
    /// [`ScheduleError::SplitFactor`].
    pub fn split(&mut self, axis: Axis, factor: impl Into<Expr>) -> Result<(Axis, Axis), TeError> {
        self.split_by(axis, SplitBy::Factor(factor.into()), false)
    }

    /// Splits a loop in two. The outer loop runs over `parts` iterations. Gives the outer and the inner loop.
    ///
    /// # Errors
    /// The errors of [`Stage::split`].
    pub fn split_parts(&mut self, axis: Axis, parts: impl Into<Expr>) -> Result<(Axis, Axis), TeError> {
        self.split_by(axis, SplitBy::Parts(parts.into()), false)
    }

    /// The general form of a split. Earlier marks of the loop (as by [`Stage::unroll`]) are lost. With
    /// `disable_predication` there is no test for iterations beyond the axis' extent: you promise that the extent is a
    /// multiple of the factor (or of the number of parts).
    ///
    /// The promise is checked. If it is broken for all sizes, lowering refuses the schedule. If it depends on sizes, a
    /// run refuses those sizes for which it is broken. Both errors are
    /// [`LoweringError::SplitRemainder`](crate::te::LoweringError::SplitRemainder). So no element beyond the extent is
    /// ever computed.
    ///
    /// # Errors
    /// The errors of [`Stage::split`].
    pub fn split_by(&mut self, axis: Axis, by: SplitBy, disable_predication: bool) -> Result<(Axis, Axis), TeError> {
        let place = self.leaf(axis)?;
        self.check_free(axis, "split")?;
        let (SplitBy::Factor(factor) | SplitBy::Parts(factor)) = &by;
        if let Some(error) = factor.error() {
            return Err(error);
        }
        let fits = |value: i64| value > 0 && DType::I32.holds(value);
        if simplify(factor).as_int().is_some_and(|value| !fits(value)) || !is_size(factor) {
            let factor = crate::te::text::expression(factor);
            return Err(ScheduleError::SplitFactor { axis: axis.name().to_owned(), factor }.into());
        }
        let kind = if matches!(by, SplitBy::Factor(_)) { "factor" } else { "nparts" };
        let free = if disable_predication { ", disable_predication=True" } else { "" };
        let arguments = format!("{}, {kind}={}{free}", axis.name(), crate::te::text::expression(factor));
        let part = |suffix: &str| Axis::new(&format!("{}.{suffix}", axis.name()), None, axis.kind());
        let (outer, inner) = (part("outer"), part("inner"));
        self.relations.push(Relation::Split { parent: axis, outer, inner, by, predicated: !disable_predication });
        self.replace_leaves(place..=place, [outer, inner]);
        self.note("split", &arguments);
        Ok((outer, inner))
    }

    /// Reorders loops: the given loops keep the places that they have together, in the new order.
    ///
    /// # Errors
    /// [`ScheduleError::NotALoop`]; [`ExpressionError::RepeatedAxis`]; [`ScheduleError::AxisKind`] for a scan's time.
    pub fn reorder(&mut self, order: &[Axis]) -> Result<(), TeError> {
        let mut places = Vec::with_capacity(order.len());
        for (i, axis) in order.iter().enumerate() {
            places.push(self.leaf(*axis)?);
            if axis.kind() == AxisKind::Ordered || self.time == Some(*axis) {
                return Err(refuse("reorder", *axis, "a scan's time runs in order"));
            }
            if order[..i].contains(axis) {
                return Err(ExpressionError::RepeatedAxis { axis: axis.name().to_owned() }.into());
            }
        }
        places.sort_unstable();
        for (place, axis) in places.into_iter().zip(order) {
            self.leaves[place] = *axis;
        }
        self.note("reorder", &names(order));
        Ok(())
    }

    /// Splits two loops and moves both outer loops before both inner ones: `(x.outer, y.outer, x.inner, y.inner)`.
    ///
    /// # Errors
    /// The errors of [`Stage::split`] and [`Stage::reorder`].
    pub fn tile(
        &mut self,
        x: Axis,
        y: Axis,
        x_factor: impl Into<Expr>,
        y_factor: impl Into<Expr>,
    ) -> Result<(Axis, Axis, Axis, Axis), TeError> {
        // A refused primitive leaves the stage unchanged.
        let mut tiled = self.clone();
        let (x_outer, x_inner) = tiled.split(x, x_factor)?;
        let (y_outer, y_inner) = tiled.split(y, y_factor)?;
        tiled.reorder(&[x_outer, y_outer, x_inner, y_inner])?;
        *self = tiled;
        Ok((x_outer, y_outer, x_inner, y_inner))
    }

    /// Binds a loop to threads or blocks of a device: each of them does one iteration.
    ///
    /// # Errors
    /// [`ScheduleError::NotALoop`]; [`ScheduleError::NotAThread`]; [`ScheduleError::AxisKind`] for a scan's time.
    pub fn bind(&mut self, axis: Axis, thread: Axis) -> Result<(), TeError> {
        self.leaf(axis)?;
        self.check_free(axis, "bind")?;
        if axis.kind() == AxisKind::Ordered {
            return Err(refuse("bind", axis, "a scan's time runs in order"));
        }
        if self.is_mixed(axis) {
            return Err(refuse(
                "bind",
                axis,
                "it is fused of data and reduction axes, so threads would share no one sum",
            ));
        }
        if self.prefetches.iter().any(|prefetch| prefetch.axis == axis) {
            return Err(refuse("bind", axis, "a prefetch runs ahead of it, so it has to run in order"));
        }
        if thread.thread().is_none() {
            return Err(ScheduleError::NotAThread { name: thread.name().to_owned() }.into());
        }
        let same = |bound: &Axis| match thread.thread() {
            Some(Thread::Virtual) => *bound == thread,
            index => bound.thread() == index,
        };
        if self.threads.iter().any(|(other, bound)| same(bound) && *other != axis) {
            return Err(refuse(
                "bind",
                axis,
                "another loop of the stage is bound to this thread index; take another index, or fuse both loops",
            ));
        }
        self.threads.insert(axis, thread);
        self.kinds.remove(&axis);
        self.note("bind", &names(&[axis, thread]));
        Ok(())
    }

    /// Runs all iterations of a loop at once, as a vector.
    ///
    /// # Errors
    /// [`ScheduleError::NotALoop`]; [`ScheduleError::AxisKind`] for a reduction axis, a scan's time or a thread axis.
    pub fn vectorize(&mut self, axis: Axis) -> Result<(), TeError> {
        self.check_data(axis, "vectorize")?;
        self.kinds.insert(axis, LoopKind::Vectorized);
        self.note("vectorize", axis.name());
        Ok(())
    }

    /// Runs a loop's iterations on several CPU threads.
    ///
    /// # Errors
    /// The errors of [`Stage::vectorize`].
    pub fn parallel(&mut self, axis: Axis) -> Result<(), TeError> {
        self.check_data(axis, "parallel")?;
        self.kinds.insert(axis, LoopKind::Parallel);
        self.note("parallel", axis.name());
        Ok(())
    }

    /// Unrolls a loop. The lowered program only marks the loop for the target's compiler, unless a pragma of unrolling
    /// holds for it, or [`Program::unrolled`](crate::te::Program::unrolled) is called.
    ///
    /// # Errors
    /// [`ScheduleError::NotALoop`]; [`ScheduleError::AxisKind`] for a thread axis.
    pub fn unroll(&mut self, axis: Axis) -> Result<(), TeError> {
        self.leaf(axis)?;
        if self.threads.contains_key(&axis) {
            return Err(refuse(
                "unroll",
                axis,
                "it is bound to a thread index; split it before that, and take the part that is not bound",
            ));
        }
        self.kinds.insert(axis, LoopKind::Unrolled);
        self.note("unroll", axis.name());
        Ok(())
    }

    /// Sets a condition on thread indices. The stage stores only where it holds.
    ///
    /// # Errors
    /// [`ExpressionError::OperandType`] for an expression that is not a condition.
    pub fn set_store_predicate(&mut self, condition: Expr) -> Result<(), TeError> {
        if condition.dtype() != DType::Bool {
            let operation = "set_store_predicate".to_owned();
            return Err(ExpressionError::OperandType { operation, given: condition.dtype() }.into());
        }
        self.note("set_store_predicate", &crate::te::text::expression(&condition));
        self.store_predicate = Some(condition);
        Ok(())
    }

    /// Launches the threads outside of a scan's time loop, so that one launch runs all steps.
    ///
    /// # Errors
    /// [`ScheduleError::AxisKind`] for a stage that is not a scan, or when threads are set already;
    /// [`ScheduleError::NotAThread`].
    pub fn env_threads(&mut self, threads: &[Axis]) -> Result<(), TeError> {
        let Some(scan) = self.operation.as_scan() else {
            let reason = "only a scan has loops to be launched around";
            return Err(
                ScheduleError::AxisKind { primitive: "env_threads", axis: self.name().to_owned(), reason }.into()
            );
        };
        if !self.env_threads.is_empty() {
            return Err(refuse("env_threads", scan.axis, "the scan has its threads already"));
        }
        if let Some(axis) = threads.iter().find(|axis| axis.thread().is_none()) {
            return Err(ScheduleError::NotAThread { name: axis.name().to_owned() }.into());
        }
        if let Some(axis) = threads.iter().find(|axis| axis.thread() == Some(Thread::Virtual)) {
            return Err(refuse("env_threads", *axis, "a virtual thread is not a launch around the scan's loop"));
        }
        self.env_threads = threads.to_vec();
        self.note("env_threads", &names(threads));
        Ok(())
    }

    /// Checks that an axis may be split, fused or bound: it is not a thread's yet, nor the time of a scan's update.
    pub(super) fn check_free(&self, axis: Axis, primitive: &'static str) -> Result<(), TeError> {
        if self.time == Some(axis) {
            return Err(refuse(primitive, axis, "it is a scan update's time; schedule the scan's own axis instead"));
        }
        if axis.kind() == AxisKind::Thread || (self.threads.contains_key(&axis) && primitive != "bind") {
            return Err(refuse(
                primitive,
                axis,
                "it is bound to a thread index; split it before that, and take the part that is not bound",
            ));
        }
        Ok(())
    }

    fn check_data(&self, axis: Axis, primitive: &'static str) -> Result<(), TeError> {
        self.leaf(axis)?;
        self.check_free(axis, primitive)?;
        match axis.kind() {
            AxisKind::Data => Ok(()),
            AxisKind::Reduce => Err(refuse(primitive, axis, "its iterations add to one value; use rfactor first")),
            AxisKind::Ordered => Err(refuse(primitive, axis, "a scan's time runs in order")),
            AxisKind::Thread => Err(refuse(
                primitive,
                axis,
                "it is bound to a thread index; split it before that, and take the part that is not bound",
            )),
        }
    }
}

/// Whether an expression is an integer that is known before the loops of a run.
pub(super) fn is_size(x: &Expr) -> bool {
    let mut known = x.dtype().is_integer();
    x.visit(&mut |x| {
        known &=
            x.as_var().is_none_or(|var| !var.is_counter()) && !matches!(x.kind(), Kind::Read(..) | Kind::Reduce(..));
    });
    known
}

pub(super) fn refuse(primitive: &'static str, axis: Axis, reason: &'static str) -> TeError {
    ScheduleError::AxisKind { primitive, axis: axis.name().to_owned(), reason }.into()
}
