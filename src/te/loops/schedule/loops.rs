//! The loops of one stage: their extents, the values of the axes in terms of the loops, and the tests of uneven splits.

use std::collections::{HashMap, HashSet};

use super::{Relation, SplitBy, Stage};
use crate::te::arith::{ceil_div, simplify};
use crate::te::error::{LoweringError, TeError};
use crate::te::expr::axis::{Axis, AxisKind, Domain};
use crate::te::expr::expression::Expr;
use crate::te::expr::var::Var;

/// The ranges of the loops of a stage. Every loop starts at 0.
#[derive(Debug)]
pub(crate) struct LoopNest {
    domains: HashMap<Axis, Domain>,
    extents: HashMap<Axis, Expr>,
    values: HashMap<Axis, Expr>,
    parents: Vec<Axis>,
    /// The axes that were split without predication, each with the condition under which no test is needed.
    preconditions: Vec<(Axis, Expr)>,
    roots: Vec<Axis>,
}

impl LoopNest {
    /// The loops over the whole domain of the operation.
    pub(crate) fn of_whole(stage: &Stage) -> Result<Self, TeError> {
        let mut domains = HashMap::new();
        for axis in &stage.root_axes {
            let domain = axis.domain().ok_or_else(|| LoweringError::Bound {
                stage: stage.operation().name().to_owned(),
                axis: axis.name().to_owned(),
                reason: "it was made without a range",
            })?;
            domains.insert(*axis, domain.clone());
        }
        Ok(Self::new(stage, domains))
    }

    /// The loops over the given ranges of the stage's axes.
    pub(crate) fn new(stage: &Stage, domains: HashMap<Axis, Domain>) -> Self {
        let mut extents: HashMap<Axis, Expr> =
            domains.iter().map(|(axis, domain)| (*axis, simplify(&domain.extent))).collect();
        let threads = thread_bound(stage);
        let (mut parents, mut preconditions) = (Vec::new(), Vec::new());
        for relation in &stage.relations {
            match relation {
                Relation::Split { parent, outer, inner, by, predicated } => {
                    let whole = extents.get(parent).cloned().unwrap_or_else(|| Expr::int(0));
                    let given = |axis: &Axis, extent: &Expr| {
                        if threads.contains(axis) { extent.clone() } else { tightened(&whole, extent) }
                    };
                    let (outer_extent, inner_extent) = match by {
                        SplitBy::Factor(factor) => (ceil_div(&whole, factor), given(inner, factor)),
                        SplitBy::Parts(parts) => (given(outer, parts), ceil_div(&whole, parts)),
                    };
                    parents.push(*parent);
                    if !predicated {
                        preconditions.push((*parent, (&outer_extent * &inner_extent).equal(&whole)));
                    }
                    extents.insert(*outer, outer_extent);
                    extents.insert(*inner, inner_extent);
                }
                Relation::Singleton { axis } => {
                    extents.insert(*axis, Expr::int(1));
                }
                Relation::Transform { to, extents: all, .. } => {
                    extents.extend(to.iter().copied().zip(all.iter().cloned()));
                }
                Relation::Fuse { outer, inner, fused } => {
                    let product = [outer, inner].into_iter().filter_map(|axis| extents.get(axis).cloned());
                    let product = product.reduce(|a, b| a * b).unwrap_or_else(|| Expr::int(0));
                    extents.insert(*fused, simplify(&product));
                }
            }
        }
        let roots = stage.root_axes.clone();
        let mut nest = Self { domains, extents, values: HashMap::new(), parents, preconditions, roots };
        nest.find_values(stage, &[]);
        nest.place_ranges();
        nest
    }

    /// Writes ranges of reduced axes that depend on data axes in terms of the loops over these.
    fn place_ranges(&mut self) {
        let of_kind = |kind| self.roots.iter().copied().filter(move |root| root.kind() == kind).collect::<Vec<Axis>>();
        let (data, reduced) = (of_kind(AxisKind::Data), of_kind(AxisKind::Reduce));
        let varies = |x: &Expr| data.iter().any(|axis| x.uses(axis.var()));
        if !reduced.iter().any(|axis| varies(&self.domain(*axis).min) || varies(&self.domain(*axis).extent)) {
            return;
        }
        let values: HashMap<Var, Expr> = data.iter().map(|axis| (axis.var(), self.value(*axis))).collect();
        let place = |x: &mut Expr| *x = simplify(&x.substitute(&|var| values.get(&var).cloned()));
        for axis in &reduced {
            if let Some(Domain { min, extent }) = self.domains.get_mut(axis) {
                [min, extent].into_iter().for_each(place);
            }
        }
        let inner = |axis: &Axis| axis.kind() == AxisKind::Reduce;
        self.extents.iter_mut().filter(|(axis, _)| inner(axis)).for_each(|(_, x)| place(x));
        self.values.iter_mut().filter(|(axis, _)| inner(axis)).for_each(|(_, x)| place(x));
        self.preconditions.iter_mut().filter(|(axis, _)| inner(axis)).for_each(|(_, x)| place(x));
    }

