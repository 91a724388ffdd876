//! Reads the index of gathered rows on the host, for the CPU device.

use std::ops::Range;

use crate::exhaustion::try_repeated;
use crate::gemm::problem::{Error, Left, Problem, RowsError};

/// The row of A that each row of the product is, if an index picks them; 0 for rows that no group has.
///
/// # Errors
/// [`RowsError::Row`] for a number that is not a row's.
pub(crate) fn read_picked(
    a: Left<'_>,
    problem: &Problem,
    groups: Option<&[Range<usize>]>,
) -> Result<Option<Vec<usize>>, Error> {
    let Some(picked) = a.picked() else { return Ok(None) };
    let (given, limit) = (picked.index.to_vec::<i32>()?, a.tensor().shape()[0]);
    let mut rows = try_repeated(0, given.len())?;
    let mut read = |place: usize| {
        let row = usize::try_from(given[place]).ok().filter(|row| *row < limit);
        rows[place] = row.ok_or(RowsError::Row { place, given: given[place], rows: limit })?;
        Ok::<_, RowsError>(())
    };
    match groups {
        Some(groups) => groups.iter().cloned().flatten().try_for_each(read)?,
        None => (0..problem.m).try_for_each(&mut read)?,
    }
    Ok(Some(rows))
}
