//! The computation of one point: the elements that it reads, each once, and expressions over them.
//!
//! Computations without reductions are inlined. Floating-point types of fewer than 32 bits are computed in f32; values
//! are rounded only by casts in the expression and by the final store.

use std::collections::{HashMap, HashSet};

use smallvec::SmallVec;

use crate::ElementType;
use crate::te::arith::{Linear, simplify};
use crate::te::dtype::DType;
use crate::te::error::{ExpressionError, LoweringError, TeError};
use crate::te::expr::axis::Axis;
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::node::Operands;
use crate::te::expr::tensor::{OperationKind, Tensor};
use crate::te::expr::var::Var;

/// The name of this module in error messages.
pub(in crate::te::auto) const TARGET: &str = "te::auto";

/// The type in which values of a type are computed.
pub(crate) fn computed(dtype: DType) -> DType {
    match dtype {
        DType::Number(ElementType::F16 | ElementType::BF16 | ElementType::F8E4M3 | ElementType::F8E5M2) => DType::F32,
        other => other,
    }
}

/// The type that holds an element after it is read. A truth value is held as its byte, which may have any value.
pub(crate) fn read_type(dtype: DType) -> DType {
    if dtype == DType::Bool { DType::Number(dtype.in_memory()) } else { computed(dtype) }
}

/// A read of an element of a given tensor.
#[derive(Clone, Debug)]
pub(in crate::te::auto) struct Read {
    /// The tensor, a placeholder.
    pub(in crate::te::auto) tensor: Tensor,
    /// The indices, in terms of axes, sizes and values read before.
    pub(in crate::te::auto) indices: Vec<Expr>,
    /// The condition under which the element is used. Where it doesn't hold, the element may not exist.
    pub(in crate::te::auto) guard: Option<Expr>,
    /// The variable that stands for the value in expressions.
    pub(in crate::te::auto) var: Var,
    /// The indices as affine functions of axes, if they are affine.
    pub(in crate::te::auto) affine: Option<Affine>,
}

/// Indices that are affine in the axes: for every dimension, multiples of axes plus a rest made of sizes.
#[derive(Clone, Debug)]
pub(in crate::te::auto) struct Affine {
    /// `(dimension, axis, coefficient)`.
    pub(in crate::te::auto) terms: Vec<(usize, Axis, i64)>,
    /// The rest of every dimension's index.
    pub(in crate::te::auto) rests: Vec<Expr>,
}

/// Replaces reads of some tensors by something else: the state of a scan, or the result of a reduction.
pub(in crate::te::auto) type Special<'a> = dyn FnMut(&Tensor, &[Expr]) -> Option<Result<Expr, TeError>> + 'a;

/// Collects the reads of expressions.
#[derive(Debug, Default)]
pub(in crate::te::auto) struct Reads {
    pub(in crate::te::auto) list: Vec<Read>,
    /// The first read of the current part of the kernel. Values of earlier reads belong to other parts and are not
    /// available.
    part: usize,
    /// The known parts of the current expression so far.
    known: Box<Known>,
}

/// The replaced parts of an expression, each under the conditions that guard it.
#[derive(Debug, Default)]
struct Known {
    parts: HashMap<(Expr, Option<Expr>), Expr>,
    steps: usize,
}

/// The parts of one operation.
type Parts = SmallVec<[Expr; 3]>;

/// The replacement of a read.
enum Found {
    Element(Expr),
    /// The inlined expression that computes the element.
    Inlined(Expr),
}

/// Conditions multiply the parts of an expression: each part counts for every set of conditions that guards it. This is
/// the limit.
const MOST_PARTS: usize = 1 << 18;

impl Known {
    /// The replacement of a part under a condition. One for a weaker condition will do.
    fn get(&self, x: &Expr, guard: Option<&Expr>) -> Option<&Expr> {
        let mut guard = guard.cloned();
        let mut key = (x.clone(), None);
        loop {
            key.1.clone_from(&guard);
            if let Some(known) = self.parts.get(&key) {
                return Some(known);
            }
            guard = match guard?.kind() {
                Kind::Binary(Binary::And, weaker, _) => Some(weaker.clone()),
                _ => None,
            };
        }
    }
}

impl Reads {
    /// `x` with reads replaced by variables, computed in wider types. `axes` are those in which indices may be affine.
    pub(in crate::te::auto) fn expression(
        &mut self,
        x: &Expr,
        axes: &[Axis],
        special: &mut Special<'_>,
    ) -> Result<Expr, TeError> {
        let made = self.collect(x, None, axes, special);
        *self.known = Default::default();
        made
    }

