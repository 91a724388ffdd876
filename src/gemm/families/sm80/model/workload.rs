//! The workload that a kernel for sm_80 and later is chosen for.

use crate::evt::{self, WholeLines};
use crate::gemm::families::sm80::kernel::{Instruction, Tile};
use crate::gemm::problem::{OperandLayout, Problem};

/// The work for which a kernel is chosen.
#[derive(Clone, Debug)]
pub struct Workload<'a> {
    /// Extents.
    pub problem: Problem,
    /// The instruction that multiplies.
    pub instruction: Instruction,
    /// The layout of A.
    pub a: OperandLayout,
    /// The layout of B.
    pub b: OperandLayout,
    /// The cost of the epilogue: of several phases, of the first, or of [all](evt::InTile::tree).
    pub epilogue: &'a evt::Cost,
    /// If it is all phases: the lines that must lie in one tile.
    pub lines: Option<WholeLines>,
    /// The part of the product that elements need: 1 for all of it. Kernels leave out tiles that need nothing.
    pub needed: f64,
}

impl Workload<'_> {
    /// The number of tiles of all batches. An empty matrix has one, which writes the reductions' identities.
    pub(crate) fn tiles(&self, tile: Tile) -> u128 {
        let along = |extent: usize, tile: usize| extent.div_ceil(tile).max(1) as u128;
        let Problem { m, n, batch, .. } = self.problem;
        along(m, tile.m) * along(n, tile.product_columns(self.epilogue.products())) * batch as u128
    }
}
