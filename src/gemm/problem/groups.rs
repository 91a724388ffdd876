//! Groups: GEMMs with different numbers of rows in one run, as the experts of a mixture of experts have.
//!
//! Bounds in the device's memory divide the rows of A into groups, so the router that computed them need not wait for
//! the host. Each group is one batch with its own number of rows: **the batch is the group**. Batched vectors, scalars
//! and B therefore have one entry per group, and so have reductions that leave a row vector or a scalar. With offsets
//! or ends, all groups share the arguments with rows (A, M×N tensors, column vectors): their batch stride is 0. With
//! counts, each group has matrices of its own.
//!
//! | bounds | A | M×N tensors, column vectors | rows of group `g` |
//! |---|---|---|---|
//! | `G + 1` offsets | `[T, K]` | `[T, N]`, `[T]` | from `offsets[g]` to `offsets[g + 1]` |
//! | `G` ends | `[T, K]` | `[T, N]`, `[T]` | from `ends[g - 1]` (0 for the first) to `ends[g]` |
//! | `G` counts | `[G, Mmax, K]` | `[G, Mmax, N]`, `[G, Mmax]` | the first `counts[g]` of matrix `g` |
//!
//! Weight gradients divide K instead. With A `[M, T]`, B `[T, N]` and offsets or ends along T, group `g` is the GEMM
//! over its part of K. Its result is `[M, N]`, and all arguments are as with a batch.
//!
//! A row that no group has is neither read nor written. Positions count in the tensors: `row()` counts the rows of A,
//! `rows()` is T (or Mmax), and `batch()` is the group.
//!
//! A run's check does not know the values of bounds. On the CPU, the run reads them first and refuses bounds that
//! decrease or lie outside. A kernel replaces a wrong bound by the nearest valid one and notes it in the device's
//! record. Groups then never overlap, and nothing outside is touched. The bits are those of one run per group with the
//! same tile.

use std::fmt;

/// How the rows of a product, or its K, are divided among its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Grouping {
    /// M counts the rows of one matrix, which the groups share among them.
    Shared,
    /// Every group has a matrix of M rows; its first rows are the group's.
    Padded,
    /// K counts the columns of one A and the rows of one B, which the groups share among them.
    Depth,
}

impl Grouping {
    /// The division that kernels are made for.
    #[must_use]
    pub const fn divided(self) -> Divided {
        match self {
            Self::Shared | Self::Padded => Divided::Rows,
            Self::Depth => Divided::Depth,
        }
    }
}

/// The extent that a kernel divides into groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Divided {
    /// The rows of A.
    Rows,
    /// K.
    Depth,
}

impl fmt::Display for Divided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rows => "groups of rows",
            Self::Depth => "groups of K",
        })
    }
}

/// The divided extent as text, or that nothing is divided.
pub(super) fn groups_of(divided: Option<Divided>) -> String {
    divided.map_or_else(|| "no groups".to_owned(), |divided| divided.to_string())
}
