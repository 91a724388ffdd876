//! Gathers rows of A by an index; the gathered matrix is multiplied like any other. Scatters rows of results.

use epilogue_runtime::{DeviceTensor, HostAccess, Result};

use super::element::View;
use super::view;
use crate::{ElementType, parallel};

/// From this many bytes on, threads share a copy.
const MANY: usize = 1 << 18;

/// A packed matrix whose row `m` is row `rows[m]` of A, `[S, K]`.
///
/// # Errors
/// The tensor can't be read, or there is not enough memory.
pub(crate) fn gathered(a: &DeviceTensor, rows: &[usize]) -> Result<DeviceTensor> {
    let (element, [limit, k]) = (a.element_type(), [a.shape()[0], a.shape()[1]]);
    let to = a.device().zeros_of(element, [rows.len(), k])?;
    // Without rows there is nothing to pick; then all numbers are of rows that nobody computes.
    if rows.is_empty() || k == 0 || limit == 0 {
        return Ok(to);
    }
    let access = HostAccess::lock(&[a], &[&to])?;
    let (from, into) = (view(a, 2), view(&to, 2));
    for_each_row(rows.len(), k, element, |m| {
        // SAFETY: the locks are held; the picked row is one of A's; the copy is no part of A, and each of its rows is written
        // once.
        unsafe { copy_row(&from, rows[m], &into, m, k) };
    });
    drop(access);
    Ok(to)
}

/// Copies row `m` of a matrix to row `rows[m]` of another one with as many columns. No two of `rows` are the same, and all are
/// rows of that one; rows without a number are not copied.
///
/// # Errors
/// A tensor can't be accessed.
pub(crate) fn scattered(computed: &DeviceTensor, rows: &[Option<usize>], to: &DeviceTensor) -> Result<()> {
    let (element, columns) = (to.element_type(), to.shape()[1]);
    if rows.is_empty() || columns == 0 {
        return Ok(());
    }
    let access = HostAccess::lock(&[computed], &[to])?;
    let (from, into) = (view(computed, 2), view(to, 2));
    for_each_row(rows.len(), columns, element, |m| {
        if let Some(row) = rows[m] {
            // SAFETY: the locks are held; `row` is one of `to`, which `computed` is no part of, and no other `m` has it.
            unsafe { copy_row(&from, m, &into, row, columns) };
        }
    });
    drop(access);
    Ok(())
}

/// Calls `copy` for each row, on several threads if there is much to copy.
fn for_each_row(rows: usize, columns: usize, element: ElementType, copy: impl Fn(usize) + Sync) {
    parallel::for_each(parallel::pieces(rows, MANY.div_ceil(columns * element.size())), |piece| piece.for_each(&copy));
}

/// Copies a row of a matrix to a row of another one of its element type.
///
/// # Safety
/// Both have these rows and columns; the first one's is written, and the second one's accessed, by nobody meanwhile.
unsafe fn copy_row(from: &View, source: usize, to: &View, destination: usize, columns: usize) {
    let size = from.element.size();
    // SAFETY: the caller's promise.
    unsafe {
        if from.strides[2] == 1 && to.strides[2] == 1 {
            std::ptr::copy_nonoverlapping(from.at(0, source, 0), to.at(0, destination, 0), columns * size);
        } else {
            for i in 0..columns {
                std::ptr::copy_nonoverlapping(from.at(0, source, i), to.at(0, destination, i), size);
            }
        }
    }
}
