//! Finds the reductions that outputs need, and groups reductions that one pass over the elements can do together.

use std::collections::HashMap;
use std::sync::Arc;

use super::reads::{computed, refused};
use crate::te::arith::{Context, equal, simplify};
use crate::te::error::TeError;
use crate::te::expr::axis::{Axis, AxisKind, Domain};
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::graph::visit_operations;
use crate::te::expr::reduce::{Combiner, Reduce};
use crate::te::expr::tensor::{Compute, Operation, Tensor};
use crate::te::expr::var::Var;
use crate::te::text::expression;

/// A reduction, and the length of the longest chain of reductions that ends in it.
pub(in crate::te::auto) struct FoundReduction {
    pub(in crate::te::auto) operation: Arc<Operation>,
    depth: usize,
}

/// Reductions whose totals have names, with these names.
pub(in crate::te::auto) type NamedTotals = Vec<(Arc<Operation>, Vec<Var>)>;

/// The reductions that `outputs` need, in an order in which they can be computed.
pub(in crate::te::auto) fn reductions(outputs: &[Tensor]) -> Vec<FoundReduction> {
    let mut search = Search::default();
    for output in outputs {
        search.depth(output.operation());
    }
    search.found
}

#[derive(Default)]
struct Search {
    found: Vec<FoundReduction>,
    depths: HashMap<*const Operation, usize>,
}

impl Search {
    fn depth(&mut self, operation: &Arc<Operation>) -> usize {
        if let Some(depth) = self.depths.get(&Arc::as_ptr(operation)) {
            return *depth;
        }
        let before = if operation.as_compute().is_some() {
            operation.inputs().iter().map(|input| self.depth(input.operation())).max().unwrap_or(0)
        } else {
            0
        };
        let depth = before + usize::from(parts(operation).is_some());
        if depth > before {
            self.found.push(FoundReduction { operation: Arc::clone(operation), depth });
        }
        self.depths.insert(Arc::as_ptr(operation), depth);
        depth
    }
}

/// The computation and the reduction of an operation, if it is one.
pub(crate) fn parts(operation: &Operation) -> Option<(&Compute, &Reduce)> {
    let compute = operation.as_compute()?;
    match compute.body.first()?.kind() {
        Kind::Reduce(reduce, _) => Some((compute, reduce)),
        _ => None,
    }
}

/// The axes that a kernel has for a reduction: those of its output, then those that it reduces over. If the range of an
/// axis depends on an output's index, it is widened to all its possible values.
///
/// # Errors
/// [`LoweringError::Target`](crate::te::LoweringError::Target) for a range that depends on more than sums of indices
/// and sizes.
pub(in crate::te::auto) fn axes_of(operation: &Operation) -> Result<Vec<Axis>, TeError> {
    let (compute, reduce) = parts(operation).ok_or_else(|| refused(operation.name()))?;
    let ranges = ranges(operation.name(), compute, reduce)?;
    let widest = |(axis, range): (&Axis, Range)| match range.limit {
        None => *axis,
        Some(_) => Axis::new(axis.name(), Some(Domain::up_to(range.extent)), AxisKind::Reduce),
    };
    Ok(compute.axes.iter().copied().chain(reduce.axes.iter().zip(ranges).map(widest)).collect())
}

/// The values of an axis.
struct Range {
    min: Expr,
    /// The largest number of values.
    extent: Expr,
    /// The number of values at the indices of an output, if it depends on them.
    limit: Option<Expr>,
}

/// Whether a reduction is over a range that no size bounds, because data or other reduced axes give its extent.
pub(in crate::te::auto) fn has_open_range(operation: &Operation) -> bool {
    let Some((compute, reduce)) = parts(operation) else { return false };
    let context = context_of(compute);
    let is_open =
        |Domain { min, extent }: Domain| !(is_fixed(&min) && is_fixed(&extent)) && upper(&extent, &context).is_none();
    reduce.axes.iter().filter_map(|axis| axis.domain()).any(is_open)
}

/// The ranges of a result's indices.
fn context_of(compute: &Compute) -> Context {
    let mut context = Context::default();
    for axis in &compute.axes {
        if let Some(domain) = axis.domain() {
            context.push(axis.var(), &domain.extent);
        }
    }
    context
}

