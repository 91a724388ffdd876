//! A tree with phases as trees without, which run one after another: the general way to compute it, on every device.
//!
//! A reduction's result is known when all of its elements are, so values computed from it come a *phase* later. A
//! device that computes one element after another cannot do both phases in one pass over the product. So a tree of P
//! phases becomes P parts. A part is an ordinary tree whose reductions are outputs only; emitters, the cost model and
//! the CPU device see only parts:
//!
//! ```text
//! norm                part 0                      part 1                         part 2
//! s = sum x           x = scale * accum           c = x - s                      c = x - s
//! c = x - s           keeps x; s = reduce x       q = reduce c                   d = c / q
//! q = sum of squares
//! d = c / q           of the accumulator          of x and s, read from memory   of x, s and q
//! ```
//!
//! A part reads values of earlier parts from *slots*, memory of the plan: the results of reductions, which are small,
//! and the *cut*, M×N values. Every part after the first computes its values from the cut, from vectors, and from
//! parameters, which it reads again. The kept values are a cheapest cut of the tree's graph, by the costs of a device's
//! memory and functions ([`cut`]). The accumulator itself exists in the first part alone.
//!
//! On a GPU a part is a launch; if whole rows lie in one tile, or in a cluster's tiles, it is a sweep ([`in_tile`]).
//! The CPU takes rows through all parts, a panel at a time, or runs part after part (`gemm/cpu/panel.rs`). Sums of
//! exponentials below a maximum are computed with the maximum if that saves a launch ([`exponentials`]); on the CPU, if
//! nothing need be kept then.
//!
//! A part's outputs are those of its phase, so each is stored as soon as it is known. A `TensorMut` that a part has
//! overwritten is not read again: if a later part needs its old values, they are kept.

mod cut;
mod delivery;
mod exponentials;
mod flow;
mod in_tile;
mod part;
mod pass;

pub(crate) use cut::Prices;
pub(crate) use exponentials::AtInfinity;
pub(crate) use in_tile::{Computation, Sweep, SweepPlace, SweepTarget};
pub use in_tile::{InTile, WholeLines};
pub(crate) use pass::Pass;

use super::{Axis, BroadcastClass, Reduction, ValidTree, ValueId, ValueKind, ValueType};
use crate::ElementType;

/// The parts of a tree, in the order in which they run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Phases {
    /// The whole.
    pub(crate) tree: ValidTree,
    /// At least one.
    pub(crate) parts: Vec<PhasePart>,
    /// Values that parts leave for later parts.
    pub(crate) slots: Vec<Slot>,
    /// The other way: by sweeps over a tile.
    pub(crate) in_tile: Option<InTile>,
}

/// The computation of one pass over the product.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PhasePart {
    /// Without phases. Only the first part's has accumulators.
    pub(crate) tree: ValidTree,
    /// The source of each argument of a run of it, in the order of [`ValidTree::argument_names`].
    pub(crate) bindings: Vec<PartBinding>,
}

/// The source of a part's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartBinding {
    /// An argument of the whole tree.
    Argument(usize),
    /// A slot, by its place in [`Phases::slots`].
    Slot(usize),
}

/// Memory that a part writes and later ones read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slot {
    /// The value of the whole tree that it holds.
    pub(crate) value: ValueId,
    /// The user's name for it.
    pub(crate) name: String,
    pub(crate) class: BroadcastClass,
    pub(crate) element: ElementType,
    /// Whether every batch has its own.
    pub(crate) batched: bool,
}

impl Slot {
    /// Extents for a product of `batch` times M×N.
    pub(crate) fn extents(&self, batch: usize, m: usize, n: usize) -> (usize, usize, usize) {
        let (rows, columns) = match self.class {
            BroadcastClass::Scalar => (1, 1),
            BroadcastClass::RowVector => (1, n),
            BroadcastClass::ColumnVector => (m, 1),
            BroadcastClass::Tensor => (m, n),
        };
        (if self.batched { batch } else { 1 }, rows, columns)
    }

