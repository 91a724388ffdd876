//! How a reduction, a map or a scan uses the tensors of a run, on any device.

use crate::te::auto::bind::arguments::BoundTensors;
use crate::te::auto::bind::iteration_space::{Space, tensor_of};
use crate::te::auto::gpu::emit::context::{check_ranges, used_axes};
use crate::te::auto::pattern::fused::Reduction;
use crate::te::auto::pattern::reads::Read;
use crate::te::error::TeError;
use crate::te::expr::axis::Axis;
use crate::te::expr::expression::Expr;

/// A run that has been analysed.
pub(in crate::te::auto) struct Analysis {
    pub(in crate::te::auto) space: Space,
    /// For each axis, whether its value is used for more than the address of elements.
    pub(in crate::te::auto) used: Vec<bool>,
}

impl Analysis {
    /// Analyses a run of a reduction or a map; `None` if there is nothing to do.
    ///
    /// # Errors
    /// The error of a read at indices outside of its tensor, or of integers that don't fit their type.
    pub(in crate::te::auto) fn of(reduction: &Reduction, bound: &BoundTensors<'_>) -> Result<Option<Self>, TeError> {
        let space = space(reduction, bound)?;
        let elements = if reduction.passes.is_empty() { space.extents.len() } else { reduction.outer };
        if space.extents[..elements].contains(&0) {
            return Ok(None);
        }
        Self::of_space(space, &reduction.axes, &reduction.reads.list, &reduction.expressions(), bound).map(Some)
    }

    /// Analyses a run whose points are known.
    ///
    /// # Errors
    /// The error of integers that don't fit their type.
    pub(super) fn of_space(
        space: Space,
        axes: &[Axis],
        reads: &[Read],
        expressions: &[&Expr],
        bound: &BoundTensors<'_>,
    ) -> Result<Self, TeError> {
        let used = used_axes(axes, reads, |read| space.reads[read].is_none(), expressions);
        check_ranges(axes, &used, &space, &bound.sizes, expressions)?;
        Ok(Self { space, used })
    }
}

/// The points of a run, and where they read and write.
///
/// # Errors
/// The error of a read at indices outside of its tensor.
pub(super) fn space(reduction: &Reduction, bound: &BoundTensors<'_>) -> Result<Space, TeError> {
    let mut space = Space::of(&reduction.axes, &reduction.reads.list, &reduction.parameters, bound)?;
    for output in &reduction.outputs {
        space.push_output(tensor_of(&reduction.parameters, bound, &output.tensor)?, &output.places);
    }
    Ok(space)
}
