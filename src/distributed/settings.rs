//! Settings of products of several ranks.

use crate::gemm::Arithmetic;

/// Settings that both kinds of products have, and `D`, which only one of them has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings<D> {
    pub(super) divided: D,
    pub(super) chunks: Option<usize>,
    pub(super) arithmetic: Arithmetic,
    pub(super) always_agree: bool,
}

impl<D> Settings<D> {
    /// The number of chunks of rows: while the ranks exchange one, another is multiplied. By default 4 from 1024 rows on,
    /// if the epilogue allows it. Rows that are gathered are those of each rank.
    #[must_use]
    pub fn chunks(mut self, chunks: usize) -> Self {
        self.chunks = Some(chunks.max(1));
        self
    }

    /// How the product is computed.
    #[must_use]
    pub fn arithmetic(mut self, arithmetic: Arithmetic) -> Self {
        self.arithmetic = arithmetic;
        self
    }

    /// With NCCL, whether ranks agree at every run and not only at the first of a shape: for looking for a mistake. It waits
    /// for the GPU.
    #[must_use]
    pub fn always_agree(mut self, always_agree: bool) -> Self {
        self.always_agree = always_agree;
        self
    }
}
