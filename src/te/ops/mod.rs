//! Ready-made operations: each a few lines of tensor expressions, to be scheduled by hand or by [`auto`](super::auto).
//!
//! Small floating-point types are computed in f32 and rounded once, at the end; 8-bit integers are summed in 32 bits.
//! NaN goes through maxima and minima, as in PyTorch.

mod cells;
mod normalise;
mod reductions;
mod scans;

pub use cells::{conv2d, gru_cell, lstm_cell};
pub use normalise::{layer_norm, log_softmax, rms_norm, softmax};
pub use reductions::{argmax, argmin, logsumexp, max, mean, min, norm, prod, sum, var};
pub use scans::{cumprod, cumsum, linear_recurrence, selective_scan, selective_scan_output};

use super::axis::{Axis, reduce_axis};
use super::dtype::DType;
use super::error::TeError;
use super::expr::Expr;
use super::tensor::{Tensor, compute_over};
use crate::ElementType;

/// The type that an operation on elements of a type is computed in.
fn wide(dtype: DType) -> DType {
    match dtype {
        DType::Number(ElementType::F16 | ElementType::BF16 | ElementType::F8E4M3 | ElementType::F8E5M2) => DType::F32,
        DType::Number(ElementType::I8 | ElementType::U8) | DType::Bool => DType::I32,
        other @ DType::Number(_) => other,
    }
}

/// A reduction of a tensor over some of its dimensions.
struct Over {
    kept: Vec<Expr>,
    dimensions: Vec<usize>,
    axes: Vec<Axis>,
    rank: usize,
}

impl Over {
    /// # Errors
    /// [`TeError::NoSuchAxis`], [`TeError::RepeatedAxis`].
    fn new(a: &Tensor, dimensions: &[usize]) -> Result<Self, TeError> {
        let shape = a.shape();
        for (place, dimension) in dimensions.iter().enumerate() {
            if *dimension >= shape.len() {
                let (tensor, count) = (a.name(), shape.len());
                return Err(TeError::NoSuchAxis { tensor, kind: "data", dimension: *dimension, count });
            }
            if dimensions[..place].contains(dimension) {
                return Err(TeError::RepeatedAxis { axis: format!("{dimension} of {}", a.name()) });
            }
        }
        let mut dimensions = dimensions.to_vec();
        dimensions.sort_unstable();
        let axes = dimensions.iter().map(|d| reduce_axis((0, shape[*d].clone()), &format!("r{d}"))).collect();
        let kept = shape.iter().enumerate().filter(|(d, _)| !dimensions.contains(d)).map(|(_, e)| e.clone()).collect();
        Ok(Self { kept, dimensions, axes, rank: shape.len() })
    }

    /// The element's indices, from the axes of the result.
    fn indices(&self, outer: &[Axis]) -> Vec<Expr> {
        let (mut outer, mut inner) = (outer.iter(), self.axes.iter());
        (0..self.rank)
            .filter_map(|d| if self.dimensions.contains(&d) { inner.next() } else { outer.next() })
            .map(|axis| Expr::from(*axis))
            .collect()
    }

    /// The indices of the result, among an element's.
    fn row(&self, at: &[Expr]) -> Vec<Expr> {
        (0..self.rank).filter(|d| !self.dimensions.contains(d)).map(|d| at[d].clone()).collect()
    }

    /// Whether the dimensions are the last ones, whose elements are neighbours in memory as a rule.
    fn is_last(&self) -> bool {
        self.dimensions.iter().rev().zip((0..self.rank).rev()).all(|(dimension, last)| *dimension == last)
    }

    /// How many elements are reduced to one, as a number of a type: their product could be beyond 32-bit integers.
    fn count(&self, a: &Tensor, dtype: DType) -> Expr {
        let shape = a.shape();
        let extents = self.dimensions.iter().map(|d| shape[*d].clone().cast(dtype));
        extents.reduce(|n, extent| n * extent).unwrap_or_else(|| Expr::constant(1.0, dtype))
    }

    /// The reductions of `body`, given the element's indices.
    fn reduce(&self, name: &str, body: impl FnOnce(&[Expr], &[Axis]) -> Vec<Expr>) -> Result<Vec<Tensor>, TeError> {
        compute_over(self.kept.clone(), name, |outer| body(&self.indices(outer), &self.axes))
    }
}

/// A tensor computed point by point from others of its shape.
fn map(shape: Vec<Expr>, name: &str, body: impl FnOnce(&[Expr]) -> Expr) -> Result<Tensor, TeError> {
    let mut tensors = compute_over(shape, name, |axes| {
        let indices: Vec<Expr> = axes.iter().map(|axis| Expr::from(*axis)).collect();
        vec![body(&indices)]
    })?;
    Ok(tensors.swap_remove(0))
}

/// # Errors
/// [`TeError::OperandType`] unless the tensor holds floating-point numbers.
fn require_float(a: &Tensor, operation: &str) -> Result<(), TeError> {
    if a.dtype().is_float() {
        Ok(())
    } else {
        Err(TeError::OperandType { operation: operation.to_owned(), given: a.dtype() })
    }
}
