//! How tiles are assigned to blocks: the host's side of `src/device/sm90/scheduler.cuh`.

use super::key::{Cluster, Raster, Sm90Key};
use crate::gemm::kernel::tiles::Tiled;
use crate::gemm::problem::{Divided, Problem};

/// The work of one launch: clusters of tiles, in all batches and all splits of K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units {
    /// Tiles along M; at least 1.
    pub tiles_m: usize,
    /// Tiles along N; at least 1.
    pub tiles_n: usize,
    /// The number of products in the batch.
    pub batch: usize,
    /// Parts of K.
    pub splits: usize,
    /// The tiles that one cluster of blocks computes together.
    pub cluster: Cluster,
    /// The order of the tiles.
    pub raster: Raster,
}

/// A block's part of one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// The part of K.
    pub split: usize,
    /// The index in the batch.
    pub batch: usize,
    /// The tile along M; beyond the last one if the number of tiles is not a multiple of the cluster's.
    pub tile_m: usize,
    /// Tile along N; likewise.
    pub tile_n: usize,
}

impl Units {
    /// The work of a kernel on a problem. For groups of rows it is the most that there can be, and every row of clusters
    /// is a product of the batch.
    #[must_use]
    pub fn of(key: &Sm90Key, problem: &Problem, splits: usize) -> Self {
        let (tiles_m, tiles_n) = Tiled::of(problem, key.product_tile(), (key.cluster.m, key.cluster.n)).tiles();
        let (tiles_m, batch) = match problem.reading.divided() {
            Some(Divided::Rows) => (key.cluster.m, tiles_m / key.cluster.m),
            None | Some(Divided::Depth) => (tiles_m, problem.batch),
        };
        Self { tiles_m, tiles_n, batch, splits, cluster: key.cluster, raster: key.raster }
    }

    /// Clusters of tiles of one product, along M and along N.
    #[must_use]
    pub const fn clusters(&self) -> (usize, usize) {
        (self.tiles_m.div_ceil(self.cluster.m), self.tiles_n.div_ceil(self.cluster.n))
    }

    /// The number of units.
    #[must_use]
    pub const fn count(&self) -> u128 {
        let (m, n) = self.clusters();
        m as u128 * n as u128 * self.batch as u128 * self.splits as u128
    }

