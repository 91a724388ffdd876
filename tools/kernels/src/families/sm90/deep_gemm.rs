//! The tile that DeepGEMM chooses on an H100 or H200: its rule, restated from `csrc/jit_kernels/heuristics/sm90.hpp` of
//! deepseek-ai/DeepGEMM at 10747d4 (MIT). The rule counts bytes through the L2 and through shared memory, and waves.

use epilogue::gemm::Problem;
use epilogue::gemm::sm90::Cluster;

/// A kernel of another library: rows and columns of the product in a tile, and the blocks of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    pub(crate) tile: (usize, usize),
    pub(crate) cluster: Cluster,
    /// `None` if it is not known.
    pub(crate) stages: Option<usize>,
}

const MULTIPROCESSORS: usize = 132;
const SHARED_BYTES: usize = 232_448;
const MOST_STAGES: usize = 16;

/// Input of a choice: the product, and bytes of an operand's element. The result is of 2 bytes.
struct Rule {
    problem: Problem,
    size: usize,
}

impl Rule {
    const fn tile_k(&self) -> usize {
        128 / self.size
    }

    /// Scales of FP8 operands: each row of A has one for 128 of K, B one for 128x128. Bytes in a stage, and beside.
    fn scales(&self, (rows, columns): (usize, usize)) -> (usize, usize) {
        if self.size == 2 {
            return (0, 0);
        }
        let alike = if self.tile_k().is_multiple_of(columns) { 1 } else { 2 };
        let beside = (self.problem.k.div_ceil(self.tile_k()) * 4 * alike).next_multiple_of(8);
        ((rows * 4).next_multiple_of(128), beside)
    }

    fn stages(&self, (rows, columns): (usize, usize)) -> usize {
        let (in_stage, beside) = self.scales((rows, columns));
        let result = (rows * columns * 2).next_multiple_of(1024);
        let barriers = MOST_STAGES * 16;
        let stage = (rows + columns) * 128 + in_stage;
        (SHARED_BYTES.saturating_sub(result + barriers + beside) / stage).min(MOST_STAGES)
    }

    /// Whether the kernel exists.
    fn exists(&self, (rows, columns): (usize, usize)) -> bool {
        let k = self.tile_k();
        // Scales of B change within a tile that is wider than the k-tile.
        let beyond = columns.saturating_sub(k);
        let divides = beyond == 0 || columns.is_multiple_of(beyond) || k.is_multiple_of(beyond);
        let least = if rows * columns < 128 * 192 { 4 } else { 3 };
        (rows <= 128 || columns <= 128) && (self.size == 2 || divides) && self.stages((rows, columns)) >= least
    }

    /// Its word on a kernel's clocks: only their order has a meaning.
    #[expect(clippy::cast_possible_truncation, reason = "the rule computes in whole clocks")]
    fn clocks(&self, (rows, columns): (usize, usize), cluster: Cluster) -> i64 {
        let Problem { m, n, k, .. } = self.problem;
        let blocks = m.div_ceil(rows) * n.div_ceil(columns);
        let waves = blocks.div_ceil(MULTIPROCESSORS);
        if cluster.blocks() > 1 && waves <= 1 {
            return i64::MAX;
        }
        let result = rows * columns * 2;
        let l2 = k * (rows / cluster.n + columns / cluster.m) * self.size + result;
        let written = k * (rows + columns) * self.size + result;
        let read = k * (rows.max(64) + columns) * self.size + result;
        let l2_rate = (8e6 / 1.3e3) as usize;
        let clocks = (l2 * blocks / l2_rate).max((written + read) * blocks / (128 * MULTIPROCESSORS));
        let efficiency = blocks as f32 / (waves * MULTIPROCESSORS) as f32;
        (clocks as f32 / efficiency) as i64
    }
}

/// The choice for a product; `None` if no kernel is possible. The first of equals is taken.
pub(crate) fn choose(problem: Problem, element_size: usize) -> Option<Pick> {
    let rule = Rule { problem, size: element_size };
    let mut rows = vec![64, 128];
    rows.extend([16, 32].into_iter().filter(|few| problem.m <= *few));
    rows.push(256);
    let widest = if element_size == 2 { 256 } else { 192 };
    let clusters = [(1, 1), (1, 2), (2, 1)].map(|(m, n)| Cluster { m, n });
    let tiles = rows.iter().flat_map(|m| (16..=widest).step_by(16).map(move |n| (*m, n)));
    let tiles: Vec<_> = tiles.filter(|tile| rule.exists(*tile)).collect();
    let all = clusters.iter().flat_map(|cluster| tiles.iter().map(move |tile| (*tile, *cluster)));
    let (tile, cluster) = all.min_by_key(|(tile, cluster)| rule.clocks(*tile, *cluster))?;
    Some(Pick { tile, cluster, stages: Some(rule.stages(tile)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 128x256 in clusters of two reads 32 bytes of the L2 per clock, and 512 tiles are 3.9 waves; shared
    /// memory has (232448 - 65536 - 256) / 49152 = 3 stages beside the result.
    #[test]
    fn a_large_square_is_chosen_as_by_hand() {
        let pick = choose(Problem::new(4096, 4096, 4096), 2).expect("a kernel");
        assert!(pick.cluster.blocks() == 2 && pick.tile.0 * pick.tile.1 == 128 * 256, "{pick:?}");
        assert_eq!(pick.stages, Some(3));
        // One wave: no cluster.
        assert_eq!(choose(Problem::new(64, 4096, 4096), 2).expect("a kernel").cluster, Cluster::NONE);
    }
}
