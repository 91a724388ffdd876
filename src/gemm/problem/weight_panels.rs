//! Quantised weights in panels, in the order in which the CPU device reads them.

use std::fmt;

use epilogue_runtime::DeviceTensor;

use super::error::Error;
use super::quantization::Quantization;
use super::weight_values::{WeightExtents, WeightOrder, WeightValues};
use crate::evt::reference;

/// Weights that were repacked into panels; [`weight_values`](super::weight_values) says how they lie.
#[derive(Clone)]
pub(crate) struct WeightPanels {
    pub(crate) quantization: Quantization,
    pub(crate) extents: WeightExtents,
    /// Codes: u8 of `[L · panels, words, 64]`.
    pub(crate) codes: DeviceTensor,
    /// Scales: `[L · panels, groups, 16]`.
    pub(crate) scales: DeviceTensor,
    /// Zero points: u8 of the same shape.
    pub(crate) zero_points: Option<DeviceTensor>,
    /// Whether all scales are finite, so that sums may be multiplied by them in place of weights.
    pub(crate) are_finite: bool,
}

impl WeightPanels {
    /// The tensors beside the codes.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = &DeviceTensor> {
        std::iter::once(&self.scales).chain(&self.zero_points)
    }

    /// Their numbers, on the host.
    ///
    /// # Errors
    /// A tensor can't be read.
    pub(crate) fn values(&self) -> Result<WeightValues, Error> {
        let Self { quantization, extents, codes, scales, zero_points, .. } = self;
        Ok(WeightValues {
            order: WeightOrder::Panels,
            quantization: *quantization,
            extents: *extents,
            codes: codes.to_bytes()?,
            scales: reference::decode(quantization.scales, &scales.to_bytes()?),
            zero_points: zero_points.as_ref().map(DeviceTensor::to_bytes).transpose()?.unwrap_or_default(),
        })
    }
}

impl fmt::Debug for WeightPanels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quantization, extents, .. } = self;
        f.debug_struct("WeightPanels")
            .field("quantization", quantization)
            .field("extents", extents)
            .finish_non_exhaustive()
    }
}
