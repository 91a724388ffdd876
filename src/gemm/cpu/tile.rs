//! Cuts the output into tiles, the units of parallel work.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use smallvec::SmallVec;

use crate::gemm::problem::{Divided, Grouping};

/// Elements of a register of the strip program; a tile has at most this many columns.
pub(super) const STRIP: usize = 512;

/// The extents of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extents {
    /// The number of batches.
    pub(crate) batch: usize,
    /// Rows of A and of the output.
    pub(crate) m: usize,
    /// Columns of B and of the output.
    pub(crate) n: usize,
    /// Columns of A, rows of B.
    pub(crate) k: usize,
}

impl Extents {
    /// Whether one thread computes the product in less time than it takes to wake others.
    pub(crate) fn is_little(self) -> bool {
        const LITTLE: usize = 1 << 19;
        let outputs = self.batch.saturating_mul(self.m).saturating_mul(self.n);
        outputs.saturating_mul(self.k.saturating_add(16)) < LITTLE
    }
}

/// The rows of every batch that are computed, or its part of K.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups<'a> {
    /// The range of each batch.
    pub(crate) of: &'a [Range<usize>],
    /// The kind of groups, with the number of matrices.
    pub(crate) grouping: Grouping,
}

impl<'a> Groups<'a> {
    /// Extents of as much work.
    pub(crate) fn work(self, extents: Extents) -> Extents {
        let all: usize = self.of.iter().map(|of| of.len().max(1)).sum();
        match self.grouping {
            Grouping::Depth => Extents { k: all / extents.batch.max(1), ..extents },
            _ => Extents { batch: 1, m: all, ..extents },
        }
    }

    /// The rows of every batch, if these are divided.
    pub(super) fn rows(self) -> Option<&'a [Range<usize>]> {
        (self.grouping.divided() == Divided::Rows).then_some(self.of)
    }

    /// The part of K of every batch, if K is divided.
    pub(super) fn depths(self) -> Option<&'a [Range<usize>]> {
        (self.grouping.divided() == Divided::Depth).then_some(self.of)
    }
}

/// Extents of a tile that is not at an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TileShape {
    /// Rows.
    pub(crate) m: usize,
    /// Columns.
    pub(crate) n: usize,
}

/// Large tiles first, because they repack operands least. Small ones keep more threads busy.
const SHAPES: [TileShape; 5] = [
    TileShape { m: 256, n: 256 },
    TileShape { m: 128, n: 256 },
    TileShape { m: 64, n: 256 },
    TileShape { m: 64, n: 128 },
    TileShape { m: 64, n: 64 },
];

/// The tile of a product whose phases keep something for each other, if its rows are long: every call of a loop over a row
/// computes more of it. (Zen 4, softmax after 4096×4096×64: 42 ms in place of 46 with 256 columns.)
const LONG_ROWS: TileShape = TileShape { m: 64, n: STRIP };

/// Whether rows of this length don't stay in a thread's caches.
pub(super) const fn are_long(rows: usize, length: usize) -> bool {
    rows.saturating_mul(length) > 1 << 20
}

/// The fewest columns of a tile of a wide GEMM; all its tiles have a multiple. Narrower rows are computed step by step.
const LEAST_COLUMNS: usize = 32;

/// A share of a core's second-level cache.
const PANEL_BYTES: usize = 1 << 20;

/// Enough tiles to keep many threads busy.
const PLENTY: usize = 32;
/// Enough, if smaller ones would take no longer than threads take to wake: with this many multiplications at most, by a CPU's
/// registers for matrices. (One core of a Xeon with AMX, 512×512×512 of bf16s: 0.26 ms with 16 tiles in place of 0.34 with 32.)
const SOME: usize = 4;
const SHORT: usize = 1 << 23;

