//! Where the phases of an epilogue are computed that are computed from its own reductions.

/// Where a GPU computes the phases of an epilogue that need its own reductions, as a softmax does. The model chooses;
/// [`Builder::finish`](crate::gemm::Builder::finish) asks for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finish {
    /// In the tile, one phase after another, in one launch and without M×N values in memory. Whole rows must lie in one
    /// tile: N is at most its number of columns, 256 or fewer. (For reductions along `Column`, M its rows or fewer.)
    Tile,
    /// After the product, each in a launch of its own, over M×N values that the plan keeps in memory.
    SecondLaunch,
}
