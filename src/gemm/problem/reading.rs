//! How A is read, as one value: the rows of the product, and the batch, that a kernel finds in A's memory.
//!
//! | reading | rows of A | batch |
//! |---|---|---|
//! | rows | in their order | matrices |
//! | picked | named by an index, of one matrix | copies of B |
//! | groups | divided by bounds; or K is | groups |
//! | picked groups | named by an index, then divided by bounds | groups |
//! | patches | patches of images: rows, columns, or those of a gradient | groups of channels |
//!
//! Three types have these variants. Each adds what its layer knows, so no layer carries a flag. The last two are one
//! [`ReadingOf`]:
//!
//! | type | layer | adds |
//! |---|---|---|
//! | [`TensorReading`] | an operand and a run | tensors |
//! | [`Reading`] | a product | how groups and patches lie |
//! | [`ReadingShape`](crate::gemm::kernel::shape::ReadingShape) | a kernel | nothing: its text depends on no more |
//!
//! The scales of an operand are its [format](super::format). An index that places rows is of the [results](super::placing).
//! [`Property`](super::property) says which of these exclude each other.

use super::bounds::Bounds;
use super::groups::{Divided, Grouping};
use super::patch_boxes::{PatchBoxes, Unboxed};
use super::picked::Picked;
use crate::evt::BroadcastClass;

/// How A is read. `G` says how groups lie, `P` how patches do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ReadingOf<G, P> {
    /// The rows of matrices, in their order.
    #[default]
    Rows,
    /// Rows that an index [picks](super::grouped::Rows::picked) from one matrix.
    Picked,
    /// Rows, or K, divided into groups, which are the batch.
    Groups(G),
    /// Rows that an index picks from one matrix, divided into groups.
    PickedGroups,
    /// [Patches](super::window::patches) of images.
    Patches(P),
}

/// How the A of a product is read.
pub type Reading = ReadingOf<Grouping, PatchReading>;

/// How patches of images are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PatchReading {
    /// Elements of the images; with [groups](super::window::Window::groups) of channels, those of one. `None` counts those of
    /// the patches.
    pub elements: Option<usize>,
    /// How tensor copies load these patches, or why they don't.
    pub boxes: Result<PatchBoxes, Unboxed>,
    /// Whether zeros lie between the images' elements, as in the [gradient](super::gradients::gradient_patches) of images over
    /// which a window moved by more than 1.
    pub dilated: bool,
}

/// How a layer describes groups.
pub trait Groups: Copy {
    /// Groups of picked rows.
    const OF_PICKED: Self;

    /// The extent that is divided into groups.
    #[must_use]
    fn divided(self) -> Divided;
}

impl Groups for Grouping {
    const OF_PICKED: Self = Self::Shared;

    fn divided(self) -> Divided {
        Self::divided(self)
    }
}

impl Groups for Divided {
    const OF_PICKED: Self = Self::Rows;

    fn divided(self) -> Divided {
        self
    }
}

impl<G: Groups, P: Copy> ReadingOf<G, P> {
    /// Whether an index picks the rows.
    #[must_use]
    pub const fn is_picked(self) -> bool {
        matches!(self, Self::Picked | Self::PickedGroups)
    }

    /// How rows or K are divided; `None` without groups.
    #[must_use]
    pub const fn grouping(self) -> Option<G> {
        match self {
            Self::Groups(grouping) => Some(grouping),
            Self::PickedGroups => Some(G::OF_PICKED),
            Self::Rows | Self::Picked | Self::Patches(_) => None,
        }
    }

    /// The extent that is divided into groups.
    #[must_use]
    pub fn divided(self) -> Option<Divided> {
        self.grouping().map(G::divided)
    }

    /// Whether rows are divided into groups.
    #[must_use]
    pub fn divides_rows(self) -> bool {
        self.divided() == Some(Divided::Rows)
    }

    /// How patches are read, if A is patches.
    #[must_use]
    pub const fn patches(self) -> Option<P> {
        match self {
            Self::Patches(patches) => Some(patches),
            _ => None,
        }
    }

    /// The reading after a copy of the rows that an index picks.
    #[must_use]
    pub const fn in_order(self) -> Self {
        match self {
            Self::Picked => Self::Rows,
            Self::PickedGroups => Self::Groups(G::OF_PICKED),
            other => other,
        }
    }
}

impl Reading {
    /// Whether an argument of this class may have, or has, one value per batch.
    #[must_use]
    pub const fn is_per_batch(self, class: BroadcastClass) -> bool {
        match (self.grouping(), class) {
            (Some(Grouping::Shared), BroadcastClass::Tensor | BroadcastClass::ColumnVector) => false,
            (_, _) => true,
        }
    }

    /// The reading with rows that an index picks.
    pub(crate) const fn picked(self) -> Self {
        match self {
            Self::Groups(_) | Self::PickedGroups => Self::PickedGroups,
            Self::Rows | Self::Picked | Self::Patches(_) => Self::Picked,
        }
    }

    /// The reading divided into groups.
    pub(crate) const fn divided_by(self, grouping: Grouping) -> Self {
        match (self, grouping) {
            (Self::Picked | Self::PickedGroups, Grouping::Shared) => Self::PickedGroups,
            (_, _) => Self::Groups(grouping),
        }
    }
}

/// How A is read, with the tensors that say so: of a user's operand, with a window (`W`) as it was given; of a run, with the
/// patches under it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TensorReading<'a, W> {
    Rows,
    Picked(Picked<'a>),
    Groups(Bounds<'a>),
    PickedGroups(Picked<'a>, Bounds<'a>),
    Patches(W),
}

impl<'a, W: Copy> TensorReading<'a, W> {
    /// The index that picks the rows.
    pub(crate) const fn picked(&self) -> Option<Picked<'a>> {
        match self {
            Self::Picked(picked) | Self::PickedGroups(picked, _) => Some(*picked),
            Self::Rows | Self::Groups(_) | Self::Patches(_) => None,
        }
    }

    /// The bounds of groups.
    pub(crate) const fn bounds(&self) -> Option<Bounds<'a>> {
        match self {
            Self::Groups(bounds) | Self::PickedGroups(_, bounds) => Some(*bounds),
            Self::Rows | Self::Picked(_) | Self::Patches(_) => None,
        }
    }

    /// The window, or the patches under it.
    pub(crate) const fn patches(&self) -> Option<W> {
        match self {
            Self::Patches(patches) => Some(*patches),
            _ => None,
        }
    }

    /// This reading, with patches that are made of the window.
    ///
    /// # Errors
    /// As `patches`.
    pub(crate) fn with_patches<P, E>(self, patches: impl FnOnce(W) -> Result<P, E>) -> Result<TensorReading<'a, P>, E> {
        Ok(match self {
            Self::Rows => TensorReading::Rows,
            Self::Picked(picked) => TensorReading::Picked(picked),
            Self::Groups(bounds) => TensorReading::Groups(bounds),
            Self::PickedGroups(picked, bounds) => TensorReading::PickedGroups(picked, bounds),
            Self::Patches(window) => TensorReading::Patches(patches(window)?),
        })
    }

    /// The tensors, in the order of a launch's arguments.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = &'a epilogue_runtime::DeviceTensor> + use<'a, W> {
        let bounds = self.bounds().map(|bounds| bounds.tensor);
        bounds.into_iter().chain(self.picked().map(|picked| picked.index))
    }
}
