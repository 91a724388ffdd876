//! How tiles are dealt to blocks: the host's side of `src/device/sm90/scheduler.cuh`.

use super::key::{Cluster, Raster, Sm90Key};
use crate::gemm::problem::Problem;

/// The work of one launch: clusters of tiles, in all batches and all splits of K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units {
    /// Tiles along M; at least 1.
    pub tiles_m: usize,
    /// Tiles along N; at least 1.
    pub tiles_n: usize,
    /// Products.
    pub batch: usize,
    /// Parts of K.
    pub splits: usize,
    /// Tiles that are computed together.
    pub cluster: Cluster,
    /// Their order.
    pub raster: Raster,
}

/// What a block computes in one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// Part of K.
    pub split: usize,
    /// Batch.
    pub batch: usize,
    /// Tile along M; beyond the last where the number of tiles is no multiple of the cluster's.
    pub tile_m: usize,
    /// Tile along N; likewise.
    pub tile_n: usize,
}

impl Units {
    /// The work of a kernel on a problem.
    #[must_use]
    pub fn of(key: &Sm90Key, problem: &Problem, splits: usize) -> Self {
        let (tile_m, tile_n) = key.product_tile();
        Self {
            tiles_m: problem.m.div_ceil(tile_m).max(1),
            tiles_n: problem.n.div_ceil(tile_n).max(1),
            batch: problem.batch,
            splits,
            cluster: key.cluster,
            raster: key.raster,
        }
    }

    /// Clusters of tiles of one product, along M and along N.
    #[must_use]
    pub const fn clusters(&self) -> (usize, usize) {
        (self.tiles_m.div_ceil(self.cluster.m), self.tiles_n.div_ceil(self.cluster.n))
    }

    /// Units in all.
    #[must_use]
    pub const fn count(&self) -> u128 {
        let (m, n) = self.clusters();
        m as u128 * n as u128 * self.batch as u128 * self.splits as u128
    }

    /// What the block of rank `rank` in its cluster computes of unit `unit`.
    #[must_use]
    pub fn turn(&self, unit: usize, rank: usize) -> Turn {
        let (clusters_m, clusters_n) = self.clusters();
        let of_product = clusters_m * clusters_n;
        let of_all = unit % (of_product * self.batch);
        let index = of_all % of_product;
        // Groups of so many along one axis, walked along the other: the group is the outer loop.
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

    proptest! {
        /// Whatever the shape, cluster, group and number of blocks, every tile of every batch and split is computed by
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
            // What lies beyond the last tile belongs to a cluster that has a tile within.
            prop_assert!(computed.keys().all(|t| t.tile_m / cluster.0 * cluster.0 < tiles.0));
            prop_assert!(computed.keys().all(|t| t.tile_n / cluster.1 * cluster.1 < tiles.1));
        }
    }

    /// Blocks that run at one time share rows of A and columns of B: with groups of 8, a wave of 132 tiles needs about
    /// as many rows and columns as a square of it would.
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
