//! Recognises sums of products of two tensors, by their axes.
//!
//! An axis that only the left factor has counts rows, one that only the right factor has counts columns, one that both
//! have counts batches. An axis that is summed over must be in both: the depth. Several axes of one role are the digits
//! of one index, in an order in which they lie in memory. A list of patterns would never end; this rule needs none.
//!
//! A factor that is no tensor's element at plain indices becomes a tensor of its own, over the factor's axes: an
//! activation, a gather, a window of a convolution. It is stored in its own type, as a product multiplies it.

use std::sync::Arc;

use epilogue_runtime::Device;

use super::reason::Reason;
use crate::ElementType;
use crate::evt::Types;
use crate::gemm::supports;
use crate::te::arith::simplify;
use crate::te::auto::{computed, inlined, is_size, parts};
use crate::te::expr::axis::Axis;
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::reduce::Combiner;
use crate::te::expr::tensor::{Operation, Tensor};
use crate::te::expr::var::Var;
use crate::te::{DType, TeError, compute_over};

/// What an axis of a product counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Batch,
    Row,
    Column,
    Depth,
}

/// The index of a dimension of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Index {
    /// An axis of the product, by its place among [`Product::axes`].
    Axis(usize),
    /// An axis of the product, counted from 0 wherever that begins.
    FromZero(usize),
    /// One value, made of sizes.
    At(Expr),
}

/// A tensor as a product sees it: the index of every dimension.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct View {
    pub(super) tensor: Tensor,
    pub(super) indices: Vec<Index>,
}

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
    /// What the sum starts from, if it isn't 0.
    pub(super) init: Option<Expr>,
    pub(super) types: Types,
}

impl Product {
    /// The product that an operation is, `None` if it is no contraction: no reduction of factors with different axes.
    ///
    /// # Errors
    /// The [`Reason`] why a contraction is no product on this device.
    pub(super) fn of(operation: &Arc<Operation>, device: &Device) -> Result<Option<Result<Self, Reason>>, TeError> {
        let Some((compute, reduce)) = parts(operation) else { return Ok(None) };
        let all: Vec<Axis> = compute.axes.iter().chain(reduce.axes.iter()).copied().collect();
        let contracts = |x: &Expr| is_contraction(&inlined(x), &compute.axes, &reduce.axes);
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
        let factors = [Factor::of(a, &all), Factor::of(b, &all)];
        let roles = match roles(&factors, &compute.axes, &reduce.axes) {
            Ok(roles) => roles,
            Err(reason) => return refused(reason),
        };
        // The right factor is the one with the result's fastest axis, if a product of that order has these types.
        let fastest = roles.iter().rev().find(|(_, role)| matches!(role, Role::Row | Role::Column));
        let first_is_right = fastest.is_some_and(|(_, role)| *role == Role::Row);
        let mut types = Err(Reason::Summand);
        for swapped in [first_is_right, !first_is_right] {
            let [left, right] = if swapped { [&factors[1], &factors[0]] } else { [&factors[0], &factors[1]] };
            types = supported(device, left.dtype, right.dtype, source.dtype());
            if let Ok(types) = &types {
                return Self::new(operation, [left, right], (roles, swapped), *types).map(|made| Some(Ok(made)));
            }
        }
        Ok(Some(Err(types.err().unwrap_or(Reason::Summand))))
    }