fn ranges(name: &str, compute: &Compute, reduce: &Reduce) -> Result<Vec<Range>, TeError> {
    let context = context_of(compute);
    let mut all = Vec::with_capacity(reduce.axes.len());
    for axis in &reduce.axes {
        let none = || refused(&format!("{name}, whose axis {} has no range,", axis.name()));
        let Domain { min, extent } = axis.domain().ok_or_else(none)?;
        all.push(if is_fixed(&min) && is_fixed(&extent) {
            Range { min, extent, limit: None }
        } else {
            let most = upper(&extent, &context).ok_or_else(|| {
                refused(&format!(
                    "{name}, a reduction over {} in one kernel, whose extent {} no size bounds,",
                    axis.name(),
                    expression(&extent)
                ))
            })?;
            Range { min, extent: simplify(&most.max(0)), limit: Some(extent) }
        });
    }
    Ok(all)
}

/// Whether an expression is made of sizes and numbers only.
fn is_fixed(x: &Expr) -> bool {
    !x.contains(|part| part.as_var().is_some_and(Var::is_counter) || matches!(part.kind(), Kind::Read(..)))
}

/// An upper bound of an integer over the indices of outputs.
fn upper(x: &Expr, context: &Context) -> Option<Expr> {
    let either = |a: &Expr, b: &Expr| (upper(a, context), upper(b, context));
    match x.kind() {
        Kind::Binary(Binary::Min, a, b) => match either(a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        },
        Kind::Binary(Binary::Max, a, b) | Kind::Select(_, a, b) => {
            let (a, b) = either(a, b);
            Some(a?.max(b?))
        }
        // The bound of a minimum or maximum: what is added to or subtracted from it is added to or subtracted from
        // each.
        Kind::Binary(op @ (Binary::Add | Binary::Sub), a, b) if extreme(a).is_some() => {
            let (extreme, x, y) = extreme(a)?;
            let [x, y] = [x, y].map(|x| Expr::binary(*op, x.clone(), b.clone()));
            upper(&Expr::binary(extreme, x, y), context)
        }
        Kind::Binary(Binary::FloorDiv, a, by) if by.as_int().is_some_and(|by| by > 0) => {
            upper(a, context).map(|a| a.floor_div(by))
        }
        Kind::Binary(Binary::FloorMod, _, by) if by.as_int().is_some_and(|by| by > 0) => Some(by - 1),
        _ => Some(context.extremes(x).1).filter(is_fixed),
    }
}

fn extreme(x: &Expr) -> Option<(Binary, &Expr, &Expr)> {
    match x.kind() {
        Kind::Binary(op @ (Binary::Min | Binary::Max), a, b) => Some((*op, a, b)),
        _ => None,
    }
}

/// The reductions from which an operation's values are computed element by element, or the operation itself if it is
/// one.
pub(in crate::te::auto) fn computed_from(operation: &Arc<Operation>) -> Vec<Arc<Operation>> {
    let mut found = Vec::new();
    visit_operations([operation], &mut |operation| {
        let is_reduction = parts(operation).is_some();
        if is_reduction {
            found.push(Arc::clone(operation));
        }
        !is_reduction && operation.as_compute().is_some()
    });
    found
}

/// Whether two reductions are over the same axes.
pub(in crate::te::auto) fn share_axes(operation: &Arc<Operation>, first: &Arc<Operation>) -> bool {
    parts(first)
        .zip(axes_of(first).ok())
        .is_some_and(|((compute, _), axes)| Member::of(operation, first, &axes, compute.axes.len()).is_ok())
}

/// Whether a reduction reads another one's results only at the indices of its own result.
pub(in crate::te::auto) fn reads_at_own_indices(operation: &Arc<Operation>, needed: &Arc<Operation>) -> bool {
    let Some((compute, reduce)) = parts(operation) else { return false };
    let mut own = true;
    let ranges = compute.ranges();
    let of_ranges = ranges.iter().flat_map(|range| [&range.min, &range.extent]);
    for x in reduce.source.iter().chain(&reduce.init).chain([&reduce.condition]).chain(of_ranges) {
        inlined(x).visit(&mut |x| {
            if let Kind::Read(tensor, indices) = x.kind()
                && Arc::ptr_eq(tensor.operation(), needed)
            {
                let at_own = |(index, axis): (&Expr, &Axis)| index.as_var() == Some(axis.var());
                own &= indices.len() == compute.axes.len() && indices.iter().zip(&compute.axes).all(at_own);
            }
        });
    }
    own
}

