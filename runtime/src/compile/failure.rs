//! The failures that kernels note: the size of the record, and the places in the text that it may name.

use crate::error::DataError;

/// Bytes of a record.
pub(crate) const RECORD_BYTES: usize = 32;

/// A place in a kernel's text where it may fail because of data. The text has its number in [`Source::sites`].
///
/// [`Source::sites`]: crate::Source::sites
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Site {
    /// An index of a tensor's dimension. The index and the extent are reported.
    Index {
        /// The tensor's name.
        tensor: String,
        /// The dimension, from 0.
        dimension: usize,
    },
    /// An access to memory. The element's number, and the number of elements, are reported.
    Element {
        /// The access, such as `A[i]`.
        access: String,
    },
    /// A bound of a group. The bound, and the extent of what is divided, are reported.
    Bound,
    /// A division of integers.
    Division {
        /// The divisor's text, if it is known.
        divisor: Option<String>,
    },
}

impl Site {
    /// The error for a failure at this place.
    #[must_use]
    pub fn failure(&self, value: i64, limit: i64) -> DataError {
        match self {
            Self::Index { tensor, dimension } => {
                DataError::Index { tensor: tensor.clone(), dimension: *dimension, index: value, extent: limit }
            }
            Self::Element { access } => DataError::Element { access: access.clone(), element: value, count: limit },
            Self::Bound => DataError::Bound { bound: value, extent: limit },
            Self::Division { divisor } => DataError::DivisionByZero { divisor: divisor.clone() },
        }
    }
}
