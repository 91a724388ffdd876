//! Copies the rows of A that an index picks, so that they are multiplied like those of any matrix.

use epilogue_runtime::{DeviceTensor, HostAccess, Result};

use super::view;
use crate::parallel;

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
    let (from, into, size) = (view(a, 2), view(&to, 2), element.size());
    parallel::for_each(parallel::pieces(rows.len(), MANY.div_ceil(k * size)), |piece| {
        for m in piece {
            let (row, line) = (rows[m], into.at(0, m, 0));
            // SAFETY: the locks are held; `row` is one of A's rows; the copy is packed, it is no part of A, and each of its
            // rows is written once.
            unsafe {
                if from.strides[2] == 1 {
                    std::ptr::copy_nonoverlapping(from.at(0, row, 0), line, k * size);
                } else {
                    for i in 0..k {
                        std::ptr::copy_nonoverlapping(from.at(0, row, i), line.add(i * size), size);
                    }
                }
            }
        }
    });
    drop(access);
    Ok(to)
}