/// A reduction rewritten to the kernel's axes.
pub(in crate::te::auto) struct Member<'a> {
    pub(in crate::te::auto) operation: &'a Arc<Operation>,
    pub(in crate::te::auto) source: Vec<Expr>,
    pub(in crate::te::auto) condition: Expr,
    pub(in crate::te::auto) init: Vec<Expr>,
    pub(in crate::te::auto) combiner: &'a Combiner,
}

/// The passes over the elements, in order, each with the reductions that it does. `axes` are the first reduction's: the
/// `outer` axes of its output, then the reduced ones.
///
/// Reductions are done together if none needs another's result, and none changes what the others compute. For this they
/// must count the same elements, start in the same way, and allow the same reassociation.
///
/// # Errors
/// [`LoweringError::Target`](crate::te::LoweringError::Target) for reductions over other axes.
pub(in crate::te::auto) fn passes<'a>(
    found: &'a [FoundReduction],
    axes: &[Axis],
    outer: usize,
) -> Result<Vec<Vec<Member<'a>>>, TeError> {
    let mut passes: Vec<(usize, Vec<Member<'a>>)> = Vec::new();
    for FoundReduction { operation, depth } in found {
        let member = Member::of(operation, &found[0].operation, axes, outer)?;
        match passes.iter_mut().find(|(at, pass)| at == depth && member.joins(&pass[0])) {
            Some((_, pass)) => pass.push(member),
            None => passes.push((*depth, vec![member])),
        }
    }
    passes.sort_by_key(|(depth, _)| *depth);
    Ok(passes.into_iter().map(|(_, pass)| pass).collect())
}

impl<'a> Member<'a> {
    fn of(operation: &'a Arc<Operation>, first: &Operation, axes: &[Axis], outer: usize) -> Result<Self, TeError> {
        let other = || {
            refused(&format!(
                "{}, which is reduced over other axes than {} and in the same kernel (build a kernel for each),",
                operation.name(),
                first.name()
            ))
        };
        let (compute, reduce) = parts(operation).ok_or_else(other)?;
        let own: Vec<Axis> = compute.axes.iter().chain(&reduce.axes).copied().collect();
        if compute.axes.len() != outer || own.len() != axes.len() {
            return Err(other());
        }
        let mut values = Vec::with_capacity(own.len());
        let mut ranges = ranges(operation.name(), compute, reduce)?.into_iter();
        let mut inside: Option<Expr> = None;
        for (place, (axis_of, axis)) in own.iter().zip(axes).enumerate() {
            let (Some(from), Some(to)) = (axis_of.domain(), axis.domain()) else { return Err(other()) };
            let range = if place < outer { None } else { ranges.next() };
            let (min, extent) = range.as_ref().map_or((&from.min, &from.extent), |range| (&range.min, &range.extent));
            if !equal(extent, &to.extent) {
                return Err(other());
            }
            let earlier = |x: &Expr| {
                x.substitute(&|var| {
                    own[..place].iter().position(|a| a.var() == var).map(|i| {
                        let value: &Expr = &values[i];
                        value.clone()
                    })
                })
            };
            // Equal steps, from another first value on.
            let shift = simplify(&(earlier(min) - &to.min));
            if let Some(limit) = range.as_ref().and_then(|range| range.limit.as_ref()) {
                let counts = (*axis - &to.min).less(earlier(limit));
                inside = Some(inside.map_or_else(|| counts.clone(), |inside| inside.and(&counts)));
            }
            values.push(if shift.as_int() == Some(0) { Expr::from(*axis) } else { *axis + shift });
        }
        let replace = |var: Var| own.iter().position(|axis| axis.var() == var).map(|place| values[place].clone());
        let condition = reduce.condition.substitute(&replace);
        let condition = match inside {
            Some(inside) if condition.as_int() == Some(1) => inside,
            Some(inside) => inside.and(condition),
            None => condition,
        };
        let over = |all: &[Expr]| all.iter().map(|x| x.substitute(&replace)).collect();
        Ok(Self {
            operation,
            source: over(&reduce.source),
            condition,
            init: over(&reduce.init),
            combiner: &reduce.combiner,
        })
    }

