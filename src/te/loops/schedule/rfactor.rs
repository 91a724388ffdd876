//! `rfactor`: computes a reduction in two stages, partial results first.

use std::sync::Arc;

use super::Schedule;
use super::loops::{LoopNest, keeps_order};
use super::primitives::is_size;
use super::stage::Stage;
use crate::te::arith::simplify;
use crate::te::error::{ScheduleError, TeError};
use crate::te::expr::axis::{Axis, AxisKind, Domain};
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::reduce::Reduce;
use crate::te::expr::tensor::{Compute, Operation, OperationKind, Tensor};
use crate::te::expr::var::Var;

impl Schedule {
    /// Factors a loop out of a reduction. A new stage reduces over the other loops, for each value of `axis`; `axis`
    /// becomes its first dimension. The original stage then only reduces over that dimension. Both stages have fresh
    /// loops: only the splits of the reduction are kept. Set everything else (bindings of data axes, pragmas, a store
    /// predicate) on the new loops. Gives the new stage's tensor.
    ///
    /// # Errors
    /// [`ScheduleError::Rfactor`] if the stage is not a reduction, or `axis` is not one of its reduction loops. Also if
    /// one of these is bound to a thread index. Also if the reducer is not commutative and `axis` is not the outermost.
    pub fn rfactor(&mut self, tensor: &Tensor, axis: Axis) -> Result<Tensor, TeError> {
        let mut all = self.rfactor_at(tensor, axis, 0)?;
        Ok(all.swap_remove(tensor.value().min(all.len() - 1)))
    }

    /// [`Schedule::rfactor`] with the position of the new dimension; a negative one counts from the end. Gives one
    /// tensor for each value of a tuple reduction.
    ///
    /// # Errors
    /// The errors of [`Schedule::rfactor`], and an error for a position that the result doesn't have.
    pub fn rfactor_at(&mut self, tensor: &Tensor, axis: Axis, place: isize) -> Result<Vec<Tensor>, TeError> {
        let index = self.index(tensor)?;
        let stage = &self.stages[index];
        let refuse =
            |reason| ScheduleError::Rfactor { stage: tensor.name(), axis: axis.name().to_owned(), reason }.into();
        let Some(compute) = stage.operation.as_compute() else {
            return Err(refuse("only computations can be factored"));
        };
        let Kind::Reduce(reduce, _) = compute.body[0].kind() else {
            return Err(refuse("it is not a reduction; `split` divides its loops"));
        };
        if stage.layout.is_some() {
            return Err(refuse("it has a new layout (`transform_layout`); give the factored stage one instead"));
        }
        stage.leaf(axis)?;
        if axis.kind() != AxisKind::Reduce {
            return Err(refuse("only a reduction axis can be factored; `reduce_axis` gives those of the tensor"));
        }
        let reduced = |leaf: &&Axis| leaf.kind() == AxisKind::Reduce;
        if let Some(bound) = stage.leaves.iter().filter(reduced).find(|leaf| stage.threads.contains_key(leaf)) {
            return Err(refuse(if *bound == axis {
                "it is bound to a thread index; factor it first, and bind the loops of the two stages that this makes"
            } else {
                "another reduction loop is bound to a thread index; factor first, and bind the loops of the two stages \
                 that this makes"
            }));
        }
        let nest = LoopNest::of_whole(stage)?;
        let varies = |leaf: &Axis| !is_size(&nest.extent(*leaf));
        if varies(&axis) {
            return Err(refuse(
                "its extent depends on data or on an index, and that of a dimension can't; split it, and factor the inner loop",
            ));
        }
        let is_plain = |leaf: &Axis| compute.axes.contains(leaf) && !stage.threads.contains_key(leaf);
        let mut data = stage.leaves.iter().filter(|leaf| leaf.kind() == AxisKind::Data);
        if stage.leaves.iter().filter(reduced).any(varies) && !data.all(is_plain) {
            return Err(refuse(
                "the extent of another reduction loop depends on data or on an index, and a data loop is split, fused or \
                 bound; factor first",
            ));
        }
        if stage.leaves.iter().any(|leaf| stage.is_mixed(*leaf)) {
            return Err(refuse("a loop of it is fused of data and reduction axes; fuse after `rfactor`"));
        }
        if !reduce.combiner.commutative {
            let first = stage.leaves.iter().find(|leaf| leaf.kind() == AxisKind::Reduce);
            if first != Some(&axis) || !keeps_order(stage) {
                return Err(refuse("the reducer is not commutative, so only the outermost reduction loop can be"));
            }
        }
        let rank = isize::try_from(compute.axes.len()).unwrap_or(isize::MAX) + 1;
        let position = usize::try_from(if place < 0 { place + rank } else { place })
            .ok()
            .filter(|p| *p < compute.axes.len() + 1)
            .ok_or_else(|| refuse("the new dimension's place is out of range"))?;
        let partial = partial_operation(stage, compute, reduce, axis, position)?;
        let partials: Vec<Tensor> = (0..compute.body.len()).map(|value| Tensor::new(partial.clone(), value)).collect();
        let whole = final_operation(stage, compute, reduce, axis, position, &partials);
        let (group, member, time) = (stage.group.clone(), stage.member, stage.time_dimension());
        self.stages[index].replace(whole);
        let mut stage = Stage::new(partial);
        (stage.group, stage.member) = (group, member);
        stage.time = time.and_then(|d| stage.root_axes.get(d + usize::from(position <= d)).copied());
        self.stages.insert(index, stage);
        self.note("rfactor", &format!("{}, {}, factor_axis={position}", tensor.name(), axis.name()));
        Ok(partials)
    }
}

