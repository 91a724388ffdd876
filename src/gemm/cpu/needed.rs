//! Tiles that need no product, by their positions and the integers of the run.

use super::Run;
use super::tile::Tile;
use crate::evt::{Conditions, ParameterId, Rectangle};
use crate::lane::element::Loaded as _;

impl Run<'_> {
    /// Whether any element of the tile needs an accumulator, by the tree's conditions.
    ///
    /// # Safety
    /// The scalars' views must reach their elements, and no thread may write them meanwhile.
    pub(super) unsafe fn needs_product(&self, conditions: Option<&Conditions>, tile: &Tile) -> bool {
        let Some(conditions) = conditions.filter(|_| !tile.rows.is_empty() && !tile.columns.is_empty()) else {
            return true;
        };
        let scalar = |parameter: ParameterId| {
            let (view, mut value) = (&self.parameters[parameter.index()], [0]);
            // SAFETY: the caller's promise.
            unsafe { i64::load(view.element, view.at(tile.batch, 0, 0), 1, &mut value) };
            Some(value[0])
        };
        let (rows, columns, batch) = (tile.rows.clone(), tile.columns.clone(), tile.batch);
        let extents = [self.extents.m, self.extents.n];
        Rectangle { rows, columns, batch, extents, scalar }.needs_product(self.tree, conditions)
    }
}
