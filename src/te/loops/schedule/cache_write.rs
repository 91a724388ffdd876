//! `cache_write`: computes a tensor in nearer memory and copies it out. Loops that were scheduled before give the
//! layout.

use std::collections::HashMap;
use std::slice::from_ref;
use std::sync::Arc;

use super::Schedule;
use super::loops::LoopNest;
use super::stage::{Attach, Relation, SplitBy, Stage};
use crate::te::arith::{Context, simplify, simplify_in};
use crate::te::error::{ScheduleError, TeError};
use crate::te::expr::axis::{Axis, AxisKind, Domain};
use crate::te::expr::buffer::Scope;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::reduce::Reduce;
use crate::te::expr::tensor::{Compute, Operation, OperationKind, Tensor};
use crate::te::expr::var::Var;

impl Schedule {
    /// Computes a tensor in nearer memory, then copies it out. Gives the cache, which is then what you schedule.
    ///
    /// The splits, fusions and reorderings that were made before become the cache's layout: it has a dimension for each
    /// data loop, in the order of the loops. The stage itself, which is now the copy, has its plain loops again.
    ///
    /// # Errors
    /// [`ScheduleError::Scope`]; [`ScheduleError::Cache`] for a tensor that is not computed, and for a scan's init or
    /// update. Also for one of several tensors that are computed together (see [`Schedule::cache_write_all`]). Also for
    /// a stage with split or fused reduction axes, with bound or marked loops, or with another stage inside its loops.
    pub fn cache_write(&mut self, tensor: &Tensor, scope: &str) -> Result<Tensor, TeError> {
        let mut all = self.cache_write_all(from_ref(&tensor), scope)?;
        Ok(all.swap_remove(0))
    }

    /// [`Schedule::cache_write`] of all tensors of one computation. The caches are in the order of the tensors.
    ///
    /// # Errors
    /// The errors of [`Schedule::cache_write`]; [`ScheduleError::Cache`] also when the tensors are not exactly those of
    /// one computation.
    pub fn cache_write_all(&mut self, tensors: &[&Tensor], scope: &str) -> Result<Vec<Tensor>, TeError> {
        let scope = Scope::parse(scope).ok_or_else(|| ScheduleError::Scope { name: scope.to_owned() })?;
        let Some(first) = tensors.first() else {
            return Err(ScheduleError::Cache {
                tensor: "an empty list".to_owned(),
                reason: "give all tensors of one computation",
            }
            .into());
        };
        let index = self.index(first)?;
        let refuse = |reason| ScheduleError::Cache { tensor: first.name(), reason }.into();
        for (place, tensor) in tensors.iter().enumerate() {
            if self.index(tensor)? != index || tensors[..place].contains(tensor) {
                return Err(refuse("the tensors given with it are not those of one computation, each once"));
            }
        }
        let stage = &self.stages[index];
        let compute = stage.operation.as_compute().ok_or_else(|| refuse("it is not computed"))?;
        if compute.body.len() != tensors.len() {
            return Err(refuse("it is one of several tensors computed together; give all of them"));
        }
        if matches!(stage.attach, Attach::ScanInit(_) | Attach::ScanUpdate(_)) {
            return Err(refuse("it is a scan's init or update"));
        }
        if stage.layout.is_some() {
            return Err(refuse("it has a new layout (`transform_layout`); make the cache first, and lay that out"));
        }
        if !stage.threads.is_empty()
            || !stage.kinds.is_empty()
            || !stage.pragmas.is_empty()
            || stage.store_predicate.is_some()
            || !stage.prefetches.is_empty()
            || stage.tensorized.is_some()
        {
            return Err(refuse("its loops are bound or marked already; make the cache first, and schedule that"));
        }
        if stage.leaves.iter().any(|leaf| leaf.kind() == AxisKind::Reduce && !stage.root_axes.contains(leaf)) {
            return Err(refuse(
                "only data axes can be laid out anew; split and fuse the cache's reduction axes instead",
            ));
        }
        let here = |other: &Stage| matches!(&other.attach, Attach::At(op, _) if self.index_of(op) == Some(index));
        if self.stages.iter().any(here) {
            return Err(refuse("another stage is computed at one of its loops; make the cache first"));
        }
        let (cached, copy) = cache_and_copy(stage, compute, scope)?;
        let cache: Vec<Tensor> = tensors.iter().map(|tensor| Tensor::new(cached.clone(), tensor.value())).collect();
        let (group, member) = (stage.group.clone(), stage.member);
        // Time is never split or moved, so it is one of the loops.
        let mut loops = stage.leaves.iter().filter(|leaf| leaf.kind() == AxisKind::Data);
        let time = stage.time.and_then(|time| loops.position(|leaf| *leaf == time));
        self.stages[index].replace(copy);
        let mut stage = Stage::new(cached);
        (stage.scope, stage.group, stage.member) = (Some(scope), group, member);
        stage.time = time.and_then(|dimension| stage.root_axes.get(dimension).copied());
        self.stages.insert(index, stage);
        let names: Vec<String> = tensors.iter().map(|tensor| tensor.name()).collect();
        self.note("cache_write", &format!("[{}], \"{}\"", names.join(", "), scope.name()));
        Ok(cache)
    }
}

