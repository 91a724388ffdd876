//! A failure as a kernel notes it: how large the record is, and the places in the text that it may name.

use crate::error::DataError;

/// Bytes of a record.
pub(crate) const RECORD_BYTES: usize = 32;

/// A place in a kernel's text that data may fail at; the text knows it by its number in [`Source::sites`].
///
/// [`Source::sites`]: crate::Source::sites
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Site {
    /// An index of a tensor's dimension. What is reported is the index, and the extent.
    Index {
        /// The tensor's name.
        tensor: String,
        /// The dimension, from 0.
        dimension: usize,
    },
    /// An access of memory. What is reported is the element's number, and how many there are.
    Element {
        /// The access, such as `A[i]`.
        access: String,
    },
    /// A division of integers.
    Division {
        /// The divisor's text, where it is known.
        divisor: Option<String>,
    },
}

impl Site {
    /// What a failure at this place says.
    #[must_use]
    pub fn failure(&self, value: i64, limit: i64) -> DataError {
        match self {
            Self::Index { tensor, dimension } => {
                DataError::Index { tensor: tensor.clone(), dimension: *dimension, index: value, extent: limit }
            }
            Self::Element { access } => DataError::Element { access: access.clone(), element: value, count: limit },
            Self::Division { divisor } => DataError::DivisionByZero { divisor: divisor.clone() },
        }
    }
}
