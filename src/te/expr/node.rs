//! The nodes of expressions: what they are made of, when two are equal, and how they are dropped.
//!
//! Equal expressions have equal hashes, which are kept with the node. Comparing and dropping keep their pending nodes in a
//! list, as all walks do ([`graph`](super::graph)).

use std::cell::RefCell;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::expression::{Expr, Kind};
use super::reduce::Reduce;
use crate::te::dtype::DType;
use crate::te::error::ExpressionError;

/// How deep operations may nest. Printers and code generators descend by recursion; up to this depth they fit the 2 MiB
/// of stack that Rust gives a thread, in debug builds too.
pub(crate) const MOST_NESTED: u32 = 640;

/// Expressions of up to this many nodes, counted as a tree, are walked as trees, because sharing would gain nothing.
pub(super) const SMALL: u64 = 256;

/// A node of an expression.
pub(crate) struct Node {
    pub(crate) dtype: DType,
    pub(crate) kind: Kind,
    /// The longest path down to a leaf, in nodes.
    height: u32,
    /// The number of nodes of the expression written out as a tree.
    unfolded: u64,
    /// Equal expressions have equal hashes.
    hash: u64,
}

/// The direct operands of an expression.
pub(crate) type Operands<'a> = SmallVec<[&'a Expr; 3]>;

/// The identity of a node. Another node may get the same identity after this one is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Id(*const Node);

impl Node {
    pub(crate) fn new(dtype: DType, kind: Kind) -> Self {
        let (mut height, mut unfolded, mut hash) = (0, 0u64, payload(&kind, dtype));
        for x in operands(&kind) {
            height = height.max(x.0.height);
            unfolded = unfolded.saturating_add(x.0.unfolded);
            hash = mix(hash, x.0.hash);
        }
        if let Kind::Reduce(reduce, _) = &kind {
            height = reduce.combiner.result.iter().map(|x| x.0.height).fold(height, u32::max);
        }
        let kind = if height < MOST_NESTED {
            kind
        } else {
            Kind::Invalid(ExpressionError::Nested { most: MOST_NESTED }.into())
        };
        let height = if height < MOST_NESTED { height + 1 } else { 1 };
        Self { dtype, kind, height, unfolded: unfolded.saturating_add(1), hash }
    }
}

/// A hash of what distinguishes a node besides its operands.
fn payload(kind: &Kind, dtype: DType) -> u64 {
    let mut state = std::hash::DefaultHasher::new();
    (std::mem::discriminant(kind), dtype).hash(&mut state);
    match kind {
        Kind::Int(value) => value.hash(&mut state),
        Kind::Float(value) => value.to_bits().hash(&mut state),
        Kind::Var(var) => var.hash(&mut state),
        Kind::Binary(op, ..) => op.hash(&mut state),
        Kind::Apply(op, _) => op.hash(&mut state),
        Kind::Call(function, _) => function.name().hash(&mut state),
        Kind::Read(tensor, _) => tensor.hash(&mut state),
        Kind::Load(buffer, _) => buffer.hash(&mut state),
        Kind::Reduce(_, value) => value.hash(&mut state),
        Kind::Not(_) | Kind::Select(..) | Kind::Cast(_) | Kind::Likely(_) | Kind::Invalid(_) => {}
    }
    state.finish()
}

fn mix(hash: u64, next: u64) -> u64 {
    (hash.rotate_left(5) ^ next).wrapping_mul(0x517c_c1b7_2722_0a95)
}

/// The direct operands of a node.
fn operands(kind: &Kind) -> Operands<'_> {
    match kind {
        Kind::Int(_) | Kind::Float(_) | Kind::Var(_) | Kind::Invalid(_) => SmallVec::new(),
        Kind::Binary(_, a, b) => smallvec![a, b],
        Kind::Not(x) | Kind::Cast(x) | Kind::Likely(x) => smallvec![x],
        Kind::Select(c, a, b) => smallvec![c, a, b],
        Kind::Apply(_, operands) | Kind::Call(_, operands) | Kind::Read(_, operands) | Kind::Load(_, operands) => {
            operands.iter().collect()
        }
        Kind::Reduce(reduce, _) => reduce.source.iter().chain(&reduce.init).chain([&reduce.condition]).collect(),
    }
}

impl Expr {
    /// The identity of the outermost node.
    pub(crate) fn id(&self) -> Id {
        Id(Arc::as_ptr(&self.0))
    }

    /// The number of nodes of the expression written out as a tree; it saturates.
    pub(crate) fn unfolded(&self) -> u64 {
        self.0.unfolded
    }

    /// Whether a walk may meet the node again: it is not a leaf, and something else refers to it.
    pub(crate) fn is_met_again(&self) -> bool {
        self.0.unfolded > 1 && Arc::strong_count(&self.0) > 1
    }