    fn of(tree: &ValidTree, id: ValueId) -> Self {
        let value = tree.value(id);
        let element = match value.ty {
            ValueType::Real(real) => real.element(),
            ValueType::Integer(width) => width.element(),
            ValueType::Bool => ElementType::Bool,
            // Never: a seed is a parameter, which every part reads itself.
            ValueType::Seed => ElementType::I64,
        };
        let batched = !matches!(value.kind, ValueKind::Reduce(reduction, _) if reduction.batch);
        let name = match (value.user_name, &value.kind) {
            (Some(name), _) => name.to_owned(),
            (None, ValueKind::Reduce(Reduction { axis, op, .. }, x)) => {
                format!("reduction_op({}, {axis:?}, {})", tree.value(*x).user_name.unwrap_or("…"), op.name())
            }
            (None, _) => value.name.clone(),
        };
        Self { value: id, name, class: value.class, element, batched }
    }
}

impl Phases {
    /// The parts of a tree; a tree without phases is one part.
    pub(crate) fn of(tree: ValidTree, prices: Prices) -> Self {
        if tree.phases() == 1 {
            let bindings = (0..tree.argument_names().count()).map(PartBinding::Argument).collect();
            let parts = vec![PhasePart { tree: tree.clone(), bindings }];
            return Self { parts, slots: Vec::new(), in_tile: None, tree };
        }
        let in_tile = if prices == Prices::GPU { InTile::of(&tree) } else { None };
        let of = |(parts, slots)| Self { parts, slots, in_tile: None, tree: tree.clone() };
        let by_phases = of(parts(&tree, prices));
        // The CPU's code for these sums is of rows.
        let takes = |sum: Reduction| prices != Prices::CPU || (sum.axis == Axis::Row && !sum.batch);
        let in_one_pass = exponentials::in_one_pass(&tree, takes).map(|tree| of(parts(&tree, prices)));
        let in_one_pass = in_one_pass.filter(|in_one_pass| match prices {
            Prices::CPU => in_one_pass.kept_bytes() == 0,
            _ => in_one_pass.passes().len() < by_phases.passes().len(),
        });
        Self { in_tile, ..in_one_pass.unwrap_or(by_phases) }
    }

    /// The computation of the kernel with the product: the first part, or everything. `None` if it can't be everything.
    pub(crate) fn computation(&self, in_tile: bool) -> Option<Computation<'_>> {
        if in_tile {
            return self.in_tile.as_ref().map(InTile::computation);
        }
        Some(self.product().computation())
    }

    /// The tree whose arguments the kernel with the product takes.
    pub(crate) fn in_product(&self, in_tile: bool) -> &ValidTree {
        match &self.in_tile {
            Some(all) if in_tile => all.tree(),
            _ => self.first(),
        }
    }

    /// Bytes that parts leave of every element of the product.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.slots.iter().filter(|slot| slot.class == BroadcastClass::Tensor).map(|slot| slot.element.size()).sum()
    }

    /// The tree of the part with the product.
    pub(crate) fn first(&self) -> &ValidTree {
        &self.parts[0].tree
    }
}

/// The parts of a tree with phases, and their slots.
fn parts(tree: &ValidTree, prices: Prices) -> (Vec<PhasePart>, Vec<Slot>) {
    let kept = cut::kept(tree, prices);
    let reduced = tree.enumerate().filter(|(_, value)| matches!(value.kind, ValueKind::Reduce(..)));
    let ids = reduced.map(|(id, _)| id).chain(tree.enumerate().map(|(id, _)| id).filter(|id| kept[id.index()]));
    let slots: Vec<Slot> = ids.map(|id| Slot::of(tree, id)).collect();
    let parts = (0..tree.phases()).map(|phase| part::part(tree, phase, &slots)).collect();
    (parts, slots)
}

#[cfg(test)]
mod tests;