/// The computation with a dimension for each data loop, and the computation that copies it out.
fn cache_and_copy(stage: &Stage, compute: &Compute, scope: Scope) -> Result<(Arc<Operation>, Arc<Operation>), TeError> {
    let nest = LoopNest::of_whole(stage)?;
    let loops: Vec<Axis> = stage.leaves.iter().copied().filter(|leaf| leaf.kind() == AxisKind::Data).collect();
    let dimension =
        |leaf: &Axis| Axis::new(&format!("{}.c", leaf.name()), Some(Domain::up_to(nest.extent(*leaf))), AxisKind::Data);
    let axes: Vec<Axis> = loops.iter().map(dimension).collect();
    let mut context = Context::default();
    axes.iter()
        .for_each(|axis| context.push(axis.var(), &axis.domain().map_or_else(|| Expr::int(1), |d| d.extent.clone())));
    let of_loops = |x: &Expr| {
        let renamed = x.substitute(&|var: Var| {
            let place = loops.iter().position(|leaf| leaf.var() == var)?;
            Some(Expr::from(axes[place]))
        });
        simplify_in(&renamed, &context)
    };
    let of_roots = |var: Var| {
        let root = compute.axes.iter().find(|root| root.var() == var)?;
        Some(of_loops(&nest.value(*root)))
    };
    let bounds = nest.all_bounds(|axis| axis.kind() == AxisKind::Data);
    let inside: Vec<Expr> = bounds.iter().map(of_loops).filter(|bound| bound.as_int() != Some(1)).collect();
    let exists = inside.iter().cloned().reduce(|all, bound| all.and(bound));
    let (reduce_axes, renamed) = ranges_at(&compute.reduce_axes, &of_roots, exists.as_ref());
    let of_all = |var: Var| of_roots(var).or_else(|| renamed.get(&var).map(|axis| Expr::from(*axis)));
    let body = body_in(compute, &reduce_axes, &of_all, inside);
    let name = format!("{}.{}", compute_name(stage), scope.name());
    let kind = OperationKind::Compute(Compute { axes, reduce_axes, body });
    let cached = Operation::new(name, kind);
    let indices = loop_indices(stage, compute, &nest, &loops);
    let read = |value| Tensor::new(cached.clone(), value).at(indices.clone());
    let body = (0..compute.body.len()).map(read).collect();
    let kind = OperationKind::Compute(Compute { axes: compute.axes.clone(), reduce_axes: Vec::new(), body });
    Ok((cached, Operation::new(compute_name(stage), kind)))
}

fn compute_name(stage: &Stage) -> &str {
    stage.operation.name()
}