    /// The direct operands.
    pub(crate) fn operands(&self) -> Operands<'_> {
        operands(self.kind())
    }

    /// Gives the operation other operands, in the order of [`Expr::operands`]. Reductions keep their axes.
    pub(crate) fn with_operands(&self, mut others: impl Iterator<Item = Self>) -> Self {
        let mut next = |x: &Self| others.next().unwrap_or_else(|| x.clone());
        let kind = match self.kind() {
            Kind::Int(_) | Kind::Float(_) | Kind::Var(_) | Kind::Invalid(_) => return self.clone(),
            Kind::Binary(op, a, b) => Kind::Binary(*op, next(a), next(b)),
            Kind::Not(x) => Kind::Not(next(x)),
            Kind::Cast(x) => Kind::Cast(next(x)),
            Kind::Likely(x) => Kind::Likely(next(x)),
            Kind::Select(c, a, b) => Kind::Select(next(c), next(a), next(b)),
            Kind::Apply(op, operands) => Kind::Apply(*op, operands.iter().map(next).collect()),
            Kind::Call(function, operands) => Kind::Call(function, operands.iter().map(next).collect()),
            Kind::Read(tensor, indices) => Kind::Read(tensor.clone(), indices.iter().map(next).collect()),
            Kind::Load(buffer, indices) => Kind::Load(buffer.clone(), indices.iter().map(next).collect()),
            Kind::Reduce(reduce, index) => Kind::Reduce(
                Arc::new(Reduce {
                    combiner: reduce.combiner.clone(),
                    source: reduce.source.iter().map(&mut next).collect(),
                    init: reduce.init.iter().map(&mut next).collect(),
                    axes: reduce.axes.clone(),
                    condition: next(&reduce.condition),
                }),
                *index,
            ),
        };
        Self::new(self.dtype(), kind)
    }
}

/// Whether two nodes are the same apart from their operands.
fn alike(a: &Kind, b: &Kind) -> bool {
    match (a, b) {
        (Kind::Int(a), Kind::Int(b)) => a == b,
        // A zero and its negative are two constants; a NaN is the constant that it is.
        (Kind::Float(a), Kind::Float(b)) => a.to_bits() == b.to_bits(),
        (Kind::Var(a), Kind::Var(b)) => a == b,
        (Kind::Binary(a, ..), Kind::Binary(b, ..)) => a == b,
        (Kind::Apply(a, x), Kind::Apply(b, y)) => a == b && x.len() == y.len(),
        (Kind::Call(a, x), Kind::Call(b, y)) => (std::ptr::eq(*a, *b) || a == b) && x.len() == y.len(),
        (Kind::Read(a, x), Kind::Read(b, y)) => a == b && x.len() == y.len(),
        (Kind::Load(a, x), Kind::Load(b, y)) => a == b && x.len() == y.len(),
        (Kind::Reduce(a, i), Kind::Reduce(b, j)) => {
            let same = || {
                a.combiner == b.combiner
                    && a.axes == b.axes
                    && a.source.len() == b.source.len()
                    && a.init.len() == b.init.len()
            };
            i == j && (Arc::ptr_eq(a, b) || same())
        }
        (Kind::Invalid(a), Kind::Invalid(b)) => a == b,
        (Kind::Not(_), Kind::Not(_))
        | (Kind::Select(..), Kind::Select(..))
        | (Kind::Cast(_), Kind::Cast(_))
        | (Kind::Likely(_), Kind::Likely(_)) => true,
        _ => false,
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        alike(self, other) && operands(self) == operands(other)
    }
}

impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        let mut pending: SmallVec<[(&Self, &Self); 8]> = smallvec![(self, other)];
        let mut seen = HashSet::new();
        while let Some((a, b)) = pending.pop() {
            if a.id() == b.id() {
                continue;
            }
            let differ = a.0.hash != b.0.hash || a.0.unfolded != b.0.unfolded || a.0.dtype != b.0.dtype;
            if differ || !alike(a.kind(), b.kind()) {
                return false;
            }
            if self.0.unfolded <= SMALL || !a.is_met_again() || seen.insert((a.id(), b.id())) {
                pending.extend(a.operands().into_iter().zip(b.operands()));
            }
        }
        true
    }
}

impl Eq for Expr {}

impl Hash for Expr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash.hash(state);
    }
}

/// Nodes that are still to be dropped, and whether a loop is dropping them already.
#[derive(Default)]
struct Dropped {
    kinds: Vec<Kind>,
    running: bool,
}

thread_local! {
    static DROPPED: RefCell<Dropped> = RefCell::default();
}

impl Drop for Node {
    /// Drops one node after the other, also through the tensors that they read: chains of any length need no stack.
    fn drop(&mut self) {
        if matches!(self.kind, Kind::Int(_) | Kind::Float(_) | Kind::Var(_) | Kind::Invalid(_)) {
            return;
        }
        let mut own = Some(std::mem::replace(&mut self.kind, Kind::Int(0)));
        // Without the list, at a thread's end, what is left is dropped by recursion.
        let is_first = DROPPED.try_with(|dropped| {
            let mut dropped = dropped.borrow_mut();
            dropped.kinds.extend(own.take());
            !std::mem::replace(&mut dropped.running, true)
        });
        if is_first != Ok(true) {
            return;
        }
        while let Ok(Some(kind)) = DROPPED.try_with(|dropped| {
            let mut dropped = dropped.borrow_mut();
            let next = dropped.kinds.pop();
            dropped.running = next.is_some();
            next
        }) {
            drop(kind);
        }
    }
}
