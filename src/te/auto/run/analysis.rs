//! What a reduction or a map does with the tensors of a run, on any device.

use crate::te::auto::bind::arguments::Bound;
use crate::te::auto::bind::iteration_space::{Space, tensor_of};
use crate::te::auto::gpu::emit::context::{check_ranges, used_axes};
use crate::te::auto::pattern::fused::Reduction;
use crate::te::error::TeError;

/// A run of a reduction that has been analysed.
pub(in crate::te::auto) struct Analysis {
    pub(in crate::te::auto) space: Space,
    /// For each axis, whether its value is used for more than the address of elements.
    pub(in crate::te::auto) used: Vec<bool>,
}

impl Analysis {
    /// Analyses a run; `None` if there is nothing to do.
    ///
    /// # Errors
    /// The error of a read at indices outside of its tensor, or of integers that don't fit their type.
    pub(in crate::te::auto) fn of(reduction: &Reduction, bound: &Bound<'_>) -> Result<Option<Self>, TeError> {
        let space = space(reduction, bound)?;
        let elements = if reduction.passes.is_empty() { space.extents.len() } else { reduction.outer };
        if space.extents[..elements].contains(&0) {
            return Ok(None);
        }
        let (axes, expressions) = (&reduction.axes, reduction.expressions());
        let used = used_axes(axes, &reduction.reads.list, |read| space.reads[read].is_none(), &expressions);
        check_ranges(axes, &used, &space, &bound.sizes, &expressions)?;
        Ok(Some(Self { space, used }))
    }
}

/// The points of a run, and where they read and write.
///
/// # Errors
/// The error of a read at indices outside of its tensor.
pub(super) fn space(reduction: &Reduction, bound: &Bound<'_>) -> Result<Space, TeError> {
    let mut space = Space::of(&reduction.axes, &reduction.reads.list, &reduction.parameters, bound)?;
    for output in &reduction.outputs {
        space.push_output(tensor_of(&reduction.parameters, bound, &output.tensor)?, &output.places);
    }
    Ok(space)
}
