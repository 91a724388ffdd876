//! The parts that run in one launch.

use super::super::{Axis, BroadcastClass, Reduction, ValidOutput, ValueKind};
use super::{Computation, PartBinding, PhasePart, Phases};

/// The computation of one launch: a part, and after it perhaps one that has vectors only.
///
/// A block completes the reduction of a row (a column, the matrix). It can then compute at once all values of the row
/// that follow from the result. It waits for no other block and reads no M×N value. So a part of vectors along the axis of the
/// reductions before it needs no launch of its own: it is the *tail* of theirs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass<'a> {
    pub(crate) part: &'a PhasePart,
    pub(crate) tail: Option<&'a PhasePart>,
}

impl<'a> Pass<'a> {
    /// The computation of its kernel.
    pub(crate) fn computation(&self) -> Computation<'a> {
        Computation::of_pass(&self.part.tree, self.tail.map(|tail| &tail.tree))
    }
}

impl Phases {
    /// The launches, in their order; at least one.
    pub(crate) fn passes(&self) -> Vec<Pass<'_>> {
        let mut passes: Vec<Pass<'_>> = Vec::new();
        for part in &self.parts {
            match passes.last_mut() {
                Some(last) if last.tail.is_none() && self.is_tail(last.part, part) => last.tail = Some(part),
                _ => passes.push(Pass { part, tail: None }),
            }
        }
        passes
    }

    /// The launch with the product.
    pub(crate) fn product(&self) -> Pass<'_> {
        let part = &self.parts[0];
        Pass { part, tail: self.parts.get(1).filter(|tail| self.is_tail(part, tail)) }
    }

    fn is_tail(&self, part: &PhasePart, tail: &PhasePart) -> bool {
        let Some(axis) = tail.along() else { return false };
        let written = &part.bindings[part.tree.parameters().len()..];
        let reads = &tail.bindings[tail.tree.parameters().len()..];
        let own = tail.bindings[..tail.tree.parameters().len()].iter().filter(|binding| written.contains(binding));
        reads.iter().all(|binding| matches!(binding, PartBinding::Argument(_)))
            && own.filter_map(|binding| self.reduction(binding)).all(|reduction| {
                let Reduction { axis: of, batch, .. } = reduction;
                of == axis && !batch
            })
    }

    /// The reduction whose result an argument is.
    fn reduction(&self, binding: &PartBinding) -> Option<Reduction> {
        let PartBinding::Slot(slot) = binding else { return None };
        match self.tree.value(self.slots[*slot].value).kind {
            ValueKind::Reduce(reduction, _) => Some(reduction),
            _ => None,
        }
    }
}

impl PhasePart {
    /// The axis of the reductions that the part's vectors extend like, if it has vectors of one class only.
    fn along(&self) -> Option<Axis> {
        let outputs = self.tree.outputs();
        let class = outputs.first()?.class;
        let alike = |output: &ValidOutput| output.class == class && output.reduction().is_none();
        let axis = match class {
            BroadcastClass::ColumnVector => Axis::Row,
            BroadcastClass::RowVector => Axis::Column,
            BroadcastClass::Scalar => Axis::All,
            BroadcastClass::Tensor => return None,
        };
        outputs.iter().all(alike).then_some(axis)
    }
}