    /// The loops that initialise a reduction in which some loops run over data and reduction axes at once. Each of
    /// these is replaced by loops over its data axes, which are given too. They also run when the reduction is over
    /// nothing. `None` if there are none.
    pub(crate) fn over_data(&self, stage: &Stage) -> Option<(Self, Vec<Axis>)> {
        if !stage.leaves.iter().any(|leaf| stage.is_mixed(*leaf)) {
            return None;
        }
        let mut data = stage.clone();
        let mut parts = Vec::new();
        data.relations.retain(|relation| match relation {
            Relation::Fuse { outer, inner, fused } if stage.is_mixed(*fused) => {
                parts.extend([*outer, *inner].into_iter().filter(|axis| axis.kind() == AxisKind::Data));
                false
            }
            Relation::Split { parent, .. } => !stage.is_mixed(*parent),
            Relation::Fuse { .. } | Relation::Singleton { .. } | Relation::Transform { .. } => true,
        });
        data.leaves.retain(|leaf| !stage.is_mixed(*leaf));
        data.leaves.extend(&parts);
        Some((Self::new(&data, self.domains.clone()), parts))
    }

    /// The loops, with a separate variable for every data axis that is fused with reduction axes. Also gives the values
    /// of these variables in terms of the loops. `None` if there are no fused data axes.
    pub(crate) fn with_parts(&self, stage: &Stage) -> Option<(Self, Vec<(Axis, Expr)>)> {
        let (_, parts) = self.over_data(stage)?;
        // It counts from 0, as does the loop that replaces it where the reduction is initialised.
        let counted = |part: &Axis| self.values.get(part).cloned().unwrap_or_else(|| Expr::from(*part));
        let several = |part: &&Axis| self.extent(**part).as_int() != Some(1);
        let values = parts.iter().filter(several).map(|part| (*part, counted(part))).collect();
        let mut nest = Self {
            domains: self.domains.clone(),
            extents: self.extents.clone(),
            values: HashMap::new(),
            parents: self.parents.clone(),
            preconditions: self.preconditions.clone(),
            roots: self.roots.clone(),
        };
        nest.find_values(stage, &parts);
        Some((nest, values))
    }

    /// Derives the values from the loops up to the root axes. The axes in `themselves` stand for themselves. A loop of
    /// one iteration has the value 0.
    fn find_values(&mut self, stage: &Stage, themselves: &[Axis]) {
        for leaf in &stage.leaves {
            let once = self.extent(*leaf).as_int() == Some(1) && !stage.threads.contains_key(leaf);
            let thread = stage.threads.get(leaf).map(|thread| Expr::from(*thread));
            let value = if once { Expr::int(0) } else { thread.unwrap_or_else(|| Expr::from(*leaf)) };
            self.values.insert(*leaf, value);
        }
        for relation in stage.relations.iter().rev() {
            match relation {
                Relation::Split { parent, outer, inner, by, .. } => {
                    let factor = match by {
                        SplitBy::Factor(factor) => factor.clone(),
                        SplitBy::Parts(_) => self.extent(*inner),
                    };
                    let value = self.value(*outer) * factor + self.value(*inner);
                    self.values.insert(*parent, simplify(&value));
                }
                Relation::Transform { from, to, values, .. } => {
                    let known = |var| to.iter().find(|axis| axis.var() == var).map(|axis| self.value(*axis));
                    let old: Vec<Expr> = values.iter().map(|x| simplify(&x.substitute(&known))).collect();
                    self.values.extend(from.iter().copied().zip(old));
                }
                Relation::Fuse { outer, inner, fused } => {
                    let (value, width) = (self.value(*fused), self.extent(*inner));
                    self.values.insert(*outer, simplify(&value.clone().floor_div(width.clone())));
                    self.values.insert(*inner, simplify(&value.floor_mod(width)));
                    let own = [*outer, *inner].into_iter().filter(|axis| themselves.contains(axis));
                    for axis in own {
                        let once = self.extent(axis).as_int() == Some(1);
                        self.values.insert(axis, if once { Expr::int(0) } else { Expr::from(axis) });
                    }
                }
                Relation::Singleton { .. } => {}
            }
        }
    }

    /// The number of iterations of an axis.
    pub(crate) fn extent(&self, axis: Axis) -> Expr {
        self.extents.get(&axis).cloned().unwrap_or_else(|| Expr::int(1))
    }

