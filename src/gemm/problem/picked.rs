//! Products whose rows an index picks from A.
//!
//! The index is data in the device's memory, as bounds of groups are: a run checks its shape and its type; its numbers are
//! read before anything is written on the CPU only. A kernel takes a number that is not a row's as a row of zeros, and notes
//! it in the device's record.

use epilogue_runtime::DeviceTensor;

use super::error::Error;
use super::groups::Grouping;
use super::layout::{Major, OperandLayout, OperandView};
use super::rows_error::RowsError;
use crate::ElementType;

/// The tensor that picks rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Picked<'a> {
    pub(crate) index: &'a DeviceTensor,
}

impl Picked<'_> {
    /// What the tensor is called in messages.
    pub(crate) const NAME: &'static str = "index";

    /// The number of rows of the product.
    ///
    /// # Errors
    /// [`RowsError::Index`], [`RowsError::Element`]; [`RowsError::Matrix`] for an A that is not one matrix, and
    /// [`RowsError::Major`] for one whose rows are not contiguous.
    pub(crate) fn rows(&self, a: &DeviceTensor, grouping: Grouping) -> Result<usize, Error> {
        let given = self.index.element_type();
        if given != ElementType::I32 {
            return Err(RowsError::Element { given }.into());
        }
        let [rows] = *self.index.shape() else {
            return Err(RowsError::Index { given: self.index.shape().to_vec() }.into());
        };
        if a.rank() != 2 || grouping == Grouping::Padded {
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

/// Whether rows may be picked from an A that lies so, in such groups.
///
/// # Errors
/// [`RowsError::Major`], [`RowsError::Groups`].
pub(crate) fn check(layout: OperandLayout, grouping: Grouping) -> Result<(), RowsError> {
    match (grouping, layout.major) {
        (Grouping::Padded, _) => Err(RowsError::Groups { what: "groups of a matrix each" }),
        (Grouping::Depth, _) => Err(RowsError::Groups { what: "groups of K" }),
        (Grouping::None | Grouping::Shared, Major::Mn) => Err(RowsError::Major),
        (Grouping::None | Grouping::Shared, Major::K) => Ok(()),
    }
}
