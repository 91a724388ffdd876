//! Errors of runs: arguments, sizes, and what a program meets.

/// A mistake in a call of something that is built.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// An integer that no index holds.
    #[error("a size or index is beyond the range of its integer type")]
    IntegerRange,
    /// Too few or too many arguments of a run.
    #[error(
        "{given} argument{} given; needed are {}: {}",
        if *.given == 1 { " was" } else { "s were" },
        .needed.len(),
        .needed.join(", ")
    )]
    ArgumentCount {
        /// How many were given.
        given: usize,
        /// The tensors that are needed, in order.
        needed: Vec<String>,
    },
    /// A size that the extents of the arguments don't give.
    #[error("the size {size} can't be found from the arguments: {reason}")]
    UnknownSize {
        /// The size.
        size: String,
        /// The tensor that has it without giving it, or all that don't have it; and what to do.
        reason: String,
    },
    /// An argument of a run that doesn't fit its tensor.
    #[error("argument {tensor}: {reason}")]
    Argument {
        /// The tensor.
        tensor: String,
        /// The given and the needed value.
        reason: String,
    },
    /// A mistake that is found while the program runs.
    #[error("{reason}")]
    Failed {
        /// The mistake.
        reason: String,
    },
}

epilogue_runtime::message::debug!(RunError);
