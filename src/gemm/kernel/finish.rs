//! Where the phases of an epilogue are computed: in the tile, in a cluster's tiles, or in launches of their own.
//!
//! The key says it (`in_tile`, and a cluster along the lines), so all ways are candidates. The model ranks them by the
//! time of all launches; for clusters it counts the exchanges and the SMs that large clusters leave idle. Lines in
//! one tile have no use for a cluster along them, so a key needs no other flag.
//!
//! Not every GPU runs clusters of more than 8 blocks. Kernels ask the driver for them. The model takes them only if no
//! smaller cluster holds a line, with one cluster for each GPC. If a device has no room for the cluster, the plan is
//! made again among the kernels that every device can run.
//!
//! A run whose lines are longer than the plan's tile or cluster goes on in launches. If one value a line is all that
//! follows, the tail computes it (`emit/tail.rs`).

/// Where a GPU computes the phases of an epilogue that need its own reductions, as a softmax does. The model chooses;
/// [`Builder::finish`](crate::gemm::Builder::finish) asks for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finish {
    /// In the tile, one phase after another, in one launch and without M×N values in memory. Whole rows must lie in one
    /// tile: N is at most its number of columns, 256 or fewer. (For reductions along `Column`, M its rows or fewer.)
    Tile,
    /// In the tiles of a cluster, likewise in one launch: its blocks tell each other, after each phase, their parts of the
    /// reductions. Whole rows must lie in the tiles of a cluster's 2 to 16 blocks: N is at most 4096. (For reductions along
    /// `Column`, M.) Only kernels for sm_90a have clusters, and some of these GPUs cannot run more than 8 blocks
    /// together. K may be split, but not in [parallel](crate::gemm::SplitK::Parallel).
    Cluster,
    /// After the product, each in a launch of its own, over M×N values that the plan keeps in memory. (A sum of exponentials
    /// below a maximum is made with the maximum.)
    SecondLaunch,
}

/// Where the lines lie from which one launch computes all phases of an epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Within {
    /// In a tile.
    Tile,
    /// In the tiles of a cluster's blocks, together.
    Cluster,
}

impl Finish {
    /// Where a kernel finishes phases with these lines; `None` leaves them to other launches.
    pub(crate) const fn of(within: Option<Within>) -> Self {
        match within {
            Some(Within::Tile) => Self::Tile,
            Some(Within::Cluster) => Self::Cluster,
            None => Self::SecondLaunch,
        }
    }
}
