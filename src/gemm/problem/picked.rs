//! GEMMs that gather the rows of A (*picked* rows): an index has one number for each row of the product.
//!
//! Everything else is as without an index. Kernels look a row's number up while they multiply
//! (`picked.cuh` of each family). The CPU copies the rows first. A kernel for sm_90a may also
//! take a copy (`device/repack_rows.cuh`): if the model finds that faster, or if rows begin where cp.async cannot read
//! them.
//!
//! The index is data in the device's memory, like bounds of groups. A run checks its shape and type, and only the CPU
//! reads the numbers before anything is written. A kernel takes a number outside of A as a row of zeros, and notes it
//! in the device's record.

use epilogue_runtime::DeviceTensor;

use super::error::Error;
use super::groups::Grouping;
use super::layout::{Major, OperandView};
use super::rows_error::RowsError;
use crate::ElementType;

/// The tensor that picks rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Picked<'a> {
    pub(crate) index: &'a DeviceTensor,
}

impl Picked<'_> {
    /// The tensor's name in messages.
    pub(crate) const NAME: &'static str = "index";

    /// The number of rows of the product.
    ///
    /// # Errors
    /// [`RowsError::Index`], [`RowsError::Element`]; [`RowsError::Matrix`] for an A that is not one matrix, and
    /// [`RowsError::Major`] for one whose rows are not contiguous.
    pub(crate) fn rows(&self, a: &DeviceTensor, grouping: Option<Grouping>) -> Result<usize, Error> {
        let given = self.index.element_type();
        if given != ElementType::I32 {
            return Err(RowsError::Element { given }.into());
        }
        let [rows] = *self.index.shape() else {
            return Err(RowsError::Index { given: self.index.shape().to_vec() }.into());
        };
        if a.rank() != 2 || grouping == Some(Grouping::Padded) {
            return Err(RowsError::Matrix { given: a.shape().to_vec() }.into());
        }
        // One row may lie in any way.
        let view = OperandView::of_a(a);
        match view.only_major().filter(|_| view.outer_extent > 1) {
            Some(Major::Mn) => Err(RowsError::Major.into()),
            Some(Major::K) | None => Ok(rows),
        }
    }
}
