//! Walks over expressions as graphs: each node is met once, however often it is used.
//!
//! The walks keep their pending nodes in a list, so that they need little stack for any depth. All code that visits,
//! rewrites, compares or drops expressions uses them. Only printers and evaluators descend by recursion, which is why
//! the height of an expression has a limit ([`MOST_NESTED`]).

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::expr::{Binary, Expr, Kind};
use super::reduce::Reduce;
use super::tensor::Operation;
use super::var::Var;
use crate::te::dtype::DType;
use crate::te::error::ExpressionError;

/// How deep operations may nest. Printers and code generators descend by recursion; up to this depth they fit the 2 MiB
/// of stack that Rust gives a thread, in debug builds too.
pub(crate) const MOST_NESTED: u32 = 640;

/// Expressions of up to this many nodes, counted as a tree, are walked as trees, because sharing would gain nothing.
const SMALL: u64 = 256;

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

    /// Whether the expression as a tree is so much larger that names for its shared parts are worth it.
    pub(crate) fn is_folded(&self) -> bool {
        if self.0.unfolded <= SMALL {
            return false;
        }
        let mut nodes = 0u64;
        self.visit(&mut |_| nodes += 1);
        nodes.saturating_mul(2) < self.0.unfolded
    }

    /// The direct operands.
    pub(crate) fn operands(&self) -> Operands<'_> {
        operands(self.kind())
    }

    /// The same operation of other operands, in the order of [`Expr::operands`]. Reductions keep their axes.
    fn with_operands(&self, mut others: impl Iterator<Item = Self>) -> Self {
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

    /// Visits the expression and everything below it, each node once, outermost first.
    pub(crate) fn visit<'a>(&'a self, f: &mut dyn FnMut(&'a Self)) {
        self.visit_while(&mut |x| {
            f(x);
            true
        });
    }

    /// [`Expr::visit`], descending only where `f` says so.
    pub(crate) fn visit_while<'a>(&'a self, f: &mut dyn FnMut(&'a Self) -> bool) {
        let mut pending = vec![self];
        let mut seen = HashSet::new();
        while let Some(x) = pending.pop() {
            if x.is_met_again() && !seen.insert(x.id()) {
                continue;
            }
            if f(x) {
                pending.extend(x.operands().into_iter().rev());
            }
        }
    }

    /// Visits the expression and everything below it, outermost first, and tells whether a node is evaluated only under
    /// a condition. A node is met once, or once each way. `guarded` tells this of the whole expression.
    pub(crate) fn visit_guarded<'a>(&'a self, guarded: bool, f: &mut dyn FnMut(&'a Self, bool)) {
        let mut pending = vec![(self, guarded)];
        let mut seen = HashSet::new();
        while let Some((x, guarded)) = pending.pop() {
            if x.is_met_again() && !seen.insert((x.id(), guarded)) {
                continue;
            }
            f(x, guarded);
            let first = pending.len();
            match x.kind() {
                Kind::Select(condition, a, b) => pending.extend([(condition, guarded), (a, true), (b, true)]),
                Kind::Binary(Binary::And | Binary::Or, a, b) => pending.extend([(a, guarded), (b, true)]),
                Kind::Reduce(reduce, _) => {
                    let inside = guarded || reduce.condition.as_int() != Some(1);
                    pending.push((&reduce.condition, guarded));
                    pending.extend(reduce.init.iter().map(|x| (x, guarded)));
                    pending.extend(reduce.source.iter().map(|x| (x, inside)));
                }
                _ => pending.extend(x.operands().into_iter().map(|x| (x, guarded))),
            }
            pending[first..].reverse();
        }
    }

    /// The conditions that must all hold for this one to hold, each once, without `likely`.
    pub(crate) fn conjuncts(&self) -> Vec<&Self> {
        let mut all = Vec::new();
        self.visit_while(&mut |x| {
            let joins = matches!(x.kind(), Kind::Binary(Binary::And, ..) | Kind::Likely(_));
            if !joins {
                all.push(x);
            }
            joins
        });
        all
    }

    /// How often each node occurs in the expression written out as a tree, outermost first.
    pub(crate) fn occurrences(&self) -> Vec<(&Self, u64)> {
        let mut order = self.bottom_up();
        order.reverse();
        let mut times: HashMap<Id, u64> = HashMap::from([(self.id(), 1)]);
        for x in &order {
            let own = times.get(&x.id()).copied().unwrap_or(0);
            for operand in x.operands() {
                let times = times.entry(operand.id()).or_default();
                *times = times.saturating_add(own);
            }
        }
        order.into_iter().map(|x| (x, times.get(&x.id()).copied().unwrap_or(0))).collect()
    }

    /// Every node once, operands before the nodes that use them.
    pub(crate) fn bottom_up(&self) -> Vec<&Self> {
        let mut order = Vec::new();
        let mut seen = HashSet::new();
        let mut pending = vec![(self, false)];
        while let Some((x, entered)) = pending.pop() {
            if entered {
                order.push(x);
            } else if seen.insert(x.id()) {
                pending.push((x, true));
                pending.extend(x.operands().into_iter().rev().map(|operand| (operand, false)));
            }
        }
        order
    }

    /// The same expression rebuilt from its leaves: `leave` is given every node with its new operands. Where `enter`
    /// gives an expression, this replaces the node and everything below it. Both meet a node once, however often it is
    /// used.
    ///
    /// # Errors
    /// The first of `leave`.
    pub(crate) fn try_rewrite<E>(
        &self,
        enter: &mut dyn FnMut(&Self) -> Option<Self>,
        leave: &mut dyn FnMut(Self) -> Result<Self, E>,
    ) -> Result<Self, E> {
        let mut memo: HashMap<Id, Self> = HashMap::new();
        let mut frames: Vec<(&Self, Operands<'_>, usize)> = Vec::new();
        let mut done: Vec<Self> = Vec::new();
        let mut current = Some(self);
        loop {
            if let Some(x) = current.take() {
                let known = if x.is_met_again() { memo.get(&x.id()).cloned() } else { None };
                match known.or_else(|| enter(x)) {
                    Some(known) => done.push(known),
                    None => frames.push((x, x.operands(), 0)),
                }
            }
            let Some((node, operands, next)) = frames.last_mut() else {
                return Ok(done.pop().unwrap_or_else(|| self.clone()));
            };
            if let Some(operand) = operands.get(*next) {
                *next += 1;
                current = Some(operand);
                continue;
            }
            let node = *node;
            let first = done.len() - operands.len();
            let unchanged = operands.iter().zip(&done[first..]).all(|(old, new)| old.id() == new.id());
            let rebuilt = if unchanged { node.clone() } else { node.with_operands(done.drain(first..)) };
            frames.pop();
            done.truncate(first);
            let result = leave(rebuilt)?;
            if node.is_met_again() {
                memo.insert(node.id(), result.clone());
            }
            done.push(result);
        }
    }

    /// [`Expr::try_rewrite`] that always enters and can't fail.
    pub(crate) fn rewrite(&self, leave: &mut dyn FnMut(Self) -> Self) -> Self {
        self.rewrite_below(&mut |_| None, leave)
    }

    /// [`Expr::try_rewrite`] that can't fail.
    pub(crate) fn rewrite_below(
        &self,
        enter: &mut dyn FnMut(&Self) -> Option<Self>,
        leave: &mut dyn FnMut(Self) -> Self,
    ) -> Self {
        let result: Result<Self, Infallible> = self.try_rewrite(enter, &mut |x| Ok(leave(x)));
        match result {
            Ok(x) => x,
            Err(never) => match never {},
        }
    }

    /// The same expression with every node replaced for which `replace` gives another, outermost first.
    pub(crate) fn replaced(&self, replace: &mut dyn FnMut(&Self) -> Option<Self>) -> Self {
        self.rewrite_below(replace, &mut |x| x)
    }

    /// Gives names to the parts that are used several times, each in terms of those before it, and the expression in
    /// terms of all of them; `None` where it is as well written out. `may` tells whether a part may be computed before
    /// the expression. Without `may`, all parts may, including those of indices.
    pub(crate) fn with_names(
        &self,
        prefix: &str,
        may: Option<&dyn Fn(&Self) -> bool>,
    ) -> Option<(Vec<(Var, Self)>, Self)> {
        if !self.is_folded() {
            return None;
        }
        let stays = |x: &Self| may.is_some() && matches!(x.kind(), Kind::Load(..) | Kind::Read(..));
        let order = self.bottom_up();
        let mut uses: HashMap<Id, usize> = HashMap::new();
        for x in order.iter().filter(|x| !stays(x)).flat_map(|x| x.operands()) {
            *uses.entry(x.id()).or_default() += 1;
        }
        let mut names: HashMap<Id, Self> = HashMap::new();
        let mut parts = Vec::new();
        for x in order {
            let times = uses.get(&x.id()).copied().unwrap_or(0);
            if times > 1 && x.0.unfolded > 1 && x.id() != self.id() && may.is_none_or(|may| may(x)) {
                let value = x
                    .replaced(&mut |part| names.get(&part.id()).cloned().or_else(|| stays(part).then(|| part.clone())));
                let var = Var::local(&format!("{prefix}{}", parts.len() + 1), x.dtype());
                names.insert(x.id(), var.into());
                parts.push((var, value));
            }
        }
        let body =
            self.replaced(&mut |part| names.get(&part.id()).cloned().or_else(|| stays(part).then(|| part.clone())));
        (!parts.is_empty()).then_some((parts, body))
    }

    /// The nodes that are always evaluated when the expression is.
    pub(crate) fn always_evaluated(&self) -> HashSet<Id> {
        let mut all = HashSet::new();
        self.visit_guarded(false, &mut |x, guarded| {
            if !guarded {
                all.insert(x.id());
            }
        });
        all
    }

    /// The same expression with variables replaced.
    pub(crate) fn substitute(&self, replace: &dyn Fn(Var) -> Option<Self>) -> Self {
        self.replaced(&mut |x| x.as_var().map(|var| replace(var).unwrap_or_else(|| x.clone())))
    }

    /// Whether it mentions a variable.
    pub(crate) fn uses(&self, var: Var) -> bool {
        self.contains(|x| x.as_var() == Some(var))
    }

    /// Whether it loads elements of buffers.
    pub(crate) fn loads(&self) -> bool {
        self.contains(|x| matches!(x.kind(), Kind::Load(..)))
    }

    /// Whether it, or a part of it, satisfies the test.
    pub(crate) fn contains(&self, is_such: impl Fn(&Self) -> bool) -> bool {
        let mut found = false;
        self.visit_while(&mut |x| {
            found = found || is_such(x);
            !found
        });
        found
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

/// Visits operations and what they read, each once, outermost first. `f` tells whether to follow an operation's reads.
pub(crate) fn visit_operations<'a>(
    roots: impl IntoIterator<Item = &'a Arc<Operation>>,
    f: &mut dyn FnMut(&Arc<Operation>) -> bool,
) {
    let mut pending: Vec<Arc<Operation>> = roots.into_iter().cloned().collect();
    pending.reverse();
    let mut seen = HashSet::new();
    while let Some(operation) = pending.pop() {
        if seen.insert(Arc::as_ptr(&operation)) && f(&operation) {
            pending.extend(operation.inputs().into_iter().rev().map(|input| Arc::clone(input.operation())));
        }
    }
}

/// Operations and what they read, each once. An operation comes after what it reads.
pub(crate) fn operations_in_order<'a>(roots: impl IntoIterator<Item = &'a Arc<Operation>>) -> Vec<Arc<Operation>> {
    let mut order = Vec::new();
    let mut seen = HashSet::new();
    let mut pending: Vec<(Arc<Operation>, bool)> = roots.into_iter().map(|root| (Arc::clone(root), false)).collect();
    pending.reverse();
    while let Some((operation, entered)) = pending.pop() {
        if entered {
            order.push(operation);
        } else if seen.insert(Arc::as_ptr(&operation)) {
            let inputs = operation.inputs();
            pending.push((operation, true));
            pending.extend(inputs.into_iter().rev().map(|input| (Arc::clone(input.operation()), false)));
        }
    }
    order
}