    /// The range of a root axis.
    pub(crate) fn domain(&self, axis: Axis) -> Domain {
        self.domains.get(&axis).cloned().unwrap_or_else(|| Domain::up_to(1))
    }

    /// The value of an axis in terms of the loops. A root axis gives its index in the tensor; the others count from 0.
    pub(crate) fn value(&self, axis: Axis) -> Expr {
        let value = self.values.get(&axis).cloned().unwrap_or_else(|| Expr::from(axis));
        match self.domains.get(&axis) {
            Some(domain) => simplify(&(&domain.min + value)),
            None => value,
        }
    }

    /// The tests of uneven splits: the axis that was split must stay inside its extent. Splits without predication have
    /// no test.
    pub(crate) fn split_bounds(&self, of: impl Fn(Axis) -> bool) -> Vec<Expr> {
        self.all_bounds(|axis| of(axis) && self.preconditions.iter().all(|(exact, _)| *exact != axis))
    }

    /// The axes that were split without predication, each with its extent and the condition under which its loops cover
    /// exactly this extent.
    pub(crate) fn preconditions(&self) -> impl Iterator<Item = (Axis, Expr, &Expr)> {
        self.preconditions.iter().map(|(axis, condition)| (*axis, self.extent(*axis), condition))
    }

    /// The tests of all splits.
    pub(crate) fn all_bounds(&self, of: impl Fn(Axis) -> bool) -> Vec<Expr> {
        let mut order: Vec<Axis> = self.roots.iter().copied().filter(|root| self.parents.contains(root)).collect();
        order.extend(self.parents.iter().filter(|axis| !self.roots.contains(axis)));
        order
            .into_iter()
            .filter(|axis| of(*axis))
            .map(|axis| {
                let end = match self.domains.get(&axis) {
                    Some(domain) => simplify(&(&domain.min + &domain.extent)),
                    None => self.extent(axis),
                };
                self.value(axis).less(end)
            })
            .collect()
    }
}

/// The axes that make up loops bound to threads. Loops bound to threads keep the extent that was given.
fn thread_bound(stage: &Stage) -> HashSet<Axis> {
    let mut bound: HashSet<Axis> = stage.threads.keys().copied().collect();
    for relation in stage.relations.iter().rev() {
        match relation {
            Relation::Split { parent, outer, inner, .. } => {
                if bound.contains(outer) || bound.contains(inner) {
                    bound.insert(*parent);
                }
            }
            Relation::Fuse { outer, inner, fused } => {
                if bound.contains(fused) {
                    bound.extend([*outer, *inner]);
                }
            }
            // The extents of a new layout are fixed.
            Relation::Singleton { .. } | Relation::Transform { .. } => {}
        }
    }
    bound
}

/// The factor, or the whole extent if it is a smaller constant: a longer inner loop would only be cut off by a test.
fn tightened(whole: &Expr, factor: &Expr) -> Expr {
    match (whole.as_int(), factor.as_int()) {
        (Some(whole), Some(factor)) => Expr::int(whole.min(factor).max(1)),
        _ => factor.clone(),
    }
}

/// Whether the reduction loops visit the elements in the order of the reduction axes.
pub(crate) fn keeps_order(stage: &Stage) -> bool {
    let Ok(nest) = LoopNest::of_whole(stage) else { return false };
    let reduced = |axis: &Axis| axis.kind() == AxisKind::Reduce;
    let mut natural: Vec<Axis> = stage.root_axes.iter().copied().filter(reduced).collect();
    for relation in &stage.relations {
        match relation {
            Relation::Split { parent, outer, inner, .. } => {
                if let Some(place) = natural.iter().position(|axis| axis == parent) {
                    natural.splice(place..=place, [*outer, *inner]);
                }
            }
            // This loop is made of data axes only.
            Relation::Transform { .. } => {}
            Relation::Fuse { outer, inner, fused } => {
                let place = |of: &Axis| natural.iter().position(|axis| axis == of);
                match (place(outer), place(inner)) {
                    (Some(first), Some(second)) if second == first + 1 => {
                        natural.splice(first..=second, [*fused]);
                    }
                    (Some(_), Some(_)) => return false,
                    // Fused with a data axis, it still runs in order for each value of that axis.
                    (Some(only), None) | (None, Some(only)) => natural[only] = *fused,
                    (None, None) => {}
                }
            }
            Relation::Singleton { .. } => {}
        }
    }
    let matters = |axis: &Axis| nest.extent(*axis).as_int() != Some(1);
    let actual = stage.leaves.iter().copied().filter(reduced).filter(matters);
    actual.eq(natural.into_iter().filter(matters))
}
