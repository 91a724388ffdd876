//! The gradients that are wanted, by names.

/// Names of outputs and parameters.
#[derive(Clone, Debug)]
pub(super) struct WantedGradients {
    /// The output whose gradient is the backward accumulator.
    pub(super) through: String,
    /// The outputs whose gradients are parameters.
    pub(super) given: Vec<String>,
    /// The outputs that are read.
    pub(super) saved: Vec<String>,
    /// The parameters whose gradients are results, each with whether it is summed over the batch.
    pub(super) gradients: Vec<(String, bool)>,
    /// Whether parameters and results are those that were asked for, needed or not.
    pub(super) all: bool,
}
