//! Copies the rows of A that an index picks, so that they are multiplied like those of any matrix.

use epilogue_runtime::{DeviceTensor, HostAccess, Result};

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
    let size = element.size();
    // Without rows there is nothing to pick; then all numbers are of rows that nobody computes.
    if rows.is_empty() || k == 0 || limit == 0 {
        return Ok(to);
    }
    let access = HostAccess::lock(&[a], &[&to])?;
    let (from, into) = (Address(a.device_address() as *mut u8), Address(to.device_address() as *mut u8));
    let [down, along] = [a.strides()[0], a.strides()[1]].map(|stride| stride * size as isize);
    let bytes = k * size;
    parallel::for_each(parallel::pieces(rows.len(), MANY.div_ceil(bytes)), |piece| {
        let (from, into) = (from.get(), into.get());
        for m in piece {
            let row = from.wrapping_offset(rows[m] as isize * down);
            let line = into.wrapping_add(m * bytes);
            // SAFETY: the locks are held; `row` is one of A's rows, whose elements lie `along` bytes apart; the copy is packed,
            // it is no part of A, and each of its rows is written once.
            unsafe {
                if along == size as isize {
                    std::ptr::copy_nonoverlapping(row, line, bytes);
                } else {
                    for i in 0..k {
                        std::ptr::copy_nonoverlapping(
                            row.wrapping_offset(i as isize * along),
                            line.add(i * size),
                            size,
                        );
                    }
                }
            }
        }
    });
    drop(access);
    Ok(to)
}

/// Where a tensor begins, for several threads.
#[derive(Clone, Copy)]
struct Address(*mut u8);

// SAFETY: it is an address; who accesses what is there says why that is sound.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl Address {
    const fn get(self) -> *mut u8 {
        self.0
    }
}
