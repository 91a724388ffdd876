//! The M×N values that are kept for later parts.

use super::super::{BroadcastClass, Cost, ParameterClass, ValidTree, ValueId, ValueKind, ValueType, Width};
use super::delivery::{deliveries, roots};
use super::flow::Graph;

/// The costs of keeping an M×N value and of computing it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prices {
    /// To write or read a byte.
    byte: u64,
    /// The cost of a cheap instruction, and of a costly function.
    simple: u64,
    costly: u64,
}

impl Prices {
    /// Launches over memory: in the time of a byte, an H100 does about eight instructions, or half an accurate function.
    pub(crate) const GPU: Self = Self { byte: 8, simple: 1, costly: 16 };
    /// On the CPU, intermediates stay in cache: tens of bytes cost as much as one function.
    pub(crate) const CPU: Self = Self { byte: 1, simple: 1, costly: 16 };
    /// Sweeps over registers: to keep a value takes one that is free anyway.
    pub(super) const REGISTERS: Self = Self { byte: 1, simple: 1, costly: 16 };
    /// Sweeps over few registers.
    pub(super) const FEWEST: Self = Self { byte: 1 << 16, simple: 1, costly: 16 };
}

/// For every value whether it is kept.
///
/// A part can compute again whatever follows from parameters, vectors and kept values. For each part the cheapest
/// values that all it needs follows from are kept, a value that another part has kept already being cheaper. A value
/// that is kept must be computed in its own phase, and so may need more to be kept there: until nothing changes.
pub(super) fn kept(tree: &ValidTree, prices: Prices) -> Vec<bool> {
    let deliveries = deliveries(tree);
    let mut kept = vec![false; tree.values().len()];
    loop {
        let before = kept.clone();
        for phase in 1..tree.phases() {
            for id in read(tree, phase, &roots(tree, phase, &deliveries, &kept), &kept, prices) {
                kept[id.index()] = true;
            }
        }
        if kept == before {
            return kept;
        }
    }
}

/// The M×N values of earlier phases that a part reads from slots.
fn read(tree: &ValidTree, phase: usize, roots: &[ValueId], kept: &[bool], prices: Prices) -> Vec<ValueId> {
    let mut graph = Graph::new(tree.values().len());
    let mut needed = vec![false; tree.values().len()];
    for root in roots.iter().filter(|root| tree.value(**root).class == BroadcastClass::Tensor) {
        needed[root.index()] = true;
        graph.ends(root.index());
    }
    for (id, value) in tree.enumerate().collect::<Vec<_>>().into_iter().rev() {
        if !needed[id.index()] {
            continue;
        }
        let again = read_again(tree, &value.kind, phase);
        let size = prices.byte * size(value.ty);
        graph.weigh(
            id.index(),
            match again {
                _ if value.phase == phase => None,
                Some(bytes) => Some(prices.byte * bytes),
                None if kept[id.index()] => Some(size),
                None => Some(2 * size),
            },
        );
        if matches!(value.kind, ValueKind::Accum(_) | ValueKind::Load(_)) {
            graph.begins(id.index(), None);
        } else if value.phase < phase {
            let Cost { simple_operations, costly_operations, .. } = Cost::of_value(&value.kind);
            let operations = [(prices.simple, simple_operations), (prices.costly, costly_operations)];
            let price = operations.into_iter().map(|(price, count)| price * count as u64).sum();
            graph.begins(id.index(), Some(price));
        }
        for operand in value.kind.operands() {
            if tree.value(operand).class == BroadcastClass::Tensor {
                needed[operand.index()] = true;
                graph.edge(operand.index(), id.index());
            }
        }
    }
    let cut = graph.cut().into_iter().map(ValueId::new);
    cut.filter(|id| read_again(tree, &tree.value(*id).kind, phase).is_none()).collect()
}

/// The bytes of a parameter's element, if it is one that a part of this phase may read: none has overwritten it.
fn read_again(tree: &ValidTree, kind: &ValueKind, phase: usize) -> Option<u64> {
    let ValueKind::Load(p) = kind else { return None };
    let parameter = tree.parameter(*p);
    let overwritten = parameter.class == ParameterClass::TensorMut
        && tree.outputs().iter().any(|output| output.parameter == Some(*p) && tree.value(output.value).phase < phase);
    (!overwritten).then_some(parameter.element.size() as u64)
}

fn size(ty: ValueType) -> u64 {
    match ty {
        ValueType::Real(real) => real.element().size() as u64,
        ValueType::Integer(Width::Bits32) => 4,
        ValueType::Integer(Width::Bits64) => 8,
        ValueType::Bool => 1,
        // A part reads it again.
        ValueType::Seed => 16,
    }
}