/// The axes that are reduced over at other indices, and by the variables of the old ones those that are others there: their
/// ranges depend on an index. A range is empty where an element doesn't exist.
pub(super) fn ranges_at(
    axes: &[Axis],
    indices: &dyn Fn(Var) -> Option<Expr>,
    exists: Option<&Expr>,
) -> (Vec<Axis>, HashMap<Var, Axis>) {
    let mut renamed: HashMap<Var, Axis> = HashMap::new();
    let mut all = Vec::with_capacity(axes.len());
    for axis in axes {
        let at = |x: &Expr| simplify(&x.substitute(&|var| indices(var).or_else(|| Some((*renamed.get(&var)?).into()))));
        let made = axis.domain().and_then(|range| {
            let (min, extent) = (at(&range.min), at(&range.extent));
            if min == simplify(&range.min) && extent == simplify(&range.extent) {
                return None;
            }
            let reads = |x: &Expr| x.contains(|x| matches!(x.kind(), Kind::Read(..)));
            let only_there = |x: Expr| match exists {
                Some(exists) if reads(&x) => exists.select(x, 0),
                _ => x,
            };
            Some(Axis::new(axis.name(), Some(Domain::new(only_there(min), only_there(extent))), axis.kind()))
        });
        all.push(made.unwrap_or(*axis));
        if let Some(made) = made {
            renamed.insert(axis.var(), made);
        }
    }
    (all, renamed)
}

/// The body at other indices. Layout elements that the tensor doesn't have are 0, or sums over nothing.
fn body_in(
    compute: &Compute,
    reduce_axes: &[Axis],
    indices: &dyn Fn(Var) -> Option<Expr>,
    inside: Vec<Expr>,
) -> Vec<Expr> {
    let inside = inside.into_iter().reduce(|all, bound| all.and(bound));
    let Kind::Reduce(reduce, _) = compute.body[0].kind() else {
        let value = |x: &Expr| {
            let value = x.substitute(indices);
            match &inside {
                Some(inside) => inside.clone().select(value, Expr::constant(0.0, x.dtype())),
                None => value,
            }
        };
        return compute.body.iter().map(value).collect();
    };
    let condition = simplify(&reduce.condition.substitute(indices));
    let initial = |(x, identity): (&Expr, &Expr)| match &inside {
        Some(inside) => inside.clone().select(x.substitute(indices), identity.clone()),
        None => x.substitute(indices),
    };
    let reduce = Arc::new(Reduce {
        combiner: reduce.combiner.clone(),
        source: reduce.source.iter().map(|x| x.substitute(indices)).collect(),
        init: reduce.init.iter().zip(&reduce.combiner.identity).map(initial).collect(),
        axes: reduce_axes.to_vec().into(),
        condition: match &inside {
            Some(inside) if condition.as_int() == Some(1) => inside.clone().likely(),
            Some(inside) => inside.clone().likely().and(condition),
            None => condition,
        },
    });
    let value = |(i, x): (usize, &Expr)| Expr::new(x.dtype(), Kind::Reduce(reduce.clone(), i));
    compute.body.iter().enumerate().map(value).collect()
}

/// The values of the loops for an element of the tensor.
fn loop_indices(stage: &Stage, compute: &Compute, nest: &LoopNest, loops: &[Axis]) -> Vec<Expr> {
    let mut context = Context::default();
    let mut values: HashMap<Axis, Expr> = HashMap::new();
    for axis in &compute.axes {
        context.push(axis.var(), &nest.extent(*axis));
        values.insert(*axis, Expr::from(*axis));
    }
    let of = |values: &HashMap<Axis, Expr>, axis: &Axis| values.get(axis).cloned().unwrap_or_else(|| Expr::int(0));
    for relation in &stage.relations {
        match relation {
            Relation::Split { parent, outer, inner, by, .. } => {
                let factor = match by {
                    SplitBy::Factor(factor) => factor.clone(),
                    SplitBy::Parts(_) => nest.extent(*inner),
                };
                let value = of(&values, parent);
                values.insert(*outer, simplify_in(&value.clone().floor_div(factor.clone()), &context));
                values.insert(*inner, simplify_in(&value.floor_mod(factor), &context));
            }
            Relation::Fuse { outer, inner, fused } => {
                let value = of(&values, outer) * nest.extent(*inner) + of(&values, inner);
                values.insert(*fused, simplify_in(&value, &context));
            }
            // The caller refuses this.
            Relation::Transform { .. } => {}
            Relation::Singleton { axis } => {
                values.insert(*axis, Expr::int(0));
            }
        }
    }
    loops.iter().map(|leaf| of(&values, leaf)).collect()
}
