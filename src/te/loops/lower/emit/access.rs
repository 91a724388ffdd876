//! Rewrites expressions of a stage in terms of its loops and of buffers, and makes the tests that its indices need.

use super::Emitter;
use crate::te::arith::simplify_in;
use crate::te::error::{LoweringError, TeError};
use crate::te::expr::axis::{Axis, AxisKind};
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::thread::Thread;
use crate::te::expr::var::Var;
use crate::te::loops::ir::stmt::Stmt;
use crate::te::loops::schedule::Attach;

impl Emitter<'_> {
    /// Converts indices of a tensor to indices of its buffer.
    pub(in crate::te::loops::lower) fn relative(&self, index: usize, indices: Vec<Expr>) -> Vec<Expr> {
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

    /// An expression of a stage's body in terms of its loops and of buffers.
    pub(super) fn lowered(&self, index: usize, x: &Expr) -> Result<Expr, TeError> {
        let Some(nest) = &self.plan.nests[index] else { return Ok(x.clone()) };
        let roots = &self.stage(index).root_axes;
        let x = x.substitute(&|var| roots.iter().find(|axis| axis.var() == var).map(|axis| nest.value(*axis)));
        let x = self.loaded(&x)?;
        Ok(simplify_in(&x, &self.context))
    }

    /// Replaces reads of tensors by loads from buffers, with the tests that they need.
    pub(super) fn loaded(&self, x: &Expr) -> Result<Expr, TeError> {
        x.try_rewrite(&mut |_| None, &mut |inner| {
            let Kind::Read(tensor, indices) = inner.kind() else { return Ok(inner) };
            let producer = self.schedule.index(tensor)?;
            let buffer = self.plan.buffers[producer].get(tensor.value());
            let missing = || LoweringError::MissingArgument { tensor: tensor.name(), what: "an input" };
            let buffer = buffer.ok_or_else(missing)?.clone();
            let places = self.relative(producer, indices.clone());
            let load = Expr::new(inner.dtype(), Kind::Load(buffer.clone(), places));
            Ok(self.tested(tensor, indices, &buffer, load))
        })
    }

    pub(in crate::te::loops::lower) fn split_bounds(
        &self,
        index: usize,
        of: impl Fn(Axis) -> bool,
    ) -> Result<Vec<Expr>, TeError> {
        let bounds = self.plan.nests[index].as_ref().map(|nest| nest.split_bounds(of)).unwrap_or_default();
        bounds.iter().map(|bound| self.loaded(bound)).collect()
    }

    /// The extent of a loop. It may depend on the loops around it, and on elements of tensors.
    ///
    /// # Errors
    /// [`LoweringError::Bound`] if it depends on other loops.
    pub(in crate::te::loops::lower) fn extent(&self, index: usize, leaf: Axis) -> Result<Expr, TeError> {
        let Some(nest) = &self.plan.nests[index] else { return Ok(Expr::int(1)) };
        let mut extent = simplify_in(&self.loaded(&nest.extent(leaf))?, &self.context);
        let is_around =
            |x: &Expr| !x.contains(|x| x.as_var().is_some_and(|var| var.is_counter() && !self.context.knows(var)));
        if extent.loads() {
            // An uneven split, or a wider part of the tensor, has elements that don't exist; nor does what gives their range.
            let mut bounds = self.split_bounds(index, |axis| axis.kind() == AxisKind::Data)?;
            bounds.extend(self.domain_bounds(index));
            bounds.retain(is_around);
            if let Some(exists) = self.simplified(bounds).into_iter().reduce(|a, b| a.and(b)) {
                extent = exists.select(extent, 0);
            }
        }
        if !is_around(&extent) {
            let reason = "it depends on an index whose loop is not around it; reorder the loops, or fuse others";
            let (stage, axis) = (self.stage(index).name().to_owned(), leaf.name().to_owned());
            return Err(LoweringError::Bound { stage, axis, reason }.into());
        }
        Ok(extent)
    }

    /// The tests that an element is inside the tensor, for where bound inference may have included more elements.
    pub(in crate::te::loops::lower) fn domain_bounds(&self, index: usize) -> Vec<Expr> {
        let stage = self.stage(index);
        let (Some(compute), Some(nest)) = (stage.operation.as_compute(), &self.plan.nests[index]) else {
            return Vec::new();
        };
        let first = match stage.attach {
            Attach::At(..) => 0,
            // This belongs to a slice of a scan. The scan's loop keeps time inside.
            Attach::ScanInit(_) | Attach::ScanUpdate(_) => 1,
            _ if stage.group.is_some() => 0,
            _ => return Vec::new(),
        };
        let mut bounds = Vec::new();
        for axis in compute.axes.iter().skip(first) {
            let (Some(whole), actual) = (axis.domain(), nest.domain(*axis)) else { continue };
            if whole != actual {
                let value = nest.value(*axis);
                bounds.push(value.clone().greater_equal(&whole.min));
                bounds.push(value.less(&whole.min + &whole.extent));
            }
        }
        bounds
    }

    /// Tests that choose one of several threads that compute the same elements of shared memory. They are tests of the
    /// thread indices around a stage that it is not bound to.
    pub(in crate::te::loops::lower) fn first_of_idle(&self, index: usize) -> Vec<Expr> {
        let stage = self.stage(index);
        let shared = self.plan.buffers[index].iter().any(|buffer| buffer.scope().is_shared_by_threads());
        let own = |thread: Thread| stage.threads.values().any(|axis| axis.thread() == Some(thread));
        let idle = |(thread, ..): &&(Thread, Var, Expr)| {
            shared && self.plan.internal[index] && matches!(thread, Thread::Thread(_)) && !own(*thread)
        };
        self.launched.iter().filter(idle).map(|(_, var, _)| var.equal(0)).collect()
    }

    /// The tests that can't be proved, each once.
    pub(in crate::te::loops::lower) fn simplified(&self, bounds: Vec<Expr>) -> Vec<Expr> {
        let mut kept: Vec<Expr> = Vec::new();
        for bound in bounds {
            let bound = simplify_in(&bound, &self.context);
            if bound.as_int() != Some(1) && !kept.contains(&bound) {
                kept.push(bound);
            }
        }
        kept
    }

    pub(in crate::te::loops::lower) fn guarded(&self, bounds: Vec<Expr>, body: Stmt) -> Stmt {
        self.simplified(bounds).into_iter().rev().fold(body, |body, bound| {
            let comparison = matches!(bound.kind(), Kind::Binary(op, ..) if op.is_truth() && *op != Binary::Eq);
            let condition = if comparison && !bound.loads() { bound.likely() } else { bound };
            Stmt::If { condition, then: Box::new(body) }
        })
    }
}