impl TileShape {
    /// The tile for this many products of one A, of whose elements phases keep this many bytes for each other. It depends
    /// only on the extents and on whether a CPU multiplies `by_matrices`, never on the number of threads, and so do the results.
    pub(crate) fn choose(extents: Extents, by_matrices: bool, accumulators: usize, kept: usize) -> Self {
        // A single row is limited by reading B, and long pieces of its rows are read faster.
        if extents.m == 1 && extents.n >= 4 * STRIP {
            return Self { m: 1, n: STRIP };
        }
        // A tile has as many columns in all as for one accumulator. B's panels (one for each accumulator) and the
        // values of all accumulators should fit in a core's second-level cache. (A Xeon, 256×1536×768 with two: 8.1 ms
        // with 64×128, as a GEMM of twice the columns takes with 64×256; 8.8 with 64×256 each.)
        let of_each = |shape: Self| {
            let columns = shape.n / accumulators.max(1);
            Self { n: (columns - columns % LEAST_COLUMNS).max(LEAST_COLUMNS), ..shape }
        };
        let plenty = |shape: &Self| {
            let is_short = by_matrices && (shape.m * shape.n * accumulators).saturating_mul(extents.k) <= SHORT;
            Tiles::new(extents, *shape).count() >= if is_short { SOME } else { PLENTY }
        };
        if kept > 0 && extents.n >= STRIP && plenty(&of_each(LONG_ROWS)) {
            return of_each(LONG_ROWS).without_rest(extents.m);
        }
        // The intermediates of a row of tiles should stay there too, as far as they can.
        let stays = |shape: &Self| kept == 0 || shape.m == 64 || shape.m * extents.n * kept <= PANEL_BYTES;
        let mut suitable = SHAPES.into_iter().map(of_each).filter(stays);
        let chosen =
            suitable.clone().find(plenty).or(suitable.next_back()).unwrap_or(of_each(SHAPES[SHAPES.len() - 1]));
        chosen.without_rest(extents.m)
    }

    /// A little higher, if a few rows at the end would be a tile of their own, for which B is read again.
    fn without_rest(self, rows: usize) -> Self {
        let higher = (rows / self.m).checked_sub(1).map_or(self.m, |others| rows.div_ceil(others + 1));
        let most = (self.m + self.m / 8).min(SHAPES[0].m);
        if higher <= most { Self { m: higher, ..self } } else { self }
    }

    /// The tile to compute with if per-tile partials of `self` are wanted: its extents divide those of `self`.
    pub(super) fn computable(self) -> Self {
        let divide = |extent: usize, limit: usize| {
            (1..=limit.min(extent)).rev().find(|d| extent.is_multiple_of(*d)).unwrap_or(1)
        };
        Self { m: divide(self.m.max(1), 256), n: divide(self.n.max(1), STRIP) }
    }
}

/// The place of a tile in the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    pub(super) batch: usize,
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
    /// Whether its first row is the first of its batch.
    pub(super) is_top: bool,
    /// Whether no other tile has rows of its batch.
    pub(super) is_alone: bool,
    /// Whether no other batch has its rows, which are then of one matrix.
    pub(super) has_own_rows: bool,
}

impl Tile {
    /// Some of its rows.
    pub(super) fn of_rows(self, rows: Range<usize>) -> Self {
        let is_alone = self.is_alone && rows == self.rows;
        Self { is_top: self.is_top && rows.start == self.rows.start, is_alone, rows, ..self }
    }
}

/// All tiles, numbered batch by batch, and row by row within a batch.
#[derive(Clone, Debug)]
pub(super) struct Tiles<'a> {
    extents: Extents,
    shape: TileShape,
    down: usize,
    across: usize,
    groups: Option<GroupTiles<'a>>,
}

/// Tiles of batches that have different numbers of rows.
#[derive(Clone, Debug)]
struct GroupTiles<'a> {
    rows: &'a [Range<usize>],
    are_of_one_matrix: bool,
    /// How many rows of tiles every batch has, with those before it.
    ends: Vec<usize>,
}

impl<'a> Tiles<'a> {
    /// An output without rows or columns still has one empty tile, so that vectors are stored.
    pub(super) fn new(extents: Extents, shape: TileShape) -> Self {
        let (down, across) = (extents.m.div_ceil(shape.m).max(1), extents.n.div_ceil(shape.n).max(1));
        Self { extents, shape, down, across, groups: None }
    }

