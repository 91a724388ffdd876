//! Products of any shape, by the crates that make up the `gemm` crate for f32 and f64. (Its crates for complex numbers
//! and f16 take as long to compile and are never called.)

use gemm_common::Parallelism;

use super::{Extents, Lanes, Matrix};

/// A type with a crate.
pub(in crate::gemm::cpu) trait General: Lanes {
    /// `to = a · b`, or `to += a · b` if it continues; `to` is best contiguous along rows.
    ///
    /// # Safety
    /// `a` must have rows × depth elements and `b` depth × columns, which no thread writes meanwhile; `to` rows × columns, apart
    /// by these strides, which no other thread accesses.
    unsafe fn product(extents: Extents, a: Matrix<Self>, b: Matrix<Self>, to: Written<Self>);
}

/// Where a product is written, with the strides of its rows and columns in elements.
#[derive(Clone, Copy, Debug)]
pub(in crate::gemm::cpu) struct Written<C> {
    pub(in crate::gemm::cpu) pointer: *mut C,
    pub(in crate::gemm::cpu) row: isize,
    pub(in crate::gemm::cpu) column: isize,
    /// Whether the product is added to what is there.
    pub(in crate::gemm::cpu) continues: bool,
}

macro_rules! by_crate {
    ($($number:ident by $get:path),*) => { $(
        impl General for $number {
            #[rustfmt::skip] // the arguments in groups
            unsafe fn product(extents: Extents, a: Matrix<Self>, b: Matrix<Self>, to: Written<Self>) {
                let Extents { rows, columns, depth } = extents;
                // SAFETY: the caller's promise.
                unsafe {
                    $get()(
                        rows, columns, depth,
                        to.pointer, to.column, to.row, to.continues,
                        a.pointer, a.column, a.row,
                        b.pointer, b.column, b.row,
                        1.0, 1.0, false, false, false, Parallelism::None,
                    );
                }
            }
        }
    )* };
}

by_crate!(f32 by gemm_f32::gemm::f32::get_gemm_fn, f64 by gemm_f64::gemm::f64::get_gemm_fn);

/// Like [`General::product`], for strides of any sign. K is walked in the direction in which the first operand's
/// addresses ascend. If the result's columns are closer together than its rows, its transpose is computed.
///
/// # Safety
/// The conditions of [`General::product`].
pub(in crate::gemm::cpu) unsafe fn general<C: General>(extents: Extents, a: Matrix<C>, b: Matrix<C>, to: Written<C>) {
    let (extents, mut first, mut second, to) = if to.column.abs() < to.row.abs() {
        let turned = Extents { rows: extents.columns, columns: extents.rows, ..extents };
        (turned, b.transposed(), a.transposed(), Written { row: to.column, column: to.row, ..to })
    } else {
        (extents, a, b, to)
    };
    if first.column < 0 && extents.depth > 0 {
        let last = extents.depth - 1;
        (first, second) = (first.at(0, last), second.at(last, 0));
        (first.column, second.row) = (-first.column, -second.row);
    }
    // SAFETY: the caller's promise: these are the same elements.
    unsafe { C::product(extents, first, second, to) };
}
