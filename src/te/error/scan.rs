//! Errors of scans.

use crate::te::dtype::DType;

/// A mistake in a scan: its lists, what it reads, and at which step.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// Lists of different lengths in a scan.
    #[error(
        "a scan takes as many inits and updates as states; given were {init}, {update} and {state}; give one of each"
    )]
    Count {
        /// Number of inits.
        init: usize,
        /// Number of updates.
        update: usize,
        /// Number of states.
        state: usize,
    },
    /// A scan's state that is not a placeholder.
    #[error("the state {tensor} must be a placeholder; make it by `te::placeholder`, in the shape of all steps")]
    State {
        /// The tensor.
        tensor: String,
    },
    /// A scan's init or update that is not a computation.
    #[error("the {what} {tensor} must be a computation; copy it by `te::compute` if it is a tensor that is given")]
    Body {
        /// `init` or `update`.
        what: &'static str,
        /// The tensor.
        tensor: String,
    },
    /// Types that differ in a scan.
    #[error(
        "the {what} is of type {given}, the state of {needed}; convert it by `.cast({needed})`, or make the state of {given}"
    )]
    Type {
        /// `init` or `update`.
        what: &'static str,
        /// The state's type.
        needed: DType,
        /// The type of the init or update.
        given: DType,
    },
    /// Ranks that differ in a scan.
    #[error("the {what} has {given} dimensions, the state {needed}; give it as many, with the steps first")]
    Rank {
        /// `init` or `update`.
        what: &'static str,
        /// The state's rank.
        needed: usize,
        /// The rank of the init or update.
        given: usize,
    },
    /// Extents that differ in a scan.
    #[error("dimension {dimension} of the {what} {tensor} is {given}; it must be {needed}")]
    Shape {
        /// `init`, `update` or `state`.
        what: &'static str,
        /// The tensor.
        tensor: String,
        /// Which dimension.
        dimension: usize,
        /// The extent needed.
        needed: String,
        /// The extent given.
        given: String,
    },
    /// A read of a state at a step that is not computed yet.
    #[error(
        "{stage} reads {tensor} at step {index}{}; an update may read the state at earlier steps only, `t - 1` or before",
        .step.map(|d| format!(", which is t {} {}", if d < 0 { '-' } else { '+' }, d.abs())).unwrap_or_default()
    )]
    Read {
        /// The stage that reads.
        stage: String,
        /// The state that it reads.
        tensor: String,
        /// The time index.
        index: String,
        /// The step relative to `t`; `None` where it is not a constant.
        step: Option<i64>,
    },
    /// A read of a state at a step before the first one.
    #[error(
        "{stage} reads {tensor} at step {index}, {back} steps back, of which the init gives {steps}; give {back} initial \
         steps, or read it inside a `select` that asks for the step"
    )]
    Before {
        /// The stage that reads.
        stage: String,
        /// The state that it reads.
        tensor: String,
        /// The time index.
        index: String,
        /// How far back that is at most.
        back: i64,
        /// How many steps the init gives.
        steps: i64,
    },
    /// A tensor that is part of two scans.
    #[error("{tensor} belongs to two scans; every scan needs an init, an update and a state of its own")]
    Shared {
        /// The init, update or state.
        tensor: String,
    },
    /// A read, from outside of a scan, of a tensor that exists only inside it.
    #[error(
        "{stage} reads a state or an update of {scan} and is not a part of its update; read the scan's result instead"
    )]
    Outside {
        /// The stage that reads.
        stage: String,
        /// The scan.
        scan: String,
    },
    /// A scan whose update reads its intermediate stages at too many different steps.
    #[error(
        "the update {tensor} reads the stages that it is computed from at more than {most} steps; read fewer, or at one step"
    )]
    Steps {
        /// The update.
        tensor: String,
        /// At how many steps it may, all stages together.
        most: usize,
    },
}

epilogue_runtime::message::debug!(ScanError);
