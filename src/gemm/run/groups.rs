//! Reads the bounds of groups on the host, for the CPU device.

use std::ops::Range;

use crate::gemm::problem::bounds::{Bounds, BoundsForm};
use crate::gemm::problem::{Error, GroupsError, Left, Problem};

/// The rows of every group, or its part of K, if these are divided.
///
/// # Errors
/// [`GroupsError::Bound`] for bounds that decrease or lie outside.
pub(crate) fn read_groups(a: Left<'_>, problem: &Problem) -> Result<Option<Vec<Range<usize>>>, Error> {
    let extent = |bounds: &Bounds<'_>| if bounds.of_depth { problem.k } else { problem.m };
    a.bounds().map(|bounds| read(bounds, extent(&bounds))).transpose()
}

fn read(Bounds { tensor, form, of_depth }: Bounds<'_>, rows: usize) -> Result<Vec<Range<usize>>, Error> {
    let (name, along) = (form.name(), if of_depth { "indices of K" } else { "rows" });
    let mut groups = Vec::with_capacity(tensor.len());
    let mut least = 0;
    for (place, given) in tensor.to_vec::<i32>()?.into_iter().enumerate() {
        let bound = usize::try_from(given).ok().filter(|bound| (least..=rows).contains(bound));
        let bound = bound.ok_or(GroupsError::Bound { name, place, given, least, rows, along })?;
        match form {
            BoundsForm::Offsets if place == 0 => least = bound,
            BoundsForm::Offsets | BoundsForm::Ends => groups.push(std::mem::replace(&mut least, bound)..bound),
            BoundsForm::Counts => groups.push(0..bound),
        }
    }
    Ok(groups)
}