    /// The tiles of these rows only. A group without rows has an empty tile, too.
    pub(super) fn in_groups(self, groups: Option<Groups<'a>>) -> Self {
        let step = self.shape.m;
        let tiles = |groups: Groups<'a>| {
            let rows = groups.rows()?;
            let down = rows.iter().map(|rows| rows.len().div_ceil(step).max(1));
            let ends = down.scan(0, |end, down| {
                *end += down;
                Some(*end)
            });
            let are_of_one_matrix = groups.grouping == Grouping::Shared;
            Some(GroupTiles { rows, are_of_one_matrix, ends: ends.collect() })
        };
        Self { groups: groups.and_then(tiles), ..self }
    }

    /// Tiles whose extents divide those of `shape`.
    pub(super) fn within(extents: Extents, shape: TileShape) -> Self {
        Self::new(extents, shape.computable())
    }

    /// The extents of the largest tile.
    pub(super) fn largest(&self) -> TileShape {
        TileShape { m: self.shape.m.min(self.extents.m), n: self.shape.n.min(self.extents.n) }
    }

    pub(super) fn count(&self) -> usize {
        let down = match &self.groups {
            Some(groups) => groups.ends.last().copied().unwrap_or(0),
            None => self.extents.batch.saturating_mul(self.down),
        };
        down.saturating_mul(self.across)
    }

    /// How many tiles a row of them has: those of a row are numbered one after another.
    pub(super) const fn across(&self) -> usize {
        self.across
    }

    /// The number of columns of tiles, and of the tiles in each. Columns of a batch follow each other. Groups of rows
    /// are one column.
    fn columns(&self) -> [usize; 2] {
        match self.groups {
            Some(_) => [1, self.count()],
            None => [self.extents.batch.saturating_mul(self.across), self.down],
        }
    }

    /// The index of tile `down` of column `column`.
    fn index(&self, column: usize, down: usize) -> usize {
        if self.groups.is_some() {
            return down;
        }
        let (batch, across) = (column / self.across, column % self.across);
        (batch * self.down + down) * self.across + across
    }

    pub(super) fn tile(&self, index: usize) -> Tile {
        let (rest, across) = (index / self.across, index % self.across);
        let range = |i: usize, step: usize, end: usize| (i * step).min(end)..((i + 1) * step).min(end);
        let (batch, down, own) = match &self.groups {
            Some(GroupTiles { rows, ends, .. }) => {
                let batch = ends.partition_point(|end| *end <= rest);
                let before = batch.checked_sub(1).map_or(0, |batch| ends[batch]);
                (batch, rest - before, rows[batch].clone())
            }
            None => (rest / self.down, rest % self.down, 0..self.extents.m),
        };
        let rows = range(down, self.shape.m, own.len());
        Tile {
            batch,
            rows: own.start + rows.start..own.start + rows.end,
            columns: range(across, self.shape.n, self.extents.n),
            is_top: down == 0,
            is_alone: rows.len() == own.len(),
            has_own_rows: self.groups.as_ref().is_some_and(|groups| groups.are_of_one_matrix),
        }
    }
}

/// Tiles that threads take one after another, each of them once. A thread takes the tiles of a column from top to
/// bottom, and so needs the same columns of B again. Threads begin at different columns, so each packs others.
#[derive(Debug)]
pub(super) struct Turns<'a> {
    tiles: &'a Tiles<'a>,
    /// How many tiles of each column are taken.
    taken: SmallVec<[AtomicUsize; 16]>,
    /// How many threads have begun.
    threads: AtomicUsize,
    most: usize,
}

impl<'a> Turns<'a> {
    /// For this many threads at most.
    pub(super) fn new(tiles: &'a Tiles<'a>, most: usize) -> Self {
        let taken = (0..tiles.columns()[0]).map(|_| AtomicUsize::new(0)).collect();
        Self { tiles, taken, threads: AtomicUsize::new(0), most: most.max(1) }
    }

