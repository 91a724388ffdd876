//! Products of few rows, which the `gemm` crate is slow at: it packs B first, which takes longer than the product.
//!
//! - [`dots`]: where both operands lie along K, sums along K.
//! - [`row`]: where B lies along N and there is a single row, B's rows as they lie in memory, one after the other.
//!
//! It knows numbers at addresses; never tensors, element types or threads. What is summed in which order depends on the
//! extents alone.

mod dots;
mod lanes;
mod row;
#[cfg(test)]
mod tests;
mod transpose;

pub(super) use self::dots::dots;
pub(super) use self::lanes::Lanes;
pub(super) use self::row::row;
pub(super) use self::transpose::transpose;

/// A matrix in memory, with its distances between rows and columns in elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix<C> {
    pub(super) pointer: *const C,
    pub(super) row: isize,
    pub(super) column: isize,
}

impl<C> Matrix<C> {
    /// The matrix from an element on.
    pub(super) fn at(self, i: usize, j: usize) -> Self {
        let offset = (i as isize).wrapping_mul(self.row).wrapping_add((j as isize).wrapping_mul(self.column));
        Self { pointer: self.pointer.wrapping_offset(offset), ..self }
    }
}

/// A block of the product.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extents {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) depth: usize,
}
