//! Quantised weights as an operand: as a user has them, or packed.

use epilogue_runtime::DeviceTensor;

use super::error::Error;
use super::format_error::FormatError;
use super::packed::{Contents, Packed};
use super::quantization::Quantization;
use super::quantized::Quantized;
use super::weight_panels::WeightPanels;
use super::weight_values::{WeightExtents, WeightValues};

/// A B of quantised weights.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Weights<'a> {
    /// In a user's tensors.
    Rows(Quantized<'a>),
    /// Packed.
    Panels(&'a WeightPanels),
}

impl<'a> Weights<'a> {
    pub(crate) fn quantization(&self) -> Quantization {
        match self {
            Self::Rows(weights) => weights.quantization(),
            Self::Panels(panels) => panels.quantization,
        }
    }

    /// # Errors
    /// [`FormatError`] for tensors with other element types or shapes than they need.
    pub(crate) fn extents(&self) -> Result<WeightExtents, FormatError> {
        match self {
            Self::Rows(weights) => weights.extents(),
            Self::Panels(panels) => Ok(panels.extents),
        }
    }

    /// Their numbers, on the host.
    ///
    /// # Errors
    /// As [`extents`](Self::extents); a tensor can't be read.
    pub(crate) fn values(&self) -> Result<WeightValues, Error> {
        match self {
            Self::Rows(weights) => weights.values(),
            Self::Panels(panels) => panels.values(),
        }
    }

    /// The tensors beside the codes, under their names.
    pub(crate) fn others(self) -> impl Iterator<Item = (&'static str, &'a DeviceTensor)> {
        let (of_rows, of_panels) = match self {
            Self::Rows(weights) => (Some(weights.others()), None),
            Self::Panels(WeightPanels { scales, zero_points, .. }) => {
                let zero_points = zero_points.as_ref().map(|tensor| ("b_zero_points", tensor));
                (None, Some(std::iter::once(("b_scales", scales)).chain(zero_points)))
            }
        };
        of_rows.into_iter().flatten().chain(of_panels.into_iter().flatten())
    }
}

impl Packed {
    /// The packed weights, if these are quantised.
    pub(super) const fn weights(&self) -> Option<&WeightPanels> {
        match &self.contents {
            Contents::Weights(weights) => Some(weights),
            Contents::Tensor(_) => None,
        }
    }
}
