//! Groups: products of different numbers of rows in one run, as the experts of a mixture of experts are.
//!
//! The rows of A are divided into groups by bounds that lie in the device's memory, so that whoever computed them (a
//! router) need not wait for the host. A group is a product of the batch with its own number of rows: **the batch is the
//! group**. What is one per batch (B, row vectors, scalars, and the reductions that leave these) is one per group, and
//! what has rows (A, M×N tensors, column vectors) is:
//!
//! | bounds | A | M×N tensors, column vectors | rows of group `g` |
//! |---|---|---|---|
//! | `G + 1` offsets | `[T, K]` | `[T, N]`, `[T]` | from `offsets[g]` to `offsets[g + 1]` |
//! | `G` ends | `[T, K]` | `[T, N]`, `[T]` | from `ends[g - 1]` (0 for the first) to `ends[g]` |
//! | `G` counts | `[G, Mmax, K]` | `[G, Mmax, N]`, `[G, Mmax]` | the first `counts[g]` of matrix `g` |
//!
//! A row that no group has is neither read nor written. Positions are those in the tensors: `row()` counts the rows of A,
//! `rows()` is T (or Mmax), and `batch()` is the group.
//!
//! Values of bounds are not known where a run is checked. On the CPU a run reads them first, and refuses bounds that
//! decrease or lie outside; the same bits come out as of one run per group with the same tile.

use epilogue_runtime::DeviceTensor;

use super::error::Error;
use crate::ElementType;
use crate::evt::ShapeClass;

/// How the rows of a product are divided among its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Grouping {
    /// Not at all: every matrix has all M rows.
    #[default]
    None,
    /// M counts the rows of one matrix, which the groups share among them.
    Shared,
    /// Every group has a matrix of M rows, the first of which are the group's.
    Padded,
}

impl Grouping {
    /// Whether an argument of this class may have, or has, one value per batch.
    #[must_use]
    pub const fn is_per_batch(self, class: ShapeClass) -> bool {
        match (self, class) {
            (Self::Shared, ShapeClass::Tensor | ShapeClass::ColumnVector) => false,
            (Self::None | Self::Shared | Self::Padded, _) => true,
        }
    }
}

/// The meaning of a tensor that bounds groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    Offsets,
    Ends,
    Counts,
}

impl Form {
    /// What the tensor is called in messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Offsets => "offsets",
            Self::Ends => "ends",
            Self::Counts => "counts",
        }
    }
}

/// The tensor that bounds the groups of a product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds<'a> {
    pub(crate) tensor: &'a DeviceTensor,
    pub(crate) form: Form,
}

impl Bounds<'_> {
    /// How A is divided.
    pub(crate) const fn grouping(&self) -> Grouping {
        match self.form {
            Form::Offsets | Form::Ends => Grouping::Shared,
            Form::Counts => Grouping::Padded,
        }
    }

    /// How many groups there are.
    ///
    /// # Errors
    /// [`Error::GroupBounds`], [`Error::GroupBoundsElement`].
    pub(crate) fn groups(&self) -> Result<usize, Error> {
        let (name, shape) = (self.form.name(), self.tensor.shape());
        let given = self.tensor.element_type();
        if given != ElementType::I32 {
            return Err(Error::GroupBoundsElement { name, given });
        }
        match (self.form, shape) {
            (Form::Offsets, [length]) if *length > 0 => Ok(length - 1),
            (Form::Ends | Form::Counts, [length]) => Ok(*length),
            (Form::Offsets, _) => {
                Err(Error::GroupBounds { name, given: shape.to_vec(), needed: "[G + 1], for G groups" })
            }
            (Form::Ends | Form::Counts, _) => {
                Err(Error::GroupBounds { name, given: shape.to_vec(), needed: "[G], for G groups" })
            }
        }
    }
}
