//! Checks an operand of quantised weights: all B are alike.

use smallvec::SmallVec;

use super::error::Error;
use super::format::Formats;
use super::format_error::FormatError;
use super::operand::Right;
use super::weight_values::WeightExtents;
use super::weights::Weights;
use crate::ElementType;

impl Right<'_> {
    /// The element type of B beside an A of this type: that of its elements, and A's if it is quantised.
    ///
    /// # Errors
    /// [`Error::NoRight`].
    pub(crate) fn element_beside(&self, a: ElementType) -> Result<ElementType, Error> {
        let first = self.first()?;
        Ok(if self.weights().is_empty() { first.element_type() } else { a })
    }

    /// The extents of all weights, which are alike but for the batch axis; `None` if B isn't quantised.
    ///
    /// # Errors
    /// [`FormatError`].
    pub(crate) fn weight_extents(&self) -> Result<Option<SmallVec<[WeightExtents; 2]>>, FormatError> {
        let all = self.weights().iter().map(Weights::extents).collect::<Result<SmallVec<[_; 2]>, _>>()?;
        let Some(first) = all.first() else { return Ok(None) };
        if self.weights().len() != self.tensors().len() {
            // Some of the packed B are tensors.
            let format =
                |place: usize| self.packed().get(place).map(|packed| packed.purpose.format).unwrap_or_default();
            let place = (1..self.packed().len()).find(|place| format(*place) != format(0)).unwrap_or_default();
            let (given, needed) = (format(place).to_string(), format(0).to_string());
            return Err(FormatError::Alike { place: place + 1, given, needed });
        }
        let of = |weights: &Weights<'_>, extents: &WeightExtents| {
            format!("[{}, {}] of {}", extents.k, extents.n, weights.quantization())
        };
        let is_like = |x: &Weights<'_>, y: &WeightExtents| {
            (x.quantization(), y.k, y.n) == (self.weights()[0].quantization(), first.k, first.n)
        };
        let mut others = self.weights().iter().zip(&all).enumerate();
        if let Some((i, (weights, extents))) = others.find(|(_, (weights, extents))| !is_like(weights, extents)) {
            let (given, needed) = (of(weights, extents), of(&self.weights()[0], first));
            return Err(FormatError::Alike { place: i + 1, given, needed });
        }
        Ok(Some(all))
    }
}

/// The formats of a product with these weights; `None` if B isn't quantised.
pub(super) fn formats(right: &Right<'_>) -> Option<Formats> {
    right.weights().first().map(|weights| Formats::of_weights(weights.quantization()))
}
