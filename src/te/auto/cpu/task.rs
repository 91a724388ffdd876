//! The reduction that a job compiles, with its run.

use crate::te::auto::bind::arguments::BoundTensors;
use crate::te::auto::bind::iteration_space::Space;
use crate::te::auto::pattern::fused::Reduction;
use crate::tuning::Tuning;

/// A reduction in one pass, with the tensors of a run.
pub(in crate::te::auto) struct Task<'a> {
    pub(in crate::te::auto) reduction: &'a Reduction,
    pub(in crate::te::auto) bound: &'a BoundTensors<'a>,
    pub(in crate::te::auto) space: &'a Space,
    /// For each axis, whether its value is used for more than the address of elements.
    pub(in crate::te::auto) used: &'a [bool],
    pub(in crate::te::auto) tuning: Tuning,
}