    /// The indices of the tiles that a thread takes.
    pub(super) fn of_a_thread(&self) -> impl Iterator<Item = usize> {
        let [columns, down] = self.tiles.columns();
        let thread = self.threads.fetch_add(1, Ordering::Relaxed) % self.most;
        let first = (thread * columns).div_ceil(self.most);
        (first..columns).chain(0..first).flat_map(move |column| {
            let next = move || {
                let taken = self.taken[column].fetch_add(1, Ordering::Relaxed);
                (taken < down).then(|| self.tiles.index(column, taken))
            };
            std::iter::from_fn(next)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_the_output_once() {
        for (batch, m, n) in [(1, 1, 1), (2, 300, 70), (3, 64, 513), (1, 1023, 1031)] {
            let extents = Extents { batch, m, n, k: 1 };
            let tiles = Tiles::new(extents, TileShape::choose(extents, false, 1, 0));
            let mut seen = vec![0u8; batch * m * n];
            for tile in (0..tiles.count()).map(|i| tiles.tile(i)) {
                for i in tile.rows {
                    for j in tile.columns.clone() {
                        seen[(tile.batch * m + i) * n + j] += 1;
                    }
                }
            }
            assert!(seen.iter().all(|&times| times == 1));
        }
    }

    #[test]
    fn threads_take_every_tile_once_and_begin_at_columns_of_their_own() {
        let tiles = Tiles::new(Extents { batch: 2, m: 130, n: 200, k: 1 }, TileShape { m: 64, n: 64 });
        let turns = Turns::new(&tiles, 2);
        let (mut one, mut two) = (turns.of_a_thread(), turns.of_a_thread());
        let columns = |index: usize| (tiles.tile(index).batch, tiles.tile(index).columns.start);
        let first: Vec<usize> = one.by_ref().take(3).collect();
        assert!(first.iter().all(|index| columns(*index) == (0, 0)), "{first:?}");
        let next = two.next().unwrap();
        assert_eq!(columns(next), (1, 0));
        let mut all: Vec<usize> = first.into_iter().chain([next]).chain(one).chain(two).collect();
        all.sort_unstable();
        assert_eq!(all, (0..tiles.count()).collect::<Vec<_>>());
    }

    #[test]
    fn an_empty_output_has_a_tile_and_no_batch_has_none() {
        let shape = TileShape { m: 64, n: 64 };
        let tiles = Tiles::new(Extents { batch: 1, m: 0, n: 7, k: 3 }, shape);
        assert_eq!(
            (tiles.count(), tiles.tile(0)),
            (1, Tile { batch: 0, rows: 0..0, columns: 0..7, is_top: true, is_alone: true, has_own_rows: false })
        );
        assert_eq!(Tiles::new(Extents { batch: 0, m: 5, n: 7, k: 3 }, shape).count(), 0);
    }

    #[test]
    fn groups_have_their_own_rows_of_tiles() {
        let extents = Extents { batch: 4, m: 100, n: 20, k: 3 };
        let groups = Groups { of: &[3..20, 20..20, 20..90, 91..92], grouping: Grouping::Shared };
        let tiles = Tiles::new(extents, TileShape { m: 16, n: 16 }).in_groups(Some(groups));
        let of = |index: usize| {
            let Tile { batch, rows, columns, is_top, .. } = tiles.tile(2 * index);
            assert_eq!(columns, 0..16);
            (batch, rows, is_top)
        };
        assert_eq!(tiles.count(), 2 * (2 + 1 + 5 + 1));
        assert_eq!([0, 1, 2, 3].map(of), [(0, 3..19, true), (0, 19..20, false), (1, 20..20, true), (2, 20..36, true)]);
        assert_eq!([7, 8].map(of), [(2, 84..90, false), (3, 91..92, true)]);
        assert_eq!(
            Tiles::new(extents, TileShape { m: 16, n: 16 }).in_groups(Some(Groups { of: &[], ..groups })).count(),
            0
        );
    }

    #[test]
    fn partials_of_any_tile_are_computable() {
        for (given, computed) in [(128, 128), (512, 512), (1024, 512), (600, 300), (1021, 1)] {
            assert_eq!(TileShape { m: 1, n: given }.computable().n, computed);
        }
    }

    #[test]
    fn sizes_that_matter() {
        let choose = |m, n, k| TileShape::choose(Extents { batch: 1, m, n, k }, false, 1, 0);
        assert_eq!(choose(4096, 4096, 64), TileShape { m: 256, n: 256 });
        assert_eq!(choose(1024, 1024, 1024), TileShape { m: 128, n: 256 });
        assert_eq!(choose(196, 512, 4608), TileShape { m: 66, n: 64 }, "not 64, 64, 64 and 4 rows");
        let of_several = |count| TileShape::choose(Extents { batch: 1, m: 1024, n: 1024, k: 1024 }, false, count, 0);
        let several = [2, 3, 4].map(of_several);
        let expected = [128, 64, 64].map(|n| TileShape { m: 256, n });
        assert_eq!(several, expected, "all accumulators stay where one would");
        let kept = |n| TileShape::choose(Extents { batch: 1, m: 4096, n, k: 64 }, false, 1, 8);
        assert_eq!([300, 500].map(kept), [TileShape { m: 256, n: 256 }; 2], "a panel stays");
        assert_eq!(kept(4096), TileShape { m: 64, n: 512 }, "long rows");
        let cubes = |by_matrices| {
            [256, 512, 1024].map(|n| TileShape::choose(Extents { batch: 1, m: n, n, k: n }, by_matrices, 1, 0))
        };
        let shape = |m, n| TileShape { m, n };
        assert_eq!(cubes(false), [shape(64, 64), shape(64, 128), shape(128, 256)]);
        assert_eq!(cubes(true), [shape(64, 256), shape(64, 256), shape(128, 256)], "short work is not cut");
    }
}
