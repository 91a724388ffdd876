//! The loops of one stage: extents, the values of its axes in terms of its loops, and the tests that uneven splits need.

use std::collections::HashMap;

use crate::te::arith::{ceil_div, simplify};
use crate::te::axis::{Axis, AxisKind, Domain};
use crate::te::error::TeError;
use crate::te::expr::Expr;
use crate::te::schedule::{Relation, SplitBy, Stage};

/// What the loops of a stage run over. Every loop starts at 0.
#[derive(Debug)]
pub(crate) struct LoopNest {
    domains: HashMap<Axis, Domain>,
    extents: HashMap<Axis, Expr>,
    values: HashMap<Axis, Expr>,
    parents: Vec<Axis>,
    roots: Vec<Axis>,
}

impl LoopNest {
    /// The loops over all of the operation's domain.
    pub(crate) fn of_whole(stage: &Stage) -> Result<Self, TeError> {
        let mut domains = HashMap::new();
        for axis in &stage.root_axes {
            let domain = axis.domain().ok_or_else(|| TeError::Bound {
                stage: stage.operation().name().to_owned(),
                axis: axis.name().to_owned(),
                reason: "it was made without a range",
            })?;
            domains.insert(*axis, domain.clone());
        }
        Ok(Self::new(stage, domains))
    }

    /// The loops over given ranges of the stage's axes.
    pub(crate) fn new(stage: &Stage, domains: HashMap<Axis, Domain>) -> Self {
        let mut extents: HashMap<Axis, Expr> =
            domains.iter().map(|(axis, domain)| (*axis, simplify(&domain.extent))).collect();
        let mut parents = Vec::new();
        for relation in &stage.relations {
            match relation {
                Relation::Split { parent, outer, inner, by } => {
                    let whole = extents.get(parent).cloned().unwrap_or_else(|| Expr::int(0));
                    let (outer_extent, inner_extent) = match by {
                        SplitBy::Factor(factor) => (ceil_div(&whole, factor), tightened(&whole, factor)),
                        SplitBy::Parts(parts) => (tightened(&whole, parts), ceil_div(&whole, parts)),
                    };
                    extents.insert(*outer, outer_extent);
                    extents.insert(*inner, inner_extent);
                    parents.push(*parent);
                }
                Relation::Fuse { outer, inner, fused } => {
                    let product = [outer, inner].into_iter().filter_map(|axis| extents.get(axis).cloned());
                    let product = product.reduce(|a, b| a * b).unwrap_or_else(|| Expr::int(0));
                    extents.insert(*fused, simplify(&product));
                }
            }
        }
        let mut nest = Self { domains, extents, values: HashMap::new(), parents, roots: stage.root_axes.clone() };
        nest.find_values(stage);
        nest
    }

    /// From the loops up to the root axes. A loop of one iteration is its only value, 0.
    fn find_values(&mut self, stage: &Stage) {
        for leaf in &stage.leaves {
            let once = self.extent(*leaf).as_int() == Some(1) && !stage.threads.contains_key(leaf);
            let thread = stage.threads.get(leaf).map(|thread| Expr::from(*thread));
            let value = if once { Expr::int(0) } else { thread.unwrap_or_else(|| Expr::from(*leaf)) };
            self.values.insert(*leaf, value);
        }
        for relation in stage.relations.iter().rev() {
            match relation {
                Relation::Split { parent, outer, inner, by } => {
                    let factor = match by {
                        SplitBy::Factor(factor) => factor.clone(),
                        SplitBy::Parts(_) => self.extent(*inner),
                    };
                    let value = self.value(*outer) * factor + self.value(*inner);
                    self.values.insert(*parent, simplify(&value));
                }
                Relation::Fuse { outer, inner, fused } => {
                    let (value, width) = (self.value(*fused), self.extent(*inner));
                    self.values.insert(*outer, simplify(&value.clone().floor_div(width.clone())));
                    self.values.insert(*inner, simplify(&value.floor_mod(width)));
                }
            }
        }
    }

    /// How many iterations an axis has.
    pub(crate) fn extent(&self, axis: Axis) -> Expr {
        self.extents.get(&axis).cloned().unwrap_or_else(|| Expr::int(1))
    }

    /// The range of a root axis.
    pub(crate) fn domain(&self, axis: Axis) -> Domain {
        self.domains.get(&axis).cloned().unwrap_or_else(|| Domain::up_to(1))
    }

    /// An axis in terms of the loops: for a root axis, its index in the tensor; for others, counted from 0.
    pub(crate) fn value(&self, axis: Axis) -> Expr {
        let value = self.values.get(&axis).cloned().unwrap_or_else(|| Expr::from(axis));
        match self.domains.get(&axis) {
            Some(domain) => simplify(&(&domain.min + value)),
            None => value,
        }
    }

    /// The tests that a split by what may not divide needs: the axis that was split stays inside its extent.
    pub(crate) fn split_bounds(&self, of: impl Fn(Axis) -> bool) -> Vec<Expr> {
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

/// An inner loop longer than what was split would only be cut again: a constant extent below the factor is taken.
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
            Relation::Fuse { outer, inner, fused } => {
                let Some(place) = natural.iter().position(|axis| axis == outer) else { continue };
                if natural.get(place + 1) != Some(inner) {
                    return false;
                }
                natural.splice(place..=place + 1, [*fused]);
            }
        }
    }
    let matters = |axis: &Axis| nest.extent(*axis).as_int() != Some(1);
    let actual = stage.leaves.iter().copied().filter(reduced).filter(matters);
    actual.eq(natural.into_iter().filter(matters))
}
