//! Tensors that the caller gives, and those that are computed element by element.

use std::sync::Arc;

use super::extents::check_extents;
use crate::te::dtype::DType;
use crate::te::error::{ExpressionError, TeError};
use crate::te::lang::axis::{Axis, AxisKind, Domain};
use crate::te::lang::expr::{Expr, Kind, overflowing};
use crate::te::lang::tensor::{Compute, Indices, Operation, OperationKind, Tensor};
use crate::te::lang::var::Var;
use crate::te::text::expression as text_of;

impl Tensor {
    /// The element at the given indices, one for each dimension. Indices are an array of one kind, `a.at([i, j])`, or a
    /// tuple of up to eight that mixes axes, numbers and expressions, `a.at((i, 0, &k + 1))`.
    pub fn at(&self, indices: impl Indices) -> Expr {
        let indices = indices.expressions();
        if let Some(Kind::Invalid(error)) = indices.iter().map(Expr::kind).find(|k| matches!(k, Kind::Invalid(_))) {
            return Expr::invalid(error.clone());
        }
        if indices.len() != self.rank() {
            return Expr::invalid(
                ExpressionError::Rank { tensor: self.name(), needed: self.rank(), given: indices.len() }.into(),
            );
        }
        if let OperationKind::Placeholder { shape, .. } = self.operation().kind()
            && let Err(error) = check_extents(shape, |d| format!("dimension {d} of {}", self.name()))
        {
            return Expr::invalid(error);
        }
        if let Some(index) = indices.iter().find(|x| !x.dtype().is_integer()) {
            return Expr::invalid(ExpressionError::IndexType { tensor: self.name(), given: index.dtype() }.into());
        }
        Expr::new(self.dtype(), Kind::Read(self.clone(), indices))
    }
}

/// A tensor of f32 that the caller gives.
pub fn placeholder(shape: impl Indices, name: &str) -> Tensor {
    placeholder_of(DType::F32, shape, name)
}

/// A tensor of any type that the caller gives.
pub fn placeholder_of(dtype: impl Into<DType>, shape: impl Indices, name: &str) -> Tensor {
    let kind = OperationKind::Placeholder { shape: shape.expressions(), dtype: DType::of(dtype) };
    Tensor::new(Operation::new(name, kind), 0)
}

/// A tensor computed element by element: `body` is called with the axes, and gives the element at these indices.
///
/// # Errors
/// Any mistake in `body`; a reduction that is not the whole body.
pub fn compute<const N: usize, S: Indices>(
    shape: S,
    name: &str,
    body: impl FnOnce([Axis; N]) -> Expr,
) -> Result<Tensor, TeError> {
    let mut tensors = compute_all(shape, name, |axes| vec![body(axes)])?;
    Ok(tensors.swap_remove(0))
}

/// Several tensors of one shape, computed together.
///
/// # Errors
/// The errors of [`compute`], and an error if the values of a reduction are not all returned, in order.
pub fn compute_all<const N: usize, S: Indices>(
    shape: S,
    name: &str,
    body: impl FnOnce([Axis; N]) -> Vec<Expr>,
) -> Result<Vec<Tensor>, TeError> {
    const NAMES: [&str; 8] = ["i", "j", "k", "l", "i4", "i5", "i6", "i7"];
    compute_named(shape, name, std::array::from_fn(|d| NAMES.get(d).copied().unwrap_or("i")), body)
}

/// [`compute_all`] with names for the axes, as they appear in the lowered program.
///
/// # Errors
/// The errors of [`compute_all`].
pub fn compute_named<const N: usize, S: Indices>(
    shape: S,
    name: &str,
    axes: [&str; N],
    body: impl FnOnce([Axis; N]) -> Vec<Expr>,
) -> Result<Vec<Tensor>, TeError> {
    let shape = shape.expressions();
    if shape.len() != N {
        return Err(ExpressionError::Rank { tensor: name.to_owned(), needed: shape.len(), given: N }.into());
    }
    check_extents(&shape, |d| format!("dimension {d} of {name}"))?;
    let axes: [Axis; N] =
        std::array::from_fn(|d| Axis::new(axes[d], Some(Domain::up_to(shape[d].clone())), AxisKind::Data));
    let operation = compute_operation(name, axes.to_vec(), body(axes))?;
    Ok((0..operation.values()).map(|value| Tensor::new(Arc::clone(&operation), value)).collect())
}

