//! Products over numbers at addresses, by shape:
//!
//! - [`general`]: any shape, by the `gemm` crate's parts.
//! - [`dots`]: few rows, as dot products, if both operands are contiguous along K.
//! - [`row`]: a single row, if B is contiguous along N; it reads B's rows in order, without a copy.
//! - [`words`]: 32-bit groups along K, for CPUs with instructions for them.
//!
//! With few rows, `general` is slow: it packs B first, which takes longer than the product.
//!
//! Nothing here knows tensors, element types or threads. The order of the sums depends only on the extents.

mod dots;
mod general;
mod lanes;
mod row;
#[cfg(test)]
mod tests;
mod transpose;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) mod words;

pub(super) use self::dots::dots;
pub(super) use self::general::{General, Written, general};
pub(super) use self::lanes::Lanes;
pub(super) use self::row::row;
pub(super) use self::transpose::transpose;

/// A matrix in memory, with the strides of its rows and columns in elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix<C> {
    pub(super) pointer: *const C,
    pub(super) row: isize,
    pub(super) column: isize,
}

impl<C> Matrix<C> {
    /// The matrix that begins at an element.
    pub(super) fn at(self, i: usize, j: usize) -> Self {
        let offset = (i as isize).wrapping_mul(self.row).wrapping_add((j as isize).wrapping_mul(self.column));
        Self { pointer: self.pointer.wrapping_offset(offset), ..self }
    }

    /// The matrix with rows and columns exchanged.
    pub(super) fn transposed(self) -> Self {
        Self { row: self.column, column: self.row, ..self }
    }
}

/// A block of the product.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extents {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) depth: usize,
}
