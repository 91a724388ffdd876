//! The errors of products on several ranks.

use epilogue_runtime as runtime;

use crate::{ElementType, gemm};

/// Why a product of several ranks can't be planned or run.
///
/// If a rank's run is refused, or ranks disagree, the runs of all ranks fail: the others with
/// [`CommunicatorError::Refused`](runtime::CommunicatorError::Refused) or
/// [`Disagree`](runtime::CommunicatorError::Disagree), and nothing has been written.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A rank's own product can't be planned or run.
    #[error(transparent)]
    Gemm(#[from] gemm::Error),
    /// The ranks can't work together; or the device failed.
    #[error(transparent)]
    Runtime(#[from] runtime::Error),
    /// An operand that is not a matrix.
    #[error("{operand} has shape {shape:?}; products of several ranks take matrices: flatten A's batch into its rows")]
    Matrix {
        /// `A` or `B`.
        operand: &'static str,
        /// The given shape.
        shape: Vec<usize>,
    },
    /// Rows that can't be divided equally.
    #[error("{rows} rows can't be divided equally among {ranks} ranks: pad them, or use `Combine::AllReduce`")]
    Rows {
        /// The rows.
        rows: usize,
        /// The number of ranks.
        ranks: usize,
    },
    /// Operands whose sums are integers.
    #[error("partial sums of {element} products are integers, which are not summed over ranks: convert A and B first")]
    Integers {
        /// A's element type.
        element: ElementType,
    },
    /// Something in the epilogue that would see a rank's part as the whole.
    #[error("`{epilogue}` uses {what}, which here would be of one rank's {part}: {advice}")]
    Local {
        /// The epilogue.
        epilogue: &'static str,
        /// The part of it that needs all.
        what: String,
        /// `rows` or `columns`.
        part: &'static str,
        /// Advice to the user.
        advice: &'static str,
    },
    /// An epilogue that can't be before the sum over ranks.
    #[error(
        "`{epilogue}` can't be applied before the sum over ranks: it has {what}, and only tensors that the product writes can \
         be summed; apply it after (`Place::After`)"
    )]
    Before {
        /// The epilogue.
        epilogue: &'static str,
        /// The obstacle.
        what: String,
    },
    /// An epilogue that can't be computed chunk by chunk.
    #[error("`{epilogue}` can't be computed in {chunks} chunks of rows, since it uses {what}: use `.chunks(1)`")]
    Chunks {
        /// The epilogue.
        epilogue: &'static str,
        /// The chunks asked for.
        chunks: usize,
        /// The obstacle.
        what: String,
    },
    /// A name that is taken.
    #[error("`{name}` is the name of the sum over ranks here: name the parameter or output otherwise")]
    Name {
        /// The name.
        name: &'static str,
    },
}

epilogue_runtime::message::debug!(Error);

impl From<runtime::CommunicatorError> for Error {
    fn from(error: runtime::CommunicatorError) -> Self {
        Self::Runtime(error.into())
    }
}
