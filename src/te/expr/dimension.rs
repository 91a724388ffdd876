//! A dimension of a tensor, by its number from either end.

use crate::te::error::{ExpressionError, TeError};

/// A dimension of a tensor, or another axis in a list: by its number from the first on, or from the end on if the number
/// is negative. It is −1 for the last one, as in numpy.
///
/// ```
/// use epilogue::te::{self, ops};
///
/// let x = te::placeholder([2, 3, 4], "x");
/// assert_eq!(ops::sum(&x, -1)?.shape(), ops::sum(&x, 2)?.shape());
/// let error = ops::sum(&x, -4).unwrap_err();
/// assert_eq!(error.to_string(), "x has 3 data axes, number -4 was asked for; numbers go from -3 to 2");
/// # Ok::<(), te::TeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension(i64);

macro_rules! from_integers {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Dimension {
            fn from(number: $integer) -> Self {
                // No tensor has so many dimensions.
                Self(i64::try_from(number).unwrap_or(i64::MAX))
            }
        }
    )*};
}

from_integers!(i32, i64, isize, u32, u64, usize);

impl Dimension {
    /// Its place among `count` axes of a kind.
    ///
    /// # Errors
    /// [`ExpressionError::NoSuchAxis`].
    pub(crate) fn among(
        self,
        count: usize,
        kind: &'static str,
        tensor: impl FnOnce() -> String,
    ) -> Result<usize, TeError> {
        let from_end = i64::try_from(count).map_or(i64::MAX, |count| self.0.saturating_add(count));
        let place = usize::try_from(if self.0 < 0 { from_end } else { self.0 });
        place
            .ok()
            .filter(|place| *place < count)
            .ok_or_else(|| ExpressionError::NoSuchAxis { tensor: tensor(), kind, dimension: self.0, count }.into())
    }
}
