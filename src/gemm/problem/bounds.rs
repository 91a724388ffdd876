//! The tensors that bound groups.

use epilogue_runtime::DeviceTensor;

use super::error::Error;
use super::groups::Grouping;
use super::groups_error::GroupsError;
use crate::ElementType;

/// The meaning of a tensor that bounds groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BoundsForm {
    Offsets,
    Ends,
    Counts,
}

impl BoundsForm {
    /// The tensor's name in messages.
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
    pub(crate) form: BoundsForm,
    /// Whether they are bounds of K, not of rows.
    pub(crate) of_depth: bool,
}

impl Bounds<'_> {
    /// How A is divided.
    pub(crate) const fn grouping(&self) -> Grouping {
        match self.form {
            BoundsForm::Offsets | BoundsForm::Ends if self.of_depth => Grouping::Depth,
            BoundsForm::Offsets | BoundsForm::Ends => Grouping::Shared,
            BoundsForm::Counts => Grouping::Padded,
        }
    }

    /// How many groups there are.
    ///
    /// # Errors
    /// [`GroupsError::Bounds`], [`GroupsError::BoundsElement`].
    pub(crate) fn groups(&self) -> Result<usize, Error> {
        let (name, shape) = (self.form.name(), self.tensor.shape());
        let given = self.tensor.element_type();
        if given != ElementType::I32 {
            return Err(GroupsError::BoundsElement { name, given }.into());
        }
        match (self.form, shape) {
            (BoundsForm::Offsets, [length]) if *length > 0 => Ok(length - 1),
            (BoundsForm::Ends | BoundsForm::Counts, [length]) => Ok(*length),
            (BoundsForm::Offsets, _) => {
                Err(GroupsError::Bounds { name, given: shape.to_vec(), needed: "[G + 1], for G groups" }.into())
            }
            (BoundsForm::Ends | BoundsForm::Counts, _) => {
                Err(GroupsError::Bounds { name, given: shape.to_vec(), needed: "[G], for G groups" }.into())
            }
        }
    }
}
