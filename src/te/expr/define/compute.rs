//! Tensors that the caller gives, and tensors that are computed element by element.

use std::sync::Arc;

use super::extents::check_extents;
use crate::te::dtype::DType;
use crate::te::error::{ExpressionError, TeError};
use crate::te::expr::axis::{Axis, AxisKind, Domain};
use crate::te::expr::expression::{Expr, Kind, overflowing};
use crate::te::expr::tensor::{Compute, Indices, Operation, OperationKind, Tensor};
use crate::te::expr::var::Var;
use crate::te::text::expression as text_of;

impl Tensor {
    /// The element at the given indices, one for each dimension. Indices are an array of one kind, `a.at([i, j])`, or a
    /// tuple of up to eight. A tuple mixes axes, variables, integers and expressions: `a.at((i, 0, &k + 1, rows.len()))`.
    /// For more than eight, a vector of [`Expr`] takes any.
    pub fn at(&self, indices: impl Indices) -> Expr {
        self.element(indices.expressions())
    }

    fn element(&self, indices: Vec<Expr>) -> Expr {
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
    let axes = usual_axes(name, shape.expressions(), N)?;
    let element = body(array_of(&axes));
    one(computed(name, axes, vec![element]))
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
    let axes = usual_axes(name, shape.expressions(), N)?;
    let body = body(array_of(&axes));
    computed(name, axes, body)
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
    let axes = data_axes(name, shape.expressions(), &axes)?;
    let body = body(array_of(&axes));
    computed(name, axes, body)
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
    let rank = shape.len();
    let axes = usual_axes(name, shape, rank)?;
    let body = body(&axes);
    computed(name, axes, body)
}

// The functions above are compiled once more for each `body`; what follows, which is the most of them, only once.

/// Axes whose names nobody gave.
fn usual_axes(name: &str, shape: Vec<Expr>, rank: usize) -> Result<Vec<Axis>, TeError> {
    let usual = |d: usize| ["i", "j", "k", "l"].get(d).map_or_else(|| format!("i{d}"), |name| (*name).to_owned());
    data_axes(name, shape, &(0..rank).map(usual).collect::<Vec<String>>())
}

/// The axes of a computation that counts the elements of `shape`.
fn data_axes(name: &str, shape: Vec<Expr>, axes: &[impl AsRef<str>]) -> Result<Vec<Axis>, TeError> {
    if shape.len() != axes.len() {
        return Err(ExpressionError::Rank { tensor: name.to_owned(), needed: shape.len(), given: axes.len() }.into());
    }
    check_extents(&shape, |d| format!("dimension {d} of {name}"))?;
    let axis = |(axis, extent): (&_, Expr)| Axis::new(AsRef::as_ref(axis), Some(Domain::up_to(extent)), AxisKind::Data);
    Ok(axes.iter().zip(shape).map(axis).collect())
}

/// The axes as an array: there are as many.
fn array_of<const N: usize>(axes: &[Axis]) -> [Axis; N] {
    std::array::from_fn(|d| axes[d])
}

/// The values of a computation, once its body is checked.
fn computed(name: &str, axes: Vec<Axis>, body: Vec<Expr>) -> Result<Vec<Tensor>, TeError> {
    let operation = compute_operation(name, axes, body)?;
    Ok((0..operation.values()).map(|value| Tensor::new(Arc::clone(&operation), value)).collect())
}

/// The only value of a computation that has one.
fn one(tensors: Result<Vec<Tensor>, TeError>) -> Result<Tensor, TeError> {
    Ok(tensors?.swap_remove(0))
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