    fn new(
        operation: &Arc<Operation>,
        [left, right]: [&Factor; 2],
        (mut roles, swapped): (Vec<(Axis, Role)>, bool),
        types: Types,
    ) -> Result<Self, TeError> {
        if swapped {
            for (_, role) in &mut roles {
                *role = match *role {
                    Role::Row => Role::Column,
                    Role::Column => Role::Row,
                    other => other,
                };
            }
        }
        // In the order of a tensor that is there; columns in that of the right one.
        let order = |factor: &Factor, axis: &Axis| {
            let (_, indices) = factor.direct.as_ref()?;
            indices.iter().position(|index| matches!(index, Direct::Axis(own) if own == axis))
        };
        let place = |axis: &Axis, role: Role| {
            let (first, second) = if role == Role::Column { (right, left) } else { (left, right) };
            if first.direct.is_some() { order(first, axis) } else { order(second, axis) }
        };
        roles.sort_by_key(|(axis, role)| (*role as usize, place(axis, *role)));
        let left = left.view(operation.name(), &roles, "left")?;
        let right = right.view(operation.name(), &roles, "right")?;
        let init = parts(operation).and_then(|(_, reduce)| reduce.init.first().cloned());
        Ok(Self { operation: Arc::clone(operation), axes: roles, left, right, init, types })
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

/// A factor of what is summed.
struct Factor {
    x: Expr,
    dtype: DType,
    /// Its axes.
    axes: Vec<Axis>,
    /// The tensor that it is an element of, at plain indices.
    direct: Option<(Tensor, Vec<Direct>)>,
}

/// A plain index.
#[derive(Clone)]
enum Direct {
    Axis(Axis),
    At(Expr),
}

impl Factor {
    fn of(x: &Expr, axes: &[Axis]) -> Self {
        let x = exact(x).clone();
        let written_out = exact(&inlined(&x)).clone();
        let direct = direct(&written_out, axes).or_else(|| direct(&x, axes));
        let own = |axis: &&Axis| match &direct {
            Some((_, indices)) => indices.iter().any(|index| matches!(index, Direct::Axis(own) if own == *axis)),
            None => written_out.uses(axis.var()),
        };
        let axes = axes.iter().filter(own).copied().collect();
        let dtype = direct.as_ref().map_or(x.dtype(), |(tensor, _)| tensor.dtype());
        Self { x, dtype, axes, direct }
    }

    fn has(&self, axis: &Axis) -> bool {
        self.axes.contains(axis)
    }

    /// The factor as a tensor: the one that is there, or a new one, over its axes in the product's order.
    fn view(&self, name: &str, axes: &[(Axis, Role)], side: &str) -> Result<View, TeError> {
        let place = |axis: &Axis| axes.iter().position(|(own, _)| own == axis);
        if let Some((tensor, indices)) = &self.direct {
            let index = |index: &Direct| match index {
                Direct::Axis(axis) => place(axis).map(Index::Axis),
                Direct::At(x) => Some(Index::At(x.clone())),
            };
            let indices = indices.iter().filter_map(index).collect();
            return Ok(View { tensor: tensor.clone(), indices });
        }
        let own: Vec<Axis> = axes.iter().map(|(axis, _)| *axis).filter(|axis| self.has(axis)).collect();
        let domains: Vec<_> = own.iter().filter_map(|axis| axis.domain()).collect();
        let extents: Vec<Expr> = domains.iter().map(|domain| domain.extent.clone()).collect();
        let mut made = compute_over(extents, &format!("{name}_{side}"), |made| {
            let value = |var: Var| {
                let d = own.iter().position(|axis| axis.var() == var)?;
                Some(if domains[d].min.as_int() == Some(0) {
                    Expr::from(made[d])
                } else {
                    made[d] + domains[d].min.clone()
                })
            };
            vec![self.x.substitute(&value)]
        })?;
        let indices = own.iter().filter_map(place).map(Index::FromZero).collect();
        Ok(View { tensor: made.swap_remove(0), indices })
    }
}

/// The tensor that an expression is an element of, if every index is one of these axes, each once, or made of sizes.
fn direct(x: &Expr, axes: &[Axis]) -> Option<(Tensor, Vec<Direct>)> {
    let Kind::Read(tensor, indices) = x.kind() else { return None };
    let mut made: Vec<Direct> = Vec::with_capacity(indices.len());
    for index in indices {
        let index = simplify(index);
        let axis = axes.iter().find(|axis| index.as_var() == Some(axis.var()));
        made.push(match axis {
            Some(axis) if made.iter().any(|known| matches!(known, Direct::Axis(own) if own == axis)) => return None,
            Some(axis) => Direct::Axis(*axis),
            None if is_size(&index) => Direct::At(index),
            None => return None,
        });
    }
    Some((tensor.clone(), made))
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

/// What is below conversions that change no value.
pub(super) fn exact(x: &Expr) -> &Expr {
    let mut x = x;
    while let Kind::Cast(inner) = x.kind()
        && widens(inner.dtype(), x.dtype())
    {
        x = inner;
    }
    x
}

/// Whether every value of one type is a value of another. Floats of fewer than 32 bits are computed in f32.
fn widens(from: DType, to: DType) -> bool {
    use ElementType::{BF16, F8E4M3, F8E5M2, F16, F32, F64, I8, I32, I64, U8};
    let (DType::Number(from), DType::Number(to)) = (from, to) else { return false };
    match from {
        F16 | BF16 => matches!(to, F32 | F64),
        F8E4M3 | F8E5M2 => matches!(to, F16 | BF16 | F32 | F64),
        F32 => to == F64,
        I8 | U8 => matches!(to, I32 | I64 | F32 | F64),
        I32 => matches!(to, I64 | F64),
        _ => false,
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