/// The stage that reduces over all loops but `axis`.
fn partial_operation(
    stage: &Stage,
    compute: &Compute,
    reduce: &Reduce,
    axis: Axis,
    position: usize,
) -> Result<Arc<Operation>, TeError> {
    let nest = LoopNest::of_whole(stage)?;
    let factored = Axis::new(axis.name(), Some(Domain::up_to(nest.extent(axis))), AxisKind::Data);
    let mut replaced: Vec<(Var, Expr)> = vec![(axis.var(), factored.into())];
    let mut axes = Vec::new();
    for old in &compute.axes {
        let new = Axis::new(old.name(), old.domain(), AxisKind::Data);
        replaced.push((old.var(), new.into()));
        axes.push(new);
    }
    axes.insert(position, factored);
    let mut reduce_axes = Vec::new();
    for leaf in stage.leaves.iter().filter(|leaf| leaf.kind() == AxisKind::Reduce && **leaf != axis) {
        let known = |var: Var| replaced.iter().find(|(old, _)| *old == var).map(|(_, x)| x.clone());
        let extent = nest.extent(*leaf).substitute(&known);
        let new = Axis::new(leaf.name(), Some(Domain::up_to(extent)), AxisKind::Reduce);
        replaced.push((leaf.var(), new.into()));
        reduce_axes.push(new);
    }
    let leaves = |var: Var| replaced.iter().find(|(known, _)| *known == var).map(|(_, x)| x.clone());
    let roots = |var: Var| {
        let root = compute.reduce_axes.iter().find(|root| root.var() == var);
        root.map(|root| nest.value(*root).substitute(&leaves)).or_else(|| leaves(var))
    };
    let mut condition = reduce.condition.substitute(&roots);
    for bound in nest.all_bounds(|root| root.kind() == AxisKind::Reduce) {
        condition = simplify(&bound.substitute(&leaves).likely().and(condition));
    }
    let reduce = Arc::new(Reduce {
        combiner: reduce.combiner.clone(),
        source: reduce.source.iter().map(|x| simplify(&x.substitute(&roots))).collect(),
        init: Vec::new(),
        axes: reduce_axes.clone().into(),
        condition,
    });
    let value = |(i, x): (usize, &Expr)| Expr::new(x.dtype(), Kind::Reduce(reduce.clone(), i));
    let body = compute.body.iter().enumerate().map(value).collect();
    let kind = OperationKind::Compute(Compute { axes, reduce_axes, body });
    Ok(Operation::new(format!("{}.rf", stage.name()), kind))
}

/// The stage that reduces over the factored dimension.
fn final_operation(
    stage: &Stage,
    compute: &Compute,
    reduce: &Reduce,
    axis: Axis,
    position: usize,
    partials: &[Tensor],
) -> Arc<Operation> {
    let factored = partials[0].shape().swap_remove(position);
    let over = Axis::new(&format!("{}.v", axis.name()), Some(Domain::up_to(factored)), AxisKind::Reduce);
    let axes: Vec<Axis> = (0..compute.axes.len())
        .map(|d| Axis::new(&format!("ax{d}"), compute.axes[d].domain(), AxisKind::Data))
        .collect();
    let mut indices: Vec<Expr> = axes.iter().map(|axis| Expr::from(*axis)).collect();
    indices.insert(position, over.into());
    let rename = |var: Var| {
        let place = compute.axes.iter().position(|axis| axis.var() == var);
        place.map(|d| Expr::from(axes[d]))
    };
    let reduce = Arc::new(Reduce {
        combiner: reduce.combiner.clone(),
        source: partials.iter().map(|partial| partial.at(indices.clone())).collect(),
        init: reduce.init.iter().map(|x| x.substitute(&rename)).collect(),
        axes: vec![over].into(),
        condition: Expr::truth(true),
    });
    let value = |(i, x): (usize, &Expr)| Expr::new(x.dtype(), Kind::Reduce(reduce.clone(), i));
    let body = compute.body.iter().enumerate().map(value).collect();
    let kind = OperationKind::Compute(Compute { axes, reduce_axes: vec![over], body });
    Operation::new(stage.name(), kind)
}
