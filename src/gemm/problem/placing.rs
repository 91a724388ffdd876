//! GEMMs that scatter the rows of results: an index says to which row of an output each row goes.
//!
//! The outputs may have any number of rows. In a kernel only the type of their fields differs (`device/scattered.cuh`),
//! in every part and in both families; on sm_90a lanes store them. The CPU computes the rows in their order, then
//! copies them.
//!
//! A run checks the shape and type of the index. Only the CPU reads its numbers before anything is written. A kernel
//! does not write a row whose number is outside of the output, and notes it in the device's record.

use epilogue_runtime::DeviceTensor;

use super::scatter_error::ScatterError;
use crate::ElementType;

/// Where the rows of results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Placing {
    /// In their order.
    #[default]
    InOrder,
    /// Where an index [says](super::grouped::Rows::scattered).
    Scattered,
}

impl Placing {
    /// Whether an index places the rows.
    #[must_use]
    pub const fn is_scattered(self) -> bool {
        matches!(self, Self::Scattered)
    }
}

/// The tensor that places rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scattered<'a> {
    pub(crate) index: &'a DeviceTensor,
}

impl Scattered<'_> {
    /// The tensor's name in messages.
    pub(crate) const NAME: &'static str = "places";

    /// Whether it has a number for each of a product's rows.
    ///
    /// # Errors
    /// [`ScatterError::Element`], [`ScatterError::Index`].
    pub(crate) fn check(&self, rows: usize) -> Result<(), ScatterError> {
        match self.index.element_type() {
            ElementType::I32 if self.index.shape() == [rows] => Ok(()),
            ElementType::I32 => Err(ScatterError::Index { given: self.index.shape().to_vec(), rows }),
            given => Err(ScatterError::Element { given }),
        }
    }
}