    /// This pass with `rewrite` applied to every expression.
    pub(in crate::te::auto) fn rewritten(self, rewrite: &dyn Fn(&Expr) -> Expr) -> Self {
        let over = |all: &[Expr]| all.iter().map(rewrite).collect();
        let (source, init, condition) = (over(&self.source), over(&self.init), rewrite(&self.condition));
        Self { source, init, condition, ..self }
    }

    fn joins(&self, other: &Self) -> bool {
        self.condition == other.condition
            && self.init.is_empty() == other.init.is_empty()
            && self.combiner.commutative == other.combiner.commutative
    }
}

/// How the values of several reductions side by side are combined.
#[derive(Debug)]
pub(in crate::te::auto) struct Combination {
    pub(in crate::te::auto) left: Vec<Var>,
    pub(in crate::te::auto) right: Vec<Var>,
    /// The combination of `left` and `right`.
    pub(in crate::te::auto) result: Vec<Expr>,
    pub(in crate::te::auto) identity: Vec<Expr>,
    pub(in crate::te::auto) commutative: bool,
}

impl Combination {
    pub(in crate::te::auto) fn of(members: &[Member<'_>]) -> Self {
        let commutative = members.iter().all(|member| member.combiner.commutative);
        let (left, right) = (Vec::new(), Vec::new());
        let mut all = Self { left, right, result: Vec::new(), identity: Vec::new(), commutative };
        for Member { combiner, .. } in members {
            let fresh = |vars: &[Var]| -> Vec<Var> {
                vars.iter().map(|var| Var::local(var.name(), computed(var.dtype()))).collect()
            };
            let (left, right) = (fresh(&combiner.left), fresh(&combiner.right));
            let sides: Vec<Expr> = left.iter().chain(&right).map(|var| Expr::from(*var)).collect();
            all.result.extend(combiner.combine(&sides[..left.len()], &sides[left.len()..]));
            all.identity.extend(combiner.identity.iter().cloned());
            all.left.extend(left);
            all.right.extend(right);
        }
        all
    }
}

/// For every reduction, its part of the common total.
pub(in crate::te::auto) fn totals_of(members: &[Member<'_>], total: &[Var]) -> NamedTotals {
    let mut rest = total;
    let mut own = |member: &Member<'_>| {
        let (own, others) = rest.split_at(member.source.len());
        rest = others;
        (Arc::clone(member.operation), own.to_vec())
    };
    members.iter().map(&mut own).collect()
}

/// An expression in which reads of computations without reductions are inlined.
pub(in crate::te::auto) fn inlined(x: &Expr) -> Expr {
    inlined_except(x, &|_| false)
}

/// An expression in which reads of computations without reductions are inlined, except those that are `kept`.
pub(crate) fn inlined_except(x: &Expr, kept: &dyn Fn(&Operation) -> bool) -> Expr {
    Inlining { kept, done: HashMap::new() }.expression(x)
}

/// Elements of computations, inlined once each.
struct Inlining<'a> {
    kept: &'a dyn Fn(&Operation) -> bool,
    done: HashMap<Expr, Expr>,
}

impl Inlining<'_> {
    fn expression(&mut self, x: &Expr) -> Expr {
        x.rewrite(&mut |x| self.element(&x).unwrap_or(x))
    }

    /// The expression that computes an element that is read.
    fn element(&mut self, read: &Expr) -> Option<Expr> {
        let Kind::Read(tensor, indices) = read.kind() else { return None };
        let operation = tensor.operation();
        let compute = operation.as_compute().filter(|_| parts(operation).is_none() && !(self.kept)(operation))?;
        if let Some(known) = self.done.get(read) {
            return Some(known.clone());
        }
        let replace = |var: Var| compute.axes.iter().position(|axis| axis.var() == var).map(|d| indices[d].clone());
        let inlined = self.expression(&compute.body[tensor.value()].substitute(&replace));
        self.done.insert(read.clone(), inlined.clone());
        Some(inlined)
    }
}
