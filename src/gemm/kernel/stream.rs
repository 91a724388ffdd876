//! Stream-K: how the units of the last waves are cut along K. This is the host's side of `stream.cuh` and
//! `scheduler.cuh`, in the families' folders of `src/device/`.
//!
//! If the number of units is not a multiple of the clusters that run at once, the last wave leaves most of them idle.
//! Stream-K puts the units of the last two waves in one line, unit after unit, k-tile after k-tile. Every cluster takes
//! an equal share of that line. The cluster with the last k-tile of a unit adds the other clusters' sums in a fixed
//! order, and runs the epilogue. The full waves before are computed as usual.
//!
//! On sm_80 a unit is a tile and a cluster is one block.

use std::ops::Range;

/// The fewest k-tiles in a share if there are fewer units than clusters: a smaller part is not worth the exchange
/// of its sum.
const LEAST_SHARE: usize = 4;
/// The longest line: clusters count its k-tiles in 32 bits.
const LONGEST_LINE: usize = 1 << 31;

/// How units are assigned to clusters: the first `streamed` are cut along K, the others stay whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The number of units: clusters of tiles, in all batches.
    pub units: usize,
    /// The number of units that are cut, counted from the first.
    pub streamed: usize,
    /// K-tiles of a unit; at least 1.
    pub k_tiles: usize,
    /// The number of clusters that work.
    pub clusters: usize,
}

/// Consecutive k-tiles of one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The unit.
    pub unit: usize,
    /// Its first k-tile.
    pub first: usize,
    /// The number of k-tiles; at least 1.
    pub k_tiles: usize,
}

impl Stream {
    /// The cut of `units` for `at_once` clusters. It depends on the arguments only, so a product gives the same bits at
    /// every run.
    #[must_use]
    pub fn of(units: usize, at_once: usize, k_tiles: usize) -> Self {
        let (at_once, k_tiles) = (at_once.max(1), k_tiles.max(1));
        let (waves, rest) = (units / at_once, units % at_once);
        let whole = Self { units, streamed: 0, k_tiles, clusters: units.min(at_once) };
        let streamed = if waves == 0 { units } else { at_once + rest };
        if rest == 0 || k_tiles < 2 || streamed.saturating_mul(k_tiles) >= LONGEST_LINE {
            return whole;
        }
        let clusters = if waves == 0 { (units * k_tiles / LEAST_SHARE).clamp(units, at_once) } else { at_once };
        Self { streamed, clusters, ..whole }
    }

    /// A cluster's share of the line of streamed units.
    #[must_use]
    pub fn share(&self, cluster: usize) -> Range<usize> {
        let line = self.streamed * self.k_tiles;
        let (least, more) = (line / self.clusters, line % self.clusters);
        let begin = |c: usize| c * least + c.min(more);
        begin(cluster)..begin(cluster + 1)
    }

    /// The parts that a cluster computes, in its order: the last part of its share comes first. A part that another
    /// cluster waits for therefore never comes after a part that waits itself.
    #[must_use]
    pub fn parts(&self, cluster: usize) -> Vec<Part> {
        let Range { start, mut end } = self.share(cluster);
        let mut parts = Vec::new();
        while end > start {
            let unit = (end - 1) / self.k_tiles;
            let begin = (unit * self.k_tiles).max(start);
            parts.push(Part { unit, first: begin - unit * self.k_tiles, k_tiles: end - begin });
            end = begin;
        }
        let whole = (self.streamed + cluster..self.units).step_by(self.clusters);
        parts.extend(whole.map(|unit| Part { unit, first: 0, k_tiles: self.k_tiles }));
        parts
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Every k-tile of every unit is computed once, and the shares differ by at most one k-tile. A part without its
        /// unit's last k-tile is the first that its cluster computes. The cluster that finishes the unit has a higher
        /// number. Waiting therefore ends for every start order in which lower-numbered clusters begin first.
        #[test]
        fn every_block_is_computed_once_and_waiting_ends(
            units in 1usize..400,
            at_once in 1usize..140,
            k_tiles in 0usize..40,
        ) {
            let stream = Stream::of(units, at_once, k_tiles);
            prop_assert!(stream.clusters >= 1 && stream.clusters <= at_once);
            let mut computed = vec![0; units * stream.k_tiles];
            let mut finisher = vec![usize::MAX; units];
            let mut pending = Vec::new();
            for cluster in 0..stream.clusters {
                for (turn, part) in stream.parts(cluster).into_iter().enumerate() {
                    prop_assert!(part.k_tiles > 0 && part.first + part.k_tiles <= stream.k_tiles);
                    for k_tile in part.first..part.first + part.k_tiles {
                        computed[part.unit * stream.k_tiles + k_tile] += 1;
                    }
                    if part.first + part.k_tiles == stream.k_tiles {
                        prop_assert_eq!(finisher[part.unit], usize::MAX);
                        finisher[part.unit] = cluster;
                    } else {
                        prop_assert_eq!(turn, 0);
                        pending.push((part.unit, cluster));
                    }
                }
            }
            prop_assert!(computed.iter().all(|n| *n == 1));
            prop_assert!(pending.iter().all(|(unit, cluster)| *cluster < finisher[*unit]));
            let shares: Vec<usize> = (0..stream.clusters).map(|c| stream.share(c).len()).collect();
            prop_assert!(shares.iter().max() <= shares.iter().min().map(|n| n + 1).as_ref());
        }
    }

    #[test]
    fn only_a_partial_wave_is_cut() {
        assert_eq!(Stream::of(264, 132, 64).streamed, 0);
        assert_eq!(Stream::of(132, 132, 64).streamed, 0);
        assert_eq!(Stream::of(300, 132, 64).streamed, 132 + 36);
        assert_eq!(Stream::of(300, 132, 1).streamed, 0);
        // Fewer tiles than clusters: as many clusters as get 4 k-tiles each.
        assert_eq!(Stream::of(16, 132, 8), Stream { units: 16, streamed: 16, k_tiles: 8, clusters: 32 });
        assert_eq!(Stream::of(16, 132, 256).clusters, 132);
        assert_eq!(Stream::of(16, 132, 2).clusters, 16);
        assert_eq!(Stream::of(100, 132, usize::MAX / 200).streamed, 0);
    }
}
