//! The workload that a kernel for sm_90a is chosen for.

use crate::evt::{ValidTree, WholeLines};
use crate::gemm::families::sm90::kernel::{Sm90Key, TensorCores, Units, Wgmma};
use crate::gemm::kernel::Within;
use crate::gemm::problem::{OperandLayout, Problem};

/// The work for which a kernel is chosen.
#[derive(Clone, Copy, Debug)]
pub struct Workload<'a> {
    /// Extents; of groups, as if all had equally many rows, or an equal part of K; of patches, with the channels of each
    /// element of the window in whole k-tiles. If rows are copied before the product, none are picked in it.
    pub problem: Problem,
    /// The tensor cores that multiply.
    pub cores: TensorCores,
    /// The instruction that multiplies.
    pub instruction: Wgmma,
    /// The layout of A.
    pub a: OperandLayout,
    /// The layout of B.
    pub b: OperandLayout,
    /// Whether FP8 products are summed in the tensor cores over all of K.
    pub fast_fp8: bool,
    /// The epilogue: of several phases, the first, or [all](crate::evt::InTile::tree).
    pub tree: &'a ValidTree,
    /// If it is all phases: the lines that must lie whole, and where.
    pub lines: Option<(WholeLines, Within)>,
    /// The part of the product that elements need: 1 for all of it. Kernels leave out tiles that need nothing.
    pub needed: f64,
}

impl Workload<'_> {
    /// The lines that must lie whole in the tiles of a cluster.
    pub(crate) fn in_cluster(&self) -> Option<WholeLines> {
        self.lines.filter(|(_, within)| *within == Within::Cluster).map(|(lines, _)| lines)
    }

    /// Whether lines that must lie whole do in a kernel. Lines in a cluster's tiles are in no tile.
    pub(crate) fn lines_fit(&self, key: &Sm90Key) -> bool {
        let Some((lines, within)) = self.lines else { return true };
        let extents = (self.problem.m, self.problem.n);
        let spread = within == Within::Tile || !lines.fit(key.product_tile(), extents);
        key.within() == Some(within) && spread && lines.fit(key.line_tile(), extents)
    }

    /// The work of a kernel, as far as it is known: of groups, on average half a row of clusters of each is not used.
    pub(crate) fn units(&self, key: &Sm90Key, splits: usize) -> Units {
        let Problem { m, batch, reading, .. } = self.problem;
        let units = Units::of(key, &self.problem, splits);
        if !reading.divides_rows() {
            return units;
        }
        let rows = key.product_tile().0 * key.cluster.m;
        let used = (m.saturating_mul(batch) / rows).saturating_add(batch / 2);
        Units { batch: used.max(batch), ..units }
    }
}