/// [`compute_all`] for a rank that is known only at run time.
///
/// # Errors
/// The errors of [`compute_all`].
pub fn compute_over(
    shape: impl Indices,
    name: &str,
    body: impl FnOnce(&[Axis]) -> Vec<Expr>,
) -> Result<Vec<Tensor>, TeError> {
    let shape = shape.expressions();
    check_extents(&shape, |d| format!("dimension {d} of {name}"))?;
    let axis = |(d, extent): (usize, &Expr)| {
        let name = ["i", "j", "k", "l"].get(d).map_or_else(|| format!("i{d}"), |name| (*name).to_owned());
        Axis::new(&name, Some(Domain::up_to(extent.clone())), AxisKind::Data)
    };
    let axes: Vec<Axis> = shape.iter().enumerate().map(axis).collect();
    let body = body(&axes);
    let operation = compute_operation(name, axes, body)?;
    Ok((0..operation.values()).map(|value| Tensor::new(Arc::clone(&operation), value)).collect())
}

/// Checks a computation's body and makes the operation.
pub(crate) fn compute_operation(name: &str, axes: Vec<Axis>, body: Vec<Expr>) -> Result<Arc<Operation>, TeError> {
    if body.is_empty() {
        return Err(ExpressionError::EmptyBody { tensor: name.to_owned() }.into());
    }
    let mut reduce_axes = Vec::new();
    for (value, expression) in body.iter().enumerate() {
        let mut mistake = None;
        let mut inner = false;
        expression.visit(&mut |x| match x.kind() {
            Kind::Invalid(error) => mistake = Some(error.clone()),
            Kind::Reduce(..) if x != expression => inner = true,
            _ if overflowing(x) => {
                let value = text_of(x);
                mistake = Some(ExpressionError::Unrepresentable { value, dtype: x.dtype() }.into());
            }
            _ => {}
        });
        if let Some(error) = mistake {
            return Err(error);
        }
        if inner {
            return Err(ExpressionError::ReductionInside { tensor: name.to_owned() }.into());
        }
        match (expression.kind(), body[0].kind()) {
            (Kind::Reduce(reduce, index), Kind::Reduce(first, _)) => {
                if *index != value || reduce != first || reduce.source.len() != body.len() {
                    return Err(ExpressionError::TupleReduction { tensor: name.to_owned() }.into());
                }
                reduce_axes = reduce.axes.to_vec();
            }
            (Kind::Reduce(..), _) | (_, Kind::Reduce(..)) => {
                return Err(ExpressionError::TupleReduction { tensor: name.to_owned() }.into());
            }
            _ => {}
        }
    }
    check_variables(name, &axes, &reduce_axes, &body)?;
    Operation::checked(name, OperationKind::Compute(Compute { axes, reduce_axes, body }))
}

/// Refuses an axis of another computation, or a thread, in the body: it would have no value there.
fn check_variables(name: &str, axes: &[Axis], reduce_axes: &[Axis], body: &[Expr]) -> Result<(), TeError> {
    let mut foreign: Option<Var> = None;
    for expression in body {
        expression.visit(&mut |x| {
            let Some(var) = x.as_var() else { return };
            if var.is_counter() && !axes.iter().chain(reduce_axes).any(|axis| axis.var() == var) {
                foreign.get_or_insert(var);
            }
        });
    }
    match foreign {
        Some(var) => Err(ExpressionError::ForeignAxis { tensor: name.to_owned(), axis: var.name().to_owned() }.into()),
        None => Ok(()),
    }
}
