//! The tiles of a product: what a launch's grid and its parameter, and the model, count alike.

use super::formula::{COLUMN_TILES, Evaluation, Formula, Given, Quantity, ROW_TILES};
use super::launch::Memory;
use crate::gemm::problem::{Grouping, Problem};

/// A product, and the tiles that a kernel cuts it into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tiled<'p> {
    pub(crate) problem: &'p Problem,
    /// Rows, columns and depth of a tile.
    pub(crate) tile: [usize; 3],
    /// Tiles of a cluster, along M and along N.
    pub(crate) cluster: (usize, usize),
    /// Parts of K.
    pub(crate) splits: usize,
}

impl<'p> Tiled<'p> {
    /// Without a depth.
    pub(crate) const fn of(problem: &'p Problem, (m, n): (usize, usize), cluster: (usize, usize)) -> Self {
        Self { problem, tile: [m, n, 0], cluster, splits: 1 }
    }

    /// Rows and columns of tiles. For groups of rows, they are the most that there can be.
    pub(crate) fn tiles(&self) -> (usize, usize) {
        let values = Evaluation::new(self);
        let count = |formula: &Formula| usize::try_from(values.of_product(formula)).unwrap_or(usize::MAX);
        (count(&ROW_TILES), count(&COLUMN_TILES))
    }
}

impl Given for Tiled<'_> {
    fn quantity(&self, quantity: Quantity, _of: Memory) -> i64 {
        let Self { problem, tile, cluster, splits } = *self;
        let grouping = problem.reading.grouping();
        let number = match quantity {
            Quantity::M => problem.m,
            Quantity::N => problem.n,
            Quantity::K => problem.k,
            Quantity::Batch => problem.batch,
            Quantity::SharedRows => usize::from(grouping == Some(Grouping::Shared)),
            Quantity::OwnRows => usize::from(grouping == Some(Grouping::Padded)),
            Quantity::TileM => tile[0],
            Quantity::TileN => tile[1],
            Quantity::TileK => tile[2],
            Quantity::ClusterM => cluster.0,
            Quantity::ClusterN => cluster.1,
            Quantity::Splits => splits,
            _ => 0,
        };
        i64::try_from(number).unwrap_or(i64::MAX)
    }

    fn address(&self, _of: Memory) -> Option<(Memory, u64, u64)> {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::gemm::kernel::filler::Filler;
    use crate::gemm::kernel::formula::Scope;
    use crate::gemm::kernel::parameter_bytes::ParameterBytes;
    use crate::gemm::kernel::structs::PROBLEM;

    /// A product that is multiplied.
    struct Multiplied<'p>(Tiled<'p>);

    impl Given for Multiplied<'_> {
        fn quantity(&self, quantity: Quantity, of: Memory) -> i64 {
            if quantity == Quantity::Multiplies { 1 } else { self.0.quantity(quantity, of) }
        }

        fn address(&self, _of: Memory) -> Option<(Memory, u64, u64)> {
            None
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// The bytes of `Problem` are those that its header's comments say, by plain arithmetic.
        #[test]
        fn a_problem_is_filled_as_the_header_says(
            m in prop::sample::select(vec![0usize, 1, 127, 128, 129, 5000]),
            extents in (0usize..3000, 0usize..9000, 1usize..5),
            tile in (prop::sample::select(vec![8usize, 64, 128]), prop::sample::select(vec![32usize, 256]), 1usize..128),
            cluster in (1usize..4, 1usize..3),
            splits in 1usize..9,
        ) {
            let ((n, k, batch), (tile_m, tile_n, tile_k)) = (extents, tile);
            let problem = Problem { batch, ..Problem::new(m, n, k) };
            let given = Multiplied(Tiled { problem: &problem, tile: [tile_m, tile_n, tile_k], cluster, splits });
            let mut bytes = ParameterBytes::new(PROBLEM.bytes(1));
            let mut to = Filler { bytes: &mut bytes, at: 0, values: &Evaluation::new(&given), accumulators: 1 };
            to.put(&PROBLEM, &String::new, Scope::PRODUCT);
            let bytes = bytes.into_bytes();
            let words = bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("4 bytes")) as usize);
            let depth = if m == 0 || n == 0 { 0 } else { k };
            let (mut tiles_m, mut tiles_n) = (1, 1);
            while tiles_m * tile_m < m {
                tiles_m += 1;
            }
            while tiles_n * tile_n < n {
                tiles_n += 1;
            }
            let mut k_per_split = tile_k;
            while k_per_split * splits < k {
                k_per_split += tile_k;
            }
            let expected = [m, n, depth, batch, tiles_m, tiles_n, splits, k_per_split];
            prop_assert_eq!(words.collect::<Vec<_>>(), expected);
        }
    }

    proptest! {
        /// There are never more row tiles than a launch counts on, whatever the groups; nor does it count on many more.
        #[test]
        fn groups_fit_the_launch(
            counts in prop::collection::vec(0usize..700, 1..20),
            none in 0usize..300,
            tile_m in prop::sample::select(vec![8usize, 64, 128]),
            together in 1usize..4,
        ) {
            let tiles = |problem: Problem| Tiled::of(&problem, (tile_m, 8), (together, 1)).tiles().0;
            let rows = tile_m * together;
            let used = counts.iter().map(|count| count.div_ceil(rows).max(1)).sum::<usize>() * together;
            let (all, most) = (counts.iter().sum::<usize>() + none, counts.iter().max().copied().unwrap_or(0));
            let shared = tiles(Problem::new(all, 8, 8).in_groups(counts.len()));
            let padded = tiles(Problem::new(most, 8, 8).in_padded_groups(counts.len()));
            prop_assert!(used <= shared && used <= padded, "{used} of {shared} or {padded}");
            prop_assert!(shared <= used + (counts.len() + none.div_ceil(rows)) * together);
            prop_assert_eq!(tiles(Problem::new(all, 8, 8)), all.div_ceil(tile_m).max(1));
        }
    }
}