    /// The part of unit `unit` that the block of rank `rank` in its cluster computes.
    #[must_use]
    pub fn turn(&self, unit: usize, rank: usize) -> Turn {
        let (clusters_m, clusters_n) = self.clusters();
        let of_product = clusters_m * clusters_n;
        let of_all = unit % (of_product * self.batch);
        let index = of_all % of_product;
        // Groups of tiles along one axis are walked along the other axis; the loop over groups is the outer one.
        let (grouped, walked) = if self.raster.along_n { (clusters_n, clusters_m) } else { (clusters_m, clusters_n) };
        let group = index / (self.raster.group * walked);
        let in_group = index % (self.raster.group * walked);
        let members = (grouped - group * self.raster.group).min(self.raster.group);
        let along_group = group * self.raster.group + in_group % members;
        let along_walk = in_group / members;
        let (m, n) = if self.raster.along_n { (along_walk, along_group) } else { (along_group, along_walk) };
        Turn {
            split: unit / (of_product * self.batch),
            batch: of_all / of_product,
            tile_m: m * self.cluster.m + rank % self.cluster.m,
            tile_n: n * self.cluster.n + rank / self.cluster.m,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::gemm::families::sm90::kernel::structs::DEAL;
    use crate::gemm::kernel::filler::Filler;
    use crate::gemm::kernel::formula::{Evaluation, Given, Quantity, Scope};
    use crate::gemm::kernel::launch::Memory;
    use crate::gemm::kernel::parameter_bytes::ParameterBytes;

    proptest! {
        /// For any shape, cluster, group and number of blocks, every tile of every batch and split is computed by
        /// exactly one block.
        #[test]
        fn every_tile_is_computed_once(
            tiles in (1usize..40, 1usize..40),
            batch in 1usize..4,
            splits in 1usize..4,
            cluster in prop::sample::select(vec![(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (4, 2), (3, 1)]),
            group in 1usize..17,
            along_n: bool,
            blocks in 1usize..70,
        ) {
            let units = Units {
                tiles_m: tiles.0,
                tiles_n: tiles.1,
                batch,
                splits,
                cluster: Cluster { m: cluster.0, n: cluster.1 },
                raster: Raster { group, along_n },
            };
            let count = usize::try_from(units.count()).unwrap_or(usize::MAX);
            let mut computed: BTreeMap<Turn, usize> = BTreeMap::new();
            for first in 0..blocks.min(count) {
                for unit in (first..count).step_by(blocks.min(count)) {
                    for rank in 0..units.cluster.blocks() {
                        *computed.entry(units.turn(unit, rank)).or_default() += 1;
                    }
                }
            }
            prop_assert!(computed.values().all(|n| *n == 1));
            let within = |t: &&Turn| t.tile_m < tiles.0 && t.tile_n < tiles.1;
            prop_assert_eq!(computed.keys().filter(within).count(), tiles.0 * tiles.1 * batch * splits);
            prop_assert!(computed.keys().all(|t| t.batch < batch && t.split < splits));
            // A cluster that reaches beyond the last tile has at least one tile within the matrix.
            prop_assert!(computed.keys().all(|t| t.tile_m / cluster.0 * cluster.0 < tiles.0));
            prop_assert!(computed.keys().all(|t| t.tile_n / cluster.1 * cluster.1 < tiles.1));
        }
    }

    /// A quotient as `Divisor::quotient` of the kernels computes it.
    fn quotient(words: &[u32], x: usize) -> usize {
        ((2 * x as u64 * u64::from(words[0])) >> 32 >> words[1]) as usize
    }

    /// `sm90::Deal` of units, word by word.
    fn deal(units: &Units) -> Vec<u32> {
        let mut bytes = ParameterBytes::new(DEAL.bytes(1));
        let mut to = Filler { bytes: &mut bytes, at: 0, values: &Evaluation::new(units), accumulators: 1 };
        to.put(&DEAL, &String::new, Scope::PRODUCT);
        let bytes = bytes.into_bytes();
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("4 bytes"))).collect()
    }

    /// Tiles of one row and column, whose clusters are the units.
    impl Given for Units {
        fn quantity(&self, quantity: Quantity, _of: Memory) -> i64 {
            let number = match quantity {
                Quantity::M => self.tiles_m,
                Quantity::N => self.tiles_n,
                Quantity::Batch => self.batch,
                Quantity::Splits => self.splits,
                Quantity::ClusterM => self.cluster.m,
                Quantity::ClusterN => self.cluster.n,
                Quantity::RasterGroup => self.raster.group,
                Quantity::RasterAlongN => self.raster.along_n.into(),
                Quantity::TileM | Quantity::TileN => 1,
                _ => 0,
            };
            number as i64
        }

        fn address(&self, _of: Memory) -> Option<(Memory, u64, u64)> {
            None
        }
    }

    /// The value that `Scheduler::work` computes from the host's numbers.
    fn turn_of(units: &Units, deal: &[u32], unit: usize, rank: usize) -> Turn {
        let (m, n) = units.clusters();
        let along = if units.raster.along_n { n } else { m };
        let split = quotient(&deal[6..], unit);
        let of_split = unit - split * m * n * units.batch;
        let batch = quotient(&deal[8..], of_split);
        let index = of_split - batch * m * n;
        let group = quotient(&deal[10..], index);
        let in_group = index - group * deal[5] as usize;
        let left = along - group * units.raster.group;
        let last = left < units.raster.group;
        let j = quotient(&deal[if last { 14 } else { 12 }..], in_group);
        let i = group * units.raster.group + in_group - j * left.min(units.raster.group);
        let (m, n) = if units.raster.along_n { (j, i) } else { (i, j) };
        let cluster = units.cluster;
        Turn { split, batch, tile_m: m * cluster.m + rank % cluster.m, tile_n: n * cluster.n + rank / cluster.m }
    }

    proptest! {
        /// The kernel finds the same turns as the host, from the numbers that formulas give it.
        #[test]
        fn units_are_dealt_without_divisions(
            tiles in (1usize..40, 1usize..40),
            batch in 1usize..4,
            splits in 1usize..4,
            cluster in prop::sample::select(vec![(1, 1), (2, 1), (1, 2), (2, 2), (4, 1)]),
            group in 1usize..17,
            along_n: bool,
        ) {
            let cluster = Cluster { m: cluster.0, n: cluster.1 };
            let (tiles_m, tiles_n) = tiles;
            let units = Units { tiles_m, tiles_n, batch, splits, cluster, raster: Raster { group, along_n } };
            let deal = deal(&units);
            prop_assert_eq!(deal[0] as u128, units.count());
            for unit in 0..deal[0] as usize {
                let rank = unit % cluster.blocks();
                prop_assert_eq!(turn_of(&units, &deal, unit, rank), units.turn(unit, rank));
            }
        }
    }

    /// Blocks that run at the same time share rows of A and columns of B: with groups of 8, a wave of 132 tiles needs
    /// about as many rows and columns as a square of tiles would.
    #[test]
    fn a_wave_is_nearly_square() {
        let cluster = Cluster::NONE;
        for along_n in [false, true] {
            let raster = Raster { group: 8, along_n };
            let units = Units { tiles_m: 64, tiles_n: 64, batch: 1, splits: 1, cluster, raster };
            let wave: Vec<Turn> = (1320..1452).map(|unit| units.turn(unit, 0)).collect();
            let distinct =
                |of: fn(&Turn) -> usize| wave.iter().map(of).collect::<std::collections::BTreeSet<_>>().len();
            assert!(distinct(|t| t.tile_m) + distinct(|t| t.tile_n) <= 33);
        }
    }
}
