//! How K is shared among blocks.

use std::fmt;

/// Why K is not split.
pub(crate) const UNSPLIT_GROUPS: &str = "products with groups don't split K: leave `.split_k(…)` out";

/// How K is shared among blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum SplitK {
    /// One block computes all of K.
    #[default]
    None,
    /// This many blocks take turns at a running sum.
    Serial(usize),
    /// This many blocks store their sums; the last to finish adds them.
    Parallel(usize),
    /// Stream-K: if the tiles don't fill a whole number of waves, the tiles of the last waves are cut evenly among all
    /// blocks.
    Stream,
}

impl SplitK {
    /// The number of blocks that share each tile; 1 for stream-K, which varies it from tile to tile.
    #[must_use]
    pub const fn splits(self) -> usize {
        match self {
            Self::None | Self::Stream => 1,
            Self::Serial(n) | Self::Parallel(n) => n,
        }
    }
}

impl fmt::Display for SplitK {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no split-K"),
            Self::Serial(n) => write!(f, "serial split-K by {n}"),
            Self::Parallel(n) => write!(f, "parallel split-K by {n}"),
            Self::Stream => f.write_str("stream-K, which cuts the tiles of the last, partial wave along K"),
        }
    }
}

/// [`SplitK`] without its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SplitKind {
    /// One block computes all of K.
    None,
    /// Blocks take turns at a running sum.
    Serial,
    /// The last block adds all sums.
    Parallel,
    /// The tiles of the last waves are cut evenly among all blocks.
    Stream,
}

impl From<SplitK> for SplitKind {
    fn from(split_k: SplitK) -> Self {
        match split_k {
            SplitK::None => Self::None,
            SplitK::Serial(_) => Self::Serial,
            SplitK::Parallel(_) => Self::Parallel,
            SplitK::Stream => Self::Stream,
        }
    }
}
