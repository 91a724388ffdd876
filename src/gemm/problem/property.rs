//! The one table of properties that exclude each other, which [`supports`](crate::gemm::supports) prints.
//!
//! A [`Reading`] has no value for most of these pairs. Builders are asked for one property after another, so they remember
//! what was asked, and a plan is refused.

use std::fmt;

use super::error::Error;
use super::groups::{Divided, Grouping};
use super::groups_error::GroupsError;
use super::patch_error::PatchError;
use super::reading::Reading;
use super::rows_error::RowsError;
use super::scale_error::ScaleError;
use super::scatter_error::ScatterError;

/// A property of a product that excludes others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Property {
    /// An epilogue that is computed from its own reductions.
    Phases,
    /// A is [patches](super::window::patches) of images.
    Patches,
    /// Groups of one matrix's [rows](super::grouped::rows).
    Groups,
    /// Groups with a matrix each.
    PaddedGroups,
    /// Groups of [K](super::grouped::depth).
    DepthGroups,
    /// An index [picks](super::grouped::Rows::picked) the rows of A.
    PickedRows,
    /// A batch of matrices.
    Batch,
    /// An index [places](super::grouped::Rows::scattered) the rows of results.
    ScatteredRows,
    /// FP8 operands with [scales of blocks](super::scaled::Scaled).
    BlockScales,
}

impl Property {
    /// All properties. If several pairs exclude each other, the pair with the earliest second property is reported.
    pub const ALL: [Self; 9] = [
        Self::Phases,
        Self::Patches,
        Self::Groups,
        Self::PaddedGroups,
        Self::DepthGroups,
        Self::PickedRows,
        Self::Batch,
        Self::ScatteredRows,
        Self::BlockScales,
    ];

    /// The extent that is divided into groups.
    const fn divided(self) -> Option<Divided> {
        match self {
            Self::Groups | Self::PaddedGroups => Some(Divided::Rows),
            Self::DepthGroups => Some(Divided::Depth),
            _ => None,
        }
    }

    /// The property of a GEMM with these groups.
    const fn of_groups(grouping: Grouping) -> Self {
        match grouping {
            Grouping::Shared => Self::Groups,
            Grouping::Padded => Self::PaddedGroups,
            Grouping::Depth => Self::DepthGroups,
        }
    }

    /// Why a product, with this epilogue, can't have both; `None` if it can.
    fn excludes(self, later: Self, epilogue: &'static str) -> Option<Error> {
        let refused = |what| match later {
            Self::ScatteredRows => ScatterError::Product { what }.into(),
            Self::BlockScales => ScaleError::With { what }.into(),
            _ => RowsError::Groups { what }.into(),
        };
        Some(match (self, later, later.divided()) {
            (Self::Phases, _, Some(divided)) => GroupsError::Phases { epilogue, divided }.into(),
            (Self::Patches, _, Some(divided)) => PatchError::Groups { divided }.into(),
            (Self::Patches, Self::PickedRows, _) => PatchError::Picked.into(),
            (Self::Patches, Self::ScatteredRows, _) => refused("patches of images as A"),
            (Self::Patches, Self::BlockScales, _) => refused("patches of images"),
            (Self::PaddedGroups, Self::PickedRows | Self::ScatteredRows, _) => refused("groups of a matrix each"),
            (Self::DepthGroups, Self::PickedRows | Self::ScatteredRows | Self::BlockScales, _) => {
                refused("groups of K")
            }
            (Self::PickedRows, Self::BlockScales, _) => refused("rows that an index picks"),
            (Self::Batch, Self::ScatteredRows, _) => refused("a batch of matrices"),
            _ => return None,
        })
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Phases => "own reductions",
            Self::Patches => "patches",
            Self::Groups => "groups of rows",
            Self::PaddedGroups => "groups of a matrix each",
            Self::DepthGroups => "groups of K",
            Self::PickedRows => "picked rows",
            Self::Batch => "batch",
            Self::ScatteredRows => "scattered rows",
            Self::BlockScales => "block scales",
        })
    }
}

/// Some properties, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Properties(u16);

impl Properties {
    /// Properties of a reading, with a batch or without.
    pub(crate) fn of_reading(reading: Reading, batched: bool) -> Self {
        match reading {
            Reading::Patches(_) => Self::default().with(Property::Patches, true),
            Reading::Rows | Reading::Picked | Reading::Groups(_) | Reading::PickedGroups => {
                let groups = reading.grouping().map(Property::of_groups).or_else(|| batched.then_some(Property::Batch));
                let of_groups = groups.map_or(Self::default(), |groups| Self::default().with(groups, true));
                of_groups.with(Property::PickedRows, reading.is_picked())
            }
        }
    }

    /// These, and one more if it is there.
    pub(crate) const fn with(self, property: Property, is_there: bool) -> Self {
        Self(self.0 | (is_there as u16) << property as u16)
    }

    /// These and others.
    pub(crate) const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// These with one that was asked for; of several groups the last ones count.
    pub(crate) fn asked(self, property: Property) -> Self {
        let groups = |of: &Property| property.divided().is_some() && of.divided().is_some();
        let replaced = Property::ALL.into_iter().filter(groups).fold(0, |bits, of| bits | 1 << of as u16);
        Self(self.0 & !replaced).with(property, true)
    }

    const fn has(self, property: Property) -> bool {
        self.0 >> property as u16 & 1 == 1
    }

    /// Whether a product can have all of them; `phases` names an epilogue that is computed from its own reductions.
    ///
    /// # Errors
    /// Why the first pair exclude each other.
    pub(crate) fn check(self, phases: Option<&'static str>) -> Result<(), Error> {
        let these = self.with(Property::Phases, phases.is_some());
        let epilogue = phases.unwrap_or("the epilogue");
        let all = || Property::ALL.into_iter().filter(|property| these.has(*property));
        let mut pairs = all().flat_map(|later| all().take_while(move |x| *x < later).map(move |x| (x, later)));
        let why = pairs.find_map(|(x, later)| x.excludes(later, epilogue));
        why.map_or(Ok(()), Err)
    }
}
