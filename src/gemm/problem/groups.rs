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
//! Of weight gradients, K is what is divided: with A `[M, T]`, B `[T, N]` and offsets or ends along T, group `g` is the
//! product of its part of K, `[M, N]` like those of a batch, and all arguments are as with a batch.
//!
//! A row that no group has is neither read nor written. Positions are those in the tensors: `row()` counts the rows of A,
//! `rows()` is T (or Mmax), and `batch()` is the group.
//!
//! Values of bounds are not known where a run is checked. On the CPU a run reads them first, and refuses bounds that
//! decrease or lie outside. Kernels take such a bound for the nearest that does not, so that groups never overlap and nothing
//! outside is touched, and note it in the device's record. The same bits come out as of one run per group with the same tile.

use std::fmt;

use crate::evt::BroadcastClass;

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
    /// K counts the columns of one A and the rows of one B, which the groups share among them.
    Depth,
}

impl Grouping {
    /// Whether an argument of this class may have, or has, one value per batch.
    #[must_use]
    pub const fn is_per_batch(self, class: BroadcastClass) -> bool {
        match (self, class) {
            (Self::Shared, BroadcastClass::Tensor | BroadcastClass::ColumnVector) => false,
            (Self::None | Self::Shared | Self::Padded | Self::Depth, _) => true,
        }
    }

    /// What kernels are made for.
    #[must_use]
    pub const fn divided(self) -> Divided {
        match self {
            Self::None => Divided::Nothing,
            Self::Shared | Self::Padded => Divided::Rows,
            Self::Depth => Divided::Depth,
        }
    }
}

/// What a kernel divides into groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Divided {
    /// Nothing.
    #[default]
    Nothing,
    /// The rows of A.
    Rows,
    /// K.
    Depth,
}

impl fmt::Display for Divided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "no groups",
            Self::Rows => "groups of rows",
            Self::Depth => "groups of K",
        })
    }
}
