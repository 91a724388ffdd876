//! The part in which every output is stored, and the values that a part must have.

use super::super::{OutputKind, ValidOutput, ValidTree, ValueId, ValueKind};

/// An output of the whole tree: in which part it is stored, and as what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    pub(super) phase: usize,
    pub(super) value: ValueId,
    pub(super) kind: OutputKind,
}

/// How every output is delivered. A reduction that later parts read is complete in a slot: a later part copies it.
pub(super) fn deliveries(tree: &ValidTree) -> Vec<Delivery> {
    let delivery = |output: &ValidOutput| {
        let in_slot = tree.enumerate().find(|(_, value)| match (output.kind, &value.kind) {
            (OutputKind::Reduce(of), ValueKind::Reduce(reduction, x)) => {
                of == *reduction && output.value == *x && !of.batch
            }
            _ => false,
        });
        let (value, kind) = match in_slot {
            Some((id, _)) => (id, OutputKind::Store),
            None => (output.value, output.kind),
        };
        Delivery { phase: tree.value(value).phase, value, kind }
    };
    tree.outputs().iter().map(delivery).collect()
}

/// The values that a part must have: what it delivers, reduces and keeps.
pub(super) fn roots(tree: &ValidTree, phase: usize, deliveries: &[Delivery], kept: &[bool]) -> Vec<ValueId> {
    let delivered = deliveries.iter().filter(|delivery| delivery.phase == phase).map(|delivery| delivery.value);
    let reduced = tree.values().iter().filter_map(|value| match value.kind {
        ValueKind::Reduce(_, x) if value.phase == phase + 1 => Some(x),
        _ => None,
    });
    let stored = tree.enumerate().filter(|(id, value)| kept[id.index()] && value.phase == phase).map(|(id, _)| id);
    delivered.chain(reduced).chain(stored).collect()
}
