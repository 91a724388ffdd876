//! Walks over expressions as graphs: each node is met once, however often it is used.
//!
//! The walks keep their pending nodes in a list, so that they need little stack for any depth. All code that visits
//! or rewrites expressions uses them. Only printers and evaluators descend by recursion, which is why the height of an
//! expression has a limit ([`MOST_NESTED`](super::node::MOST_NESTED)).

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;

use super::expression::{Binary, Expr, Kind};
use super::node::{Id, Operands, SMALL};
use super::tensor::Operation;
use super::var::Var;

impl Expr {
    /// Whether the expression as a tree is so much larger that names for its shared parts are worth it.
    pub(crate) fn is_folded(&self) -> bool {
        if self.unfolded() <= SMALL {
            return false;
        }
        let mut nodes = 0u64;
        self.visit(&mut |_| nodes += 1);
        nodes.saturating_mul(2) < self.unfolded()
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

    /// Rebuilds the expression from its leaves: `leave` is given every node with its new operands. If `enter` gives an
    /// expression, this replaces the node and everything below it. Both meet a node once, however often it is used.
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

    /// Replaces every node for which `replace` gives another, outermost first.
    pub(crate) fn replaced(&self, replace: &mut dyn FnMut(&Self) -> Option<Self>) -> Self {
        self.rewrite_below(replace, &mut |x| x)
    }

    /// Gives names to the parts that are used several times. Each is in terms of those before it, and the expression is
    /// in terms of all of them; `None` if it is as well written out. `may` tells whether a part may be computed before
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
            if times > 1 && x.unfolded() > 1 && x.id() != self.id() && may.is_none_or(|may| may(x)) {
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

    /// Replaces variables.
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