    /// For each read, whether it can be made only once these variables have values: it has one of them, or the value of
    /// another of these reads, in its indices or its guard.
    pub(in crate::te::auto) fn depending_on(&self, vars: &[Var]) -> Vec<bool> {
        let mut known: HashSet<Var> = vars.iter().copied().collect();
        let mut depends = |read: &Read| {
            let mut found = false;
            for x in read.indices.iter().chain(&read.guard) {
                x.visit(&mut |part| found |= part.as_var().is_some_and(|var| known.contains(&var)));
            }
            if found {
                known.insert(read.var);
            }
            found
        };
        self.list.iter().map(&mut depends).collect()
    }

    /// The reads whose values some expressions need: directly, or in the indices and guards of others. They are in order.
    pub(in crate::te::auto) fn needed_by<'x>(&self, all: impl IntoIterator<Item = &'x Expr>) -> Vec<usize> {
        let mut used: HashSet<Var> = HashSet::new();
        let note = |used: &mut HashSet<Var>, x: &Expr| x.visit(&mut |part| used.extend(part.as_var()));
        all.into_iter().for_each(|x| note(&mut used, x));
        // A read's index has only values of earlier reads.
        let mut needed = Vec::new();
        for (place, read) in self.list.iter().enumerate().rev() {
            if used.contains(&read.var) {
                needed.push(place);
                read.indices.iter().chain(&read.guard).for_each(|x| note(&mut used, x));
            }
        }
        needed.reverse();
        needed
    }

    /// Begins another part of the kernel, which makes its own reads.
    pub(in crate::te::auto) fn next_part(&mut self) {
        self.part = self.list.len();
    }

    /// Expressions that are evaluated only where `condition` holds.
    pub(in crate::te::auto) fn expressions_under(
        &mut self,
        all: &[Expr],
        condition: &Expr,
        axes: &[Axis],
        special: &mut Special<'_>,
    ) -> Result<Vec<Expr>, TeError> {
        let guard = (condition.as_int() != Some(1)).then_some(condition);
        let made = all.iter().map(|x| self.collect(x, guard, axes, special)).collect();
        *self.known = Default::default();
        made
    }

    fn collect(
        &mut self,
        x: &Expr,
        guard: Option<&Expr>,
        axes: &[Axis],
        special: &mut Special<'_>,
    ) -> Result<Expr, TeError> {
        if x.operands().is_empty() && !matches!(x.kind(), Kind::Read(..)) {
            return self.part(x, guard, axes, special);
        }
        if let Some(known) = self.known.get(x, guard) {
            return Ok(known.clone());
        }
        self.known.steps += 1;
        if self.known.steps > MOST_PARTS {
            return Err(ExpressionError::Unfolded { most: MOST_PARTS }.into());
        }
        let made = self.part(x, guard, axes, special)?;
        self.known.parts.insert((x.clone(), guard.cloned()), made.clone());
        Ok(made)
    }

    /// Rewrites a part, after its own parts. This function calls itself at every level of an expression, so it must use
    /// little of the stack; what needs more is in other functions.
    fn part(
        &mut self,
        x: &Expr,
        guard: Option<&Expr>,
        axes: &[Axis],
        special: &mut Special<'_>,
    ) -> Result<Expr, TeError> {
        let mut parts = Parts::new();
        for operand in read_operands(x)? {
            let condition = condition(x.kind(), &parts, guard);
            parts.push(self.collect(operand, condition.as_ref().or(guard), axes, special)?);
        }
        let Kind::Read(tensor, _) = x.kind() else { return Ok(made(x, parts)) };
        match self.read(tensor, &parts, guard, axes, special)? {
            Found::Element(x) => Ok(x),
            Found::Inlined(x) => self.collect(&x, guard, axes, special),
        }
    }

    /// The replacement of a read with these indices.
    fn read(
        &mut self,
        tensor: &Tensor,
        indices: &[Expr],
        guard: Option<&Expr>,
        axes: &[Axis],
        special: &mut Special<'_>,
    ) -> Result<Found, TeError> {
        let indices: Vec<Expr> = indices.iter().map(simplify).collect();
        if let Some(result) = special(tensor, &indices) {
            return result.map(Found::Element);
        }
        match tensor.operation().kind() {
            OperationKind::Placeholder { .. } => Ok(Found::Element(self.element(tensor, indices, guard, axes))),
            OperationKind::Compute(compute) if !compute.is_reduction() => {
                let replace = |var: Var| {
                    let place = compute.axes.iter().position(|axis| axis.var() == var);
                    place.map(|d| indices[d].clone())
                };
                Ok(Found::Inlined(compute.body[tensor.value()].substitute(&replace)))
            }
            OperationKind::Compute(_) => Err(refused(&format!(
                "reading {}, another reduction, in one kernel (`te::auto::build` makes several)",
                tensor.name()
            ))),
            OperationKind::Scan(_) => Err(refused(&format!(
                "reading {}, a scan, in one kernel (`te::auto::build` makes several)",
                tensor.name()
            ))),
        }
    }

    fn element(&mut self, tensor: &Tensor, indices: Vec<Expr>, guard: Option<&Expr>, axes: &[Axis]) -> Expr {
        let affine = Affine::of(&indices, axes);
        // An element that is read unconditionally as well needs no guard.
        let known = self.list[self.part..].iter().find(|read| {
            read.tensor == *tensor && read.indices == indices && (read.guard.is_none() || read.guard.as_ref() == guard)
        });
        let var = known.map(|known| known.var).unwrap_or_else(|| {
            let var = Var::local(&tensor.name(), read_type(tensor.dtype()));
            self.list.push(Read { tensor: tensor.clone(), indices, guard: guard.cloned(), var, affine });
            var
        });
        if tensor.dtype() == DType::Bool { Expr::from(var).not_equal(0) } else { var.into() }
    }
}

