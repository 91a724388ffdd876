//! Recognises sums of products of two tensors, by their axes.
//!
//! An axis of the left factor alone counts rows, one of the right factor alone counts columns. An axis of both counts
//! batches. An axis that is summed over must be in both: the depth. Several axes of one role are the digits
//! of one index, in an order in which they lie in memory. A list of patterns would never end; this rule needs none.
//!
//! [`factor`](super::factor) finds how a factor is read.

use std::sync::Arc;

use epilogue_runtime::Device;

use super::factor::{Factor, View};
use super::kept::Kept;
use super::reason::Reason;
use super::role::{Role, exact};
use crate::evt::Types;
use crate::gemm::supports;
use crate::te::auto::{computed, is_size, parts};
use crate::te::expr::axis::Axis;
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::reduce::Combiner;
use crate::te::expr::tensor::Operation;
use crate::te::{DType, TeError};

/// A sum of products of two factors.
#[derive(Debug)]
pub(super) struct Product {
    pub(super) operation: Arc<Operation>,
    /// The axes with their roles; those of a role in the order in which they are merged to one index.
    pub(super) axes: Vec<(Axis, Role)>,
    /// Over batches, rows and depth.
    pub(super) left: View,
    /// Over batches, columns and depth.
    pub(super) right: View,
    /// The sum's first value, if it isn't 0.
    pub(super) init: Option<Expr>,
    pub(super) types: Types,
}

impl Product {
    /// The product that an operation is, `None` if it is no contraction: no reduction of factors with different axes.
    ///
    /// # Errors
    /// The [`Reason`] why a contraction is no product on this device.
    pub(super) fn of(
        operation: &Arc<Operation>,
        device: &Device,
        kept: &Kept,
    ) -> Result<Option<Result<Self, Reason>>, TeError> {
        let Some((compute, reduce)) = parts(operation) else { return Ok(None) };
        let all: Vec<Axis> = compute.axes.iter().chain(reduce.axes.iter()).copied().collect();
        let contracts = |x: &Expr| is_contraction(&kept.inlined(x), &compute.axes, &reduce.axes);
        if !reduce.source.iter().any(contracts) {
            return Ok(None);
        }
        let refused = |reason| Ok(Some(Err(reason)));
        let [source] = reduce.source.as_slice() else { return refused(Reason::Reducer) };
        if !is_sum(&reduce.combiner) {
            return refused(Reason::Reducer);
        }
        if reduce.condition.as_int() != Some(1) {
            return refused(Reason::Condition);
        }
        let fixed = |axis: &&Axis| axis.domain().is_some_and(|of| is_size(&of.min) && is_size(&of.extent));
        if let Some(axis) = all.iter().find(|axis| !fixed(axis)) {
            return refused(Reason::Range { axis: axis.name().to_owned() });
        }
        let Kind::Binary(Binary::Mul, a, b) = exact(source).kind() else { return refused(Reason::Summand) };
        let factors = [a, b].map(|x| Factor::of(x, [&compute.axes, &reduce.axes], kept));
        let roles = match roles(&factors, &compute.axes, &reduce.axes) {
            Ok(roles) => roles,
            Err(reason) => return refused(reason),
        };
        // Only the left factor may be windows or picked rows. Else the right factor is the one with the result's fastest
        // axis, if a product of that order has these types.
        let fastest = roles.iter().rev().find(|(_, role)| matches!(role, Role::Row | Role::Column));
        let first_is_right = match [0, 1].map(|factor: usize| factors[factor].is_read_specially()) {
            [true, false] => false,
            [false, true] => true,
            _ => fastest.is_some_and(|(_, role)| *role == Role::Row),
        };
        let mut types = Err(Reason::Summand);
        for swapped in [first_is_right, !first_is_right] {
            let roles = if swapped { exchanged(&roles) } else { roles.clone() };
            let [left, right] = if swapped { [&factors[1], &factors[0]] } else { [&factors[0], &factors[1]] };
            let left = left.as_left(operation.name(), &roles)?;
            let right = right.as_right(&left, &reduce.axes);
            types = supported(device, left.dtype(), right.dtype(), source.dtype());
            if let Ok(types) = &types {
                return Self::new(operation, [left, right], roles, *types).map(|made| Some(Ok(made)));
            }
        }
        Ok(Some(Err(types.err().unwrap_or(Reason::Summand))))
    }

    fn new(
        operation: &Arc<Operation>,
        [left, right]: [Factor; 2],
        mut roles: Vec<(Axis, Role)>,
        types: Types,
    ) -> Result<Self, TeError> {
        // In the order of a tensor that is there; columns in that of the right one.
        let place = |axis: &Axis, role: Role| {
            let (first, second) = if role == Role::Column { (&right, &left) } else { (&left, &right) };
            if first.is_there() { first.place(axis) } else { second.place(axis) }
        };
        roles.sort_by_key(|(axis, role)| (*role as usize, place(axis, *role)));
        let left = left.view(operation.name(), &roles, "left")?;
        let right = right.view(operation.name(), &roles, "right")?;
        let init = parts(operation).and_then(|(_, reduce)| reduce.init.first().cloned());
        Ok(Self { operation: Arc::clone(operation), axes: roles, left, right, init, types })
    }

