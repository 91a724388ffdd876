//! The state of the code of a tile, while it is written.

use super::body::JitValue;
use super::isa::{Address, Vector};
use super::tile::TileShape;

/// The totals of a tile, and where its operands are.
#[derive(Clone, Debug)]
pub(super) struct InTile {
    pub(super) shape: TileShape,
    pub(super) rows: Address,
    pub(super) columns: Address,
    /// The first of the registers of totals.
    pub(super) first: usize,
    /// For each value of the round that a total is set to: the total's register, and the old value that is in it.
    pub(super) into: Vec<Option<(Vector, Option<JitValue>)>>,
}

impl InTile {
    pub(super) const fn shape(&self) -> TileShape {
        self.shape
    }
}