impl Affine {
    fn of(indices: &[Expr], axes: &[Axis]) -> Option<Self> {
        let (mut terms, mut rests) = (Vec::new(), Vec::new());
        for (dimension, index) in indices.iter().enumerate() {
            let mut linear = Linear::of(index);
            let mut rest = Linear { terms: Vec::new(), constant: linear.constant };
            for (atom, coefficient) in linear.terms.drain(..) {
                match axes.iter().find(|axis| atom.as_var() == Some(axis.var())) {
                    Some(axis) => terms.push((dimension, *axis, coefficient)),
                    None if is_size(&atom) => rest.terms.push((atom, coefficient)),
                    None => return None,
                }
            }
            rests.push(rest.into_expr(index.dtype()));
        }
        Some(Self { terms, rests })
    }
}

/// Whether an integer expression consists of sizes only, so that it is known before the kernel starts.
pub(crate) fn is_size(x: &Expr) -> bool {
    let mut sizes = x.dtype().is_integer();
    x.visit(&mut |part| match part.kind() {
        Kind::Var(var) => sizes &= !var.is_counter(),
        Kind::Int(_) => {}
        Kind::Binary(op, ..) => sizes &= !op.is_truth() && *op != Binary::Div,
        _ => sizes = false,
    });
    sizes
}

/// The direct operands of an expression; an error for what kernels can't contain.
fn read_operands(x: &Expr) -> Result<Operands<'_>, TeError> {
    match x.kind() {
        Kind::Invalid(error) => Err(error.clone()),
        Kind::Reduce(..) | Kind::Load(..) => {
            Err(refused("a reduction inside an expression (compute it first, and use its tensor)"))
        }
        _ => Ok(x.operands()),
    }
}

/// The condition that guards an operand, given the operands before it; `None` if only that of the whole expression
/// does.
fn condition(kind: &Kind, before: &[Expr], guard: Option<&Expr>) -> Option<Expr> {
    match (kind, before) {
        (Kind::Select(..), [chosen]) | (Kind::Binary(Binary::And, ..), [chosen]) => Some(both(guard, chosen.clone())),
        (Kind::Select(..), [other, _]) | (Kind::Binary(Binary::Or, ..), [other]) => Some(both(guard, negated(other))),
        _ => None,
    }
}

/// The operation with replaced parts, which are held in wider types.
fn made(x: &Expr, parts: Parts) -> Expr {
    let dtype = computed(x.dtype());
    match (x.kind(), parts.as_slice()) {
        (Kind::Float(value), _) => Expr::constant(*value, dtype),
        (Kind::Likely(_), [inner]) => inner.clone(),
        (Kind::Cast(inner), [part]) => cast(part.clone(), inner.dtype(), x.dtype()),
        (Kind::Not(_), [inner]) => Expr::new(dtype, Kind::Not(inner.clone())),
        (Kind::Binary(op, ..), [a, b]) => Expr::new(dtype, Kind::Binary(*op, a.clone(), b.clone())),
        (Kind::Select(..), [c, a, b]) => Expr::new(dtype, Kind::Select(c.clone(), a.clone(), b.clone())),
        (Kind::Apply(op, _), _) => Expr::new(dtype, Kind::Apply(*op, parts.into_vec())),
        (Kind::Call(function, _), _) => Expr::new(dtype, Kind::Call(function, parts.into_vec())),
        _ => x.clone(),
    }
}

fn both(guard: Option<&Expr>, condition: Expr) -> Expr {
    match guard {
        Some(guard) if *guard == condition => condition,
        Some(guard) => Expr::binary(Binary::And, guard.clone(), condition),
        None => condition,
    }
}

fn negated(condition: &Expr) -> Expr {
    Expr::new(DType::Bool, Kind::Not(condition.clone()))
}

/// A value of type `from` converted to type `to`, both held in wider types.
pub(in crate::te::auto) fn cast(value: Expr, from: DType, to: DType) -> Expr {
    let held = computed(to);
    if from == to {
        value
    } else if held == to {
        value.cast(to)
    } else {
        value.cast(to).cast(held)
    }
}

pub(in crate::te::auto) fn refused(what: &str) -> TeError {
    LoweringError::Target { what: what.to_owned(), target: TARGET }.into()
}
