//! Computes the stages of a scan's update at one step: each stage at the step at which the update reads it.

use std::sync::Arc;

use crate::te::arith::{equal, simplify};
use crate::te::auto::pattern::reads::refused;
use crate::te::error::TeError;
use crate::te::expr::axis::{Axis, AxisKind, Domain};
use crate::te::expr::define::scan::reads_state;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::reduce::Reduce;
use crate::te::expr::tensor::{Compute, Operation, OperationKind, Tensor};
use crate::te::expr::var::Var;

/// The stages of an update at one step: without their time axis, or with one that all of them share.
pub(super) struct Slicing<'a> {
    pub(super) state: &'a [Tensor],
    /// The step.
    pub(super) now: Expr,
    /// The axis that replaces the time axes of all stages, if they keep one.
    pub(super) axis: Option<Axis>,
    /// The stages so far, each after those that it reads: the original, how many steps later than the update's it is,
    /// and the new operation.
    pub(super) made: Vec<(Arc<Operation>, i64, Arc<Operation>)>,
}

impl Slicing<'_> {
    /// A stage at a step, `later` steps after the update's.
    pub(super) fn at(&mut self, tensor: &Tensor, later: i64) -> Result<Tensor, TeError> {
        let known = self.made.iter().find(|(of, at, _)| Arc::ptr_eq(of, tensor.operation()) && *at == later);
        if let Some((_, _, made)) = known {
            return Ok(Tensor::new(Arc::clone(made), tensor.value()));
        }
        let compute = tensor.operation().as_compute().filter(|compute| !compute.axes.is_empty());
        let compute = compute.ok_or_else(|| refused(&format!("{}, a step that is not computed,", tensor.name())))?;
        let mut replaced = vec![(compute.axes[0].var(), &self.now + later)];
        let reduce_axes: Vec<Axis> = compute.reduce_axes.iter().map(|axis| at_step(*axis, &mut replaced)).collect();
        let body = match compute.body[0].kind() {
            Kind::Reduce(reduce, _) => {
                let mut all = |all: &[Expr]| -> Result<Vec<Expr>, TeError> {
                    all.iter().map(|x| self.expression(&x.substitute(&|var| value(&replaced, var)))).collect()
                };
                let (source, init) = (all(&reduce.source)?, all(&reduce.init)?);
                let condition = all(std::slice::from_ref(&reduce.condition))?.swap_remove(0);
                let axes = reduce_axes.clone();
                let reduce =
                    Arc::new(Reduce { combiner: reduce.combiner.clone(), source, init, axes: axes.into(), condition });
                let part = |(place, x): (usize, &Expr)| Expr::new(x.dtype(), Kind::Reduce(Arc::clone(&reduce), place));
                compute.body.iter().enumerate().map(part).collect()
            }
            _ => {
                let at_step = |x: &Expr| self.expression(&x.substitute(&|var| value(&replaced, var)));
                compute.body.iter().map(at_step).collect::<Result<Vec<_>, _>>()?
            }
        };
        let axes = self.axis.into_iter().chain(compute.axes[1..].iter().copied()).collect();
        let kind = OperationKind::Compute(Compute { axes, reduce_axes, body });
        let made = Operation::new(tensor.operation().name(), kind);
        self.made.push((Arc::clone(tensor.operation()), later, Arc::clone(&made)));
        Ok(Tensor::new(made, tensor.value()))
    }

    /// An expression that reads stages at their steps.
    fn expression(&mut self, x: &Expr) -> Result<Expr, TeError> {
        x.try_rewrite(&mut |_| None, &mut |x| self.sliced(x))
    }

    /// Replaces a read of a stage by a read of the stage at its step.
    fn sliced(&mut self, x: Expr) -> Result<Expr, TeError> {
        let Kind::Read(tensor, indices) = x.kind() else { return Ok(x) };
        if tensor.operation().as_compute().is_none() || self.state.contains(tensor) {
            return Ok(x);
        }
        match indices.first().and_then(|step| simplify(&(step - &self.now)).as_int()) {
            Some(later) => {
                let own: Vec<Expr> =
                    self.axis.into_iter().map(Expr::from).chain(indices[1..].iter().cloned()).collect();
                Ok(self.at(tensor, later)?.at(own))
            }
            None if reads_state(tensor, self.state) => Err(refused(&format!(
                "an update that reads {} at a step that is no fixed number of steps back (choose among such by `select`)",
                tensor.name()
            ))),
            None => Ok(x),
        }
    }
}

fn value(replaced: &[(Var, Expr)], var: Var) -> Option<Expr> {
    replaced.iter().find(|(known, _)| *known == var).map(|(_, value)| value.clone())
}

/// An axis whose range may depend on the step.
fn at_step(axis: Axis, replaced: &mut Vec<(Var, Expr)>) -> Axis {
    let Some(domain) = axis.domain() else { return axis };
    let own = |x: &Expr| simplify(&x.substitute(&|var| value(replaced, var)));
    let (min, extent) = (own(&domain.min), own(&domain.extent));
    if equal(&min, &domain.min) && equal(&extent, &domain.extent) {
        return axis;
    }
    let made = Axis::new(axis.name(), Some(Domain::new(min, extent)), AxisKind::Reduce);
    replaced.push((axis.var(), made.into()));
    made
}
