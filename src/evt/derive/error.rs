//! Trees without a derivative, and why.

use crate::evt::TreeError;

/// Why a derivative can't be made.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DeriveError {
    /// The forward tree is wrong itself.
    #[error(transparent)]
    Forward(#[from] TreeError),
    /// The output doesn't exist.
    #[error("there is no output `{name}`; `{epilogue}` returns {}", .outputs.join(", "))]
    NoOutput {
        /// As given.
        name: String,
        /// The forward tree.
        epilogue: &'static str,
        /// Its outputs.
        outputs: Vec<&'static str>,
    },
    /// The parameter doesn't exist.
    #[error("there is no parameter `{name}`; `{epilogue}` has {}", .parameters.join(", "))]
    NoParameter {
        /// As given.
        name: String,
        /// The forward tree.
        epilogue: &'static str,
        /// Its parameters.
        parameters: Vec<&'static str>,
    },
    /// An output that can't be used so.
    #[error("`{name}` {is}: {advice}")]
    Output {
        /// The output.
        name: &'static str,
        /// The fault, as the message's predicate.
        is: &'static str,
        /// Another input that can be used.
        advice: &'static str,
    },
    /// A parameter that no gradient is of.
    #[error("`{name}` is a `{class}`, of which there is no gradient: leave it out")]
    NoGradient {
        /// The parameter.
        name: &'static str,
        /// Its class.
        class: &'static str,
    },
    /// An M×N parameter that all batches share.
    #[error(
        "`{name}` is M×N, and nothing is summed over the batch alone: take a gradient for each batch, and add them up"
    )]
    BatchAlone {
        /// The parameter.
        name: &'static str,
    },
    /// A name that was given twice.
    #[error("`{name}` is named twice: leave one out")]
    Twice {
        /// The name.
        name: String,
    },
    /// A parameter that is overwritten.
    #[error(
        "`{name}` is a `TensorMut`, whose values are gone in the backward pass: declare it `Tensor`, and return the new \
         values under another name"
    )]
    Overwritten {
        /// The parameter.
        name: &'static str,
    },
    /// A parameter or an output with the name of a gradient.
    #[error("the gradient of `{of}` is called `{name}`, and there is a `{name}` already: rename that")]
    NameTaken {
        /// The parameter or output of the gradient.
        of: &'static str,
        /// The name.
        name: &'static str,
    },
    /// No influence.
    #[error("nothing that `{name}` changes has a gradient: no derivative leads from the outputs with one to `{name}`")]
    NoInfluence {
        /// The parameter.
        name: &'static str,
    },
    /// A forward accumulator is needed, and is not a parameter.
    #[error(
        "a derivative needs the accumulator `{name}`: return it, `let z = {name};`, or what the derivative is computed from, and \
         have that saved"
    )]
    Accumulator {
        /// The accumulator.
        name: &'static str,
    },
    /// Nothing is left to compute.
    #[error("no derivative leads from `{through}` to an accumulator, and no other gradient is wanted")]
    Nothing {
        /// The output.
        through: &'static str,
    },
    /// A reduction without derivative.
    #[error("{what} has no derivative here: {advice}")]
    Reduction {
        /// Which.
        what: String,
        /// A way out.
        advice: &'static str,
    },
    /// A sum over a vector alone, or over the batch alone.
    #[error(
        "the gradient of {what} is a sum over {over} of what has one value for each, and an epilogue reduces M×N values: pass a \
         parameter as a vector and add its gradient up, or leave out `.given(…)` of the vectors that follow from it"
    )]
    VectorSum {
        /// The vector or the other operand of the sum.
        what: String,
        /// The axis or batch that the sum is over.
        over: &'static str,
    },
}

epilogue_runtime::message::debug!(DeriveError);