    /// The tensors that it multiplies, and the one that picks rows.
    pub(super) fn operands(&self) -> impl Iterator<Item = &View> {
        [&self.left, &self.right].into_iter().chain(self.left.index())
    }

    /// The places of the axes of a role, in order.
    pub(super) fn of_role(&self, role: Role) -> impl Iterator<Item = usize> {
        (0..self.axes.len()).filter(move |place| self.axes[*place].1 == role)
    }

    /// The place of an axis.
    pub(super) fn place(&self, axis: &Axis) -> Option<usize> {
        self.axes.iter().position(|(own, _)| own == axis)
    }
}

/// The roles of all axes, the first factor being the left one, in the order of the result and then of the sum.
fn roles(factors: &[Factor; 2], axes: &[Axis], depth: &[Axis]) -> Result<Vec<(Axis, Role)>, Reason> {
    let [a, b] = factors;
    let mut roles = Vec::with_capacity(axes.len() + depth.len());
    for axis in axes {
        roles.push((
            *axis,
            match (a.has(axis), b.has(axis)) {
                (true, true) => Role::Batch,
                (true, false) => Role::Row,
                (false, true) => Role::Column,
                (false, false) => return Err(Reason::Unread { axis: axis.name().to_owned() }),
            },
        ));
    }
    for axis in depth {
        if !a.has(axis) || !b.has(axis) {
            return Err(Reason::DepthInOne { axis: axis.name().to_owned() });
        }
        roles.push((*axis, Role::Depth));
    }
    let has = |wanted| roles.iter().any(|(_, role)| *role == wanted);
    if has(Role::Row) && has(Role::Column) { Ok(roles) } else { Err(Reason::Vector) }
}

/// The roles of a product whose factors are exchanged.
fn exchanged(roles: &[(Axis, Role)]) -> Vec<(Axis, Role)> {
    let exchanged = |role| match role {
        Role::Row => Role::Column,
        Role::Column => Role::Row,
        other => other,
    };
    roles.iter().map(|(axis, role)| (*axis, exchanged(*role))).collect()
}

/// Whether factors of a sum differ in their axes as those of a product do: each has one of the result's that another
/// lacks, and both have one that is summed over.
fn is_contraction(x: &Expr, axes: &[Axis], depth: &[Axis]) -> bool {
    let mut all: Vec<Vec<bool>> = Vec::new();
    x.visit(&mut |x| {
        if let Kind::Read(_, indices) = x.kind() {
            let uses = |axis: &Axis| indices.iter().any(|index| index.uses(axis.var()));
            if depth.iter().any(uses) {
                all.push(axes.iter().map(uses).collect());
            }
        }
    });
    let apart = |a: &[bool], b: &[bool]| a.iter().zip(b).any(|(a, b)| *a && !*b);
    all.iter().any(|a| all.iter().any(|b| apart(a, b) && apart(b, a)))
}

/// The types of a product on a device, if it multiplies and sums as the expression does.
fn supported(device: &Device, left: DType, right: DType, sum: DType) -> Result<Types, Reason> {
    let refuse =
        |why: String| Reason::Types { factors: [left.to_string(), right.to_string()], sum: sum.to_string(), why };
    let (DType::Number(a), DType::Number(b)) = (left, right) else {
        return Err(refuse("factors are numbers".to_owned()));
    };
    supports(device, (a, b)).map_err(|error| refuse(error.to_string()))?;
    let types = Types::new(a, b);
    if computed(sum) == DType::Number(types.accumulator) {
        Ok(types)
    } else {
        Err(refuse(format!("a product sums them in {}; cast the factors to that", types.accumulator)))
    }
}

/// Whether a combiner is the sum of its two values, from 0.
fn is_sum(combiner: &Combiner) -> bool {
    operation_of(combiner) == Some(Binary::Add)
}

/// The operation of a combiner that is one of two values, from its identity.
pub(super) fn operation_of(combiner: &Combiner) -> Option<Binary> {
    let ([left], [right], [result], [identity]) =
        (combiner.left.as_slice(), combiner.right.as_slice(), combiner.result.as_slice(), combiner.identity.as_slice())
    else {
        return None;
    };
    let Kind::Binary(op, a, b) = result.kind() else { return None };
    let both = [a.as_var(), b.as_var()];
    if both != [Some(*left), Some(*right)] && both != [Some(*right), Some(*left)] {
        return None;
    }
    let dtype = result.dtype();
    let is = |value: f64| *identity == Expr::constant(value, dtype);
    let fits = match op {
        Binary::Add => is(0.0),
        Binary::Mul => is(1.0),
        Binary::Max => is(dtype.least()),
        Binary::Min => is(dtype.greatest()),
        _ => false,
    };
    fits.then_some(*op)
}
