//! Facts that follow from the extents and strides of a buffer: its length, and the places of its elements.

use super::simplify;
use crate::te::dtype::DType;
use crate::te::expr::buffer::{Buffer, Scope};
use crate::te::expr::expression::Expr;

impl Buffer {
    /// The memory, row-major, with axis separators before the given dimensions.
    pub(crate) fn with_separators(&self, separators: &[usize]) -> Self {
        if separators.is_empty() {
            return self.clone();
        }
        let shape = self.shape().to_vec();
        let strides = compact_strides(&shape);
        Self::new(self.name(), self.dtype(), shape, strides, self.scope()).flattened_apart(separators.to_vec())
    }

    /// The extents of the flattened indices.
    pub(crate) fn flat_extents(&self) -> Vec<Expr> {
        if self.separators().is_empty() {
            return vec![self.length()];
        }
        self.groups().into_iter().map(|group| product(&self.shape()[group])).collect()
    }

    /// A row-major buffer.
    pub(crate) fn compact(name: &str, dtype: DType, shape: Vec<Expr>, scope: Scope) -> Self {
        let strides = compact_strides(&shape);
        Self::new(name, dtype, shape, strides, scope)
    }

    /// Factors whose product is the number of elements to allocate: the extents, or the largest stride and its extent
    /// where rows are padded.
    pub(crate) fn allocation(&self) -> Vec<Expr> {
        match (self.strides().first(), self.shape().first()) {
            (Some(stride), Some(extent)) if !self.is_compact() => vec![stride.clone(), extent.clone()],
            _ => self.shape().to_vec(),
        }
    }

    /// The number of elements to allocate.
    pub(crate) fn length(&self) -> Expr {
        product(&self.allocation())
    }

    /// One more than the place of the last element. With the caller's own strides this may differ from the length.
    pub(crate) fn reach(&self) -> Expr {
        if self.strides().iter().all(|stride| stride.as_var().is_none()) {
            return self.length();
        }
        let last = self.shape().iter().zip(self.strides()).map(|(extent, stride)| (extent - 1) * stride);
        let reach = last.reduce(|a, b| a + b).unwrap_or_else(|| Expr::int(0)) + 1;
        let empty = self.shape().iter().map(|extent| extent.equal(0)).reduce(|a, b| a.or(b));
        let reach = empty.map_or(reach.clone(), |empty| empty.select(0, reach));
        simplify(&reach)
    }

    /// Whether its strides are row-major, without gaps.
    #[must_use]
    pub fn is_compact(&self) -> bool {
        self.strides() == compact_strides(self.shape())
    }
}

fn product(extents: &[Expr]) -> Expr {
    let product = |a: Expr, b: Expr| match (a.as_int(), b.as_int()) {
        (Some(a), Some(b)) => Expr::int(a * b),
        (Some(1), None) => b,
        _ => a * b,
    };
    extents.iter().cloned().reduce(product).unwrap_or_else(|| Expr::int(1))
}

pub(crate) fn compact_strides(shape: &[Expr]) -> Vec<Expr> {
    let mut strides = vec![Expr::int(1); shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = simplify(&(&shape[d] * &strides[d]));
    }
    strides
}
