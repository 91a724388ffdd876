//! The part of a reading that a kernel's text depends on.

use std::fmt;

use epilogue_runtime::Site;

use crate::gemm::problem::{Divided, Major, Reading, ReadingOf};

/// How a kernel reads A: a [`Reading`] without what runs may change.
pub type ReadingShape = ReadingOf<Divided, PatchShape>;

/// How a kernel reads patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PatchShape {
    /// The place of a patch in A.
    pub kind: PatchKind,
    /// The axes of the images that the kernel counts.
    pub axes: usize,
}

/// A patch's place in A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PatchKind {
    /// A row of A.
    Row,
    /// A column of A.
    Transposed,
    /// A row of A, with zeros between the images' elements.
    Dilated,
}

impl ReadingShape {
    /// The shape of a reading of an A that is contiguous along `a`. Patches have this many axes.
    #[must_use]
    pub const fn of(reading: Reading, a: Major, axes: usize) -> Self {
        match (reading, a) {
            (Reading::Rows, _) => Self::Rows,
            (Reading::Picked, _) => Self::Picked,
            (Reading::Groups(grouping), _) => Self::Groups(grouping.divided()),
            (Reading::PickedGroups, _) => Self::PickedGroups,
            (Reading::Patches(_), Major::Mn) => Self::Patches(PatchShape { kind: PatchKind::Transposed, axes }),
            (Reading::Patches(patches), Major::K) => {
                let kind = if patches.dilated { PatchKind::Dilated } else { PatchKind::Row };
                Self::Patches(PatchShape { kind, axes })
            }
        }
    }

    /// Whether patches are columns.
    #[must_use]
    pub const fn is_transposed(self) -> bool {
        matches!(self, Self::Patches(PatchShape { kind: PatchKind::Transposed, .. }))
    }

    /// The error sites of a kernel: the bounds of groups, then the index that picks rows.
    pub(crate) fn sites(self) -> impl Iterator<Item = Site> {
        let index = self.is_picked().then(|| Site::Index { tensor: "A".to_owned(), dimension: 0 });
        self.divided().map(|_| Site::Bound).into_iter().chain(index)
    }

    /// The error site that a kernel reports for an out-of-range row index.
    pub(crate) fn index_site(self) -> usize {
        if self.divided().is_some() { 1 } else { 0 }
    }
}

/// Groups and picked rows, each behind a comma. Families say themselves what their patches are.
impl fmt::Display for ReadingShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(divided) = self.divided() {
            write!(f, ", {divided}")?;
        }
        f.write_str(if self.is_picked() { ", picked rows" } else { "" })
    }
}
