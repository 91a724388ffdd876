//! The numbers of a kernel's parameter, as formulas over what a launch is given: extents, strides, tiles.
//!
//! A [`DeviceStruct`](super::device_struct::DeviceStruct) has a formula for each of its numbers. A launch
//! [evaluates](Evaluation) them; there is no other way to fill a parameter. A formula is constant data, so it can also be
//! written as text: a program may launch the kernel for shapes that only its run knows.
//!
//! ```text
//! problem.tiles_n    max(ceil(n / tile_n), 1)
//! deal.of_batch      reciprocal(units_m * units_n), log2_up(units_m * units_n)
//! a.outer            the stride of A along M
//! ```
//!
//! - A [`Quantity`] is given: by the product, the kernel's key, the grid, or a tensor.
//! - A [`Definition`] is a formula with a name. It is evaluated once in an evaluation.
//! - Numbers are exact: extents are below 2^31, so no product of theirs leaves 128 bits. A quotient by 0 is 0. Fields take
//!   what does not fit as the largest number that they hold.

use std::cell::Cell;

use smallvec::SmallVec;

use self::Operation::{Add, Divide, DivideUp, Least, Most, Multiply, Remainder};
use super::launch::Memory;

/// A number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Formula {
    Number(i64),
    Given(Quantity),
    Defined(Definition),
    /// The argument of this index, which the outer struct gives to this one.
    Argument(usize),
    Of(Operation, &'static [Self; 2]),
    /// The least power of two that is at least this number, as its exponent.
    LogUp(&'static Self),
    /// A multiplication in place of a division: `i * reciprocal >> (31 + log_up)` is `i / divisor`, for every `i` and
    /// `divisor` below 2^31. A divisor of 0 is taken as 1: nothing is divided by it.
    ///
    /// Let `2^s` be the least power of two that is at least the divisor. The reciprocal is `2^(31 + s) / divisor` rounded
    /// up, by less than 1. The product is therefore too large by less than `i < 2^31 <= 2^(31 + s) / divisor`. This is
    /// less than the distance to the next multiple. (Granlund and Montgomery, "Division by invariant integers using
    /// multiplication", 1994.)
    Reciprocal(&'static Self),
    /// The second if the first is not 0, else the third.
    If(&'static [Self; 3]),
}

/// An operation of two numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Add,
    Multiply,
    /// A quotient, rounded down.
    Divide,
    /// A quotient, rounded up.
    DivideUp,
    Remainder,
    /// The larger one.
    Most,
    /// The smaller one.
    Least,
}

/// A number that a launch is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantity {
    /// Extents of the product, and its number of products.
    M,
    N,
    K,
    Batch,
    /// 1 if the tree multiplies, else 0.
    Multiplies,
    /// 1 if groups share one matrix of rows, or if each has a matrix of its own; else 0.
    SharedRows,
    OwnRows,

    /// The kernel's: its tile, and the tiles of a cluster.
    TileM,
    TileN,
    TileK,
    ClusterM,
    ClusterN,
    /// Clusters of tiles in a group of the raster, and whether groups are along N.
    RasterGroup,
    RasterAlongN,

    /// The grid's: parts of K, units that are cut along K, blocks.
    Splits,
    Streamed,
    Blocks,

    /// A tensor's stride along an axis, in elements.
    Stride(Axis),
    /// Bytes of a tensor's element.
    ElementBytes,
    /// The rows of a matrix that an index may name.
    Limit,
    /// The number under which a wrong index is noted.
    Site,
    /// The form of bounds, as `groups.cuh` numbers them.
    Form,
    /// Whether lanes may access an argument's rows in whole vectors.
    Vectorised,
    /// An argument's axis of two digits: strides of the lower and of the upper digit, and values of the lower one.
    Lower(Axis),
    Upper(Axis),
    Extent(Axis),
    /// A seed, and its offset.
    Seed,
    Offset,

    /// Patches, axis by axis: the images' strides and extents, the patches' numbers, and the window.
    Step(usize),
    Input(usize),
    Output(usize),
    Window(usize),
    Move(usize),
    Before(usize),
    Dilation(usize),
    InputDilation(usize),
    /// Channels of a group, and of a box.
    Channels,
    BoxChannels,
    /// From a group's filters to the next one's: columns, and filter positions.
    FilterColumns,
    FilterPositions,
    /// Whether A, and bit by bit whether each B, differs from batch to batch.
    BatchedA,
    BatchedB,

    /// A copy's extents; its strides in bytes, and in words of 4 bytes.
    Rows,
    Columns,
    SourceBytes(Axis),
    Words(Axis),
}

/// An axis of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    Batch,
    /// M of A, N of B.
    Outer,
    K,
    Row,
    Column,
    /// That of a list.
    Entry,
}

/// A number that follows from the product and the kernel, for every family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Definition {
    /// Rows of tiles; at least one, which writes the reductions' identities if the matrix is empty. For groups it is the
    /// most that there can be.
    RowTiles,
    /// Columns of tiles; at least one.
    ColumnTiles,
    /// K, or 0 if nothing is multiplied.
    Depth,
    /// K-tiles of a tile; at least one.
    DepthTiles,
}

const fn given(quantity: Quantity) -> Formula {
    Formula::Given(quantity)
}

pub(crate) const ZERO: Formula = Formula::Number(0);
pub(crate) const ONE: Formula = Formula::Number(1);
pub(crate) const M: Formula = given(Quantity::M);
pub(crate) const N: Formula = given(Quantity::N);
pub(crate) const K: Formula = given(Quantity::K);
pub(crate) const BATCH: Formula = given(Quantity::Batch);
pub(crate) const TILE_K: Formula = given(Quantity::TileK);
pub(crate) const CLUSTER_M: Formula = given(Quantity::ClusterM);
pub(crate) const CLUSTER_N: Formula = given(Quantity::ClusterN);
pub(crate) const SPLITS: Formula = given(Quantity::Splits);
pub(crate) const STREAMED: Formula = given(Quantity::Streamed);
pub(crate) const ROW_TILES: Formula = Formula::Defined(Definition::RowTiles);
pub(crate) const COLUMN_TILES: Formula = Formula::Defined(Definition::ColumnTiles);
pub(crate) const DEPTH: Formula = Formula::Defined(Definition::Depth);
pub(crate) const DEPTH_TILES: Formula = Formula::Defined(Definition::DepthTiles);

/// Whether rows are divided into groups.
pub(crate) const DIVIDES_ROWS: Formula = Formula::Of(Add, &[given(Quantity::SharedRows), given(Quantity::OwnRows)]);

/// K-tiles of a part of K, as elements; at least one k-tile.
pub(crate) const K_PER_SPLIT: Formula = {
    const TILES: Formula = Formula::Of(DivideUp, &[Formula::Of(DivideUp, &[K, TILE_K]), SPLITS]);
    Formula::Of(Multiply, &[at_least_one(&[TILES, ONE]), TILE_K])
};

/// Clusters of blocks that work.
const CLUSTERS: Formula = Formula::Of(
    Most,
    &[Formula::Of(Divide, &[given(Quantity::Blocks), Formula::Of(Multiply, &[CLUSTER_M, CLUSTER_N])]), ONE],
);
/// Stream-K: the k-tiles of all units that are cut.
const LINE: Formula = Formula::Of(Multiply, &[STREAMED, DEPTH_TILES]);
/// Stream-K: the least k-tiles of a cluster.
pub(crate) const SHARE: Formula = Formula::Of(Divide, &[LINE, CLUSTERS]);
/// Stream-K: the first clusters that have one more.
pub(crate) const LONGER: Formula = Formula::Of(Remainder, &[LINE, CLUSTERS]);

/// The larger one of a number and 1, given both.
pub(crate) const fn at_least_one(with_one: &'static [Formula; 2]) -> Formula {
    Formula::Of(Most, with_one)
}

impl Definition {
    const COUNT: usize = 4;

    /// The formula that it stands for.
    pub(crate) const fn formula(self) -> Formula {
        const TILE_M: Formula = given(Quantity::TileM);
        /// Rows of a cluster's tiles.
        const ROWS: Formula = Formula::Of(Multiply, &[TILE_M, CLUSTER_M]);
        /// Every group has at most one row of tiles that is not full.
        const SHARED: Formula = Formula::Of(Add, &[Formula::Of(Divide, &[M, ROWS]), BATCH]);
        const OF_EACH: Formula = at_least_one(&[Formula::Of(DivideUp, &[M, ROWS]), ONE]);
        const OWN: Formula = Formula::Of(Multiply, &[OF_EACH, BATCH]);
        const OF_GROUPS: Formula =
            Formula::Of(Multiply, &[Formula::If(&[given(Quantity::SharedRows), SHARED, OWN]), CLUSTER_M]);
        const OF_MATRIX: Formula = at_least_one(&[Formula::Of(DivideUp, &[M, TILE_M]), ONE]);
        const COLUMNS: Formula = at_least_one(&[Formula::Of(DivideUp, &[N, given(Quantity::TileN)]), ONE]);
        const DEPTHS: Formula = at_least_one(&[Formula::Of(DivideUp, &[DEPTH, TILE_K]), ONE]);
        const IS_THERE: Formula =
            Formula::Of(Multiply, &[Formula::Of(Least, &[M, ONE]), Formula::Of(Least, &[N, ONE])]);
        const MULTIPLIES: Formula = Formula::Of(Multiply, &[given(Quantity::Multiplies), IS_THERE]);
        match self {
            Self::RowTiles => Formula::If(&[DIVIDES_ROWS, OF_GROUPS, OF_MATRIX]),
            Self::ColumnTiles => COLUMNS,
            Self::Depth => Formula::Of(Multiply, &[K, MULTIPLIES]),
            Self::DepthTiles => DEPTHS,
        }
    }
}

/// Quantities of a run that only one family's formulas have.
pub(crate) type OwnQuantities = SmallVec<[(Quantity, i64); 7]>;

/// Quantities for which formulas are evaluated.
pub(crate) trait Given {
    /// A quantity; of a tensor's, this one's. 0 if a launch has none.
    fn quantity(&self, quantity: Quantity, of: Memory) -> i64;

    /// Memory by its place in a struct: whose it is, its base address, and bytes behind it; `None` if there is none.
    fn address(&self, of: Memory) -> Option<(Memory, u64, u64)>;
}

/// Where a formula stands.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'s> {
    /// The tensor of its struct.
    pub(crate) of: Memory,
    pub(crate) arguments: &'s [i128],
}

impl Scope<'_> {
    /// That of a struct about the product.
    pub(crate) const PRODUCT: Self = Self { of: Memory::A, arguments: &[] };
}

/// Evaluates formulas for a launch.
pub(crate) struct Evaluation<'g> {
    pub(crate) given: &'g dyn Given,
    known: [Cell<Option<i128>>; Definition::COUNT],
}

impl<'g> Evaluation<'g> {
    pub(crate) const fn new(given: &'g dyn Given) -> Self {
        Self { given, known: [const { Cell::new(None) }; Definition::COUNT] }
    }

    /// A number of the product.
    pub(crate) fn of_product(&self, formula: &Formula) -> i128 {
        self.value(formula, Scope::PRODUCT)
    }

    pub(crate) fn value(&self, formula: &Formula, scope: Scope<'_>) -> i128 {
        match formula {
            Formula::Number(number) => (*number).into(),
            Formula::Given(quantity) => self.given.quantity(*quantity, scope.of).into(),
            Formula::Defined(definition) => {
                let known = &self.known[*definition as usize];
                known.get().unwrap_or_else(|| {
                    let value = self.value(&definition.formula(), Scope::PRODUCT);
                    known.set(Some(value));
                    value
                })
            }
            Formula::Argument(i) => scope.arguments.get(*i).copied().unwrap_or(0),
            Formula::Of(operation, [a, b]) => operation.apply(self.value(a, scope), self.value(b, scope)),
            Formula::LogUp(x) => log_up(self.value(x, scope)).into(),
            Formula::Reciprocal(x) => {
                let divisor = self.value(x, scope).max(1);
                DivideUp.apply(1_i128.unbounded_shl(31 + log_up(divisor)), divisor)
            }
            Formula::If([condition, then, otherwise]) => {
                self.value(if self.value(condition, scope) != 0 { then } else { otherwise }, scope)
            }
        }
    }
}

/// The exponent of the least power of two that is at least a number.
fn log_up(number: i128) -> u32 {
    let number = u64::try_from(number).unwrap_or(0).max(1);
    u64::BITS - (number - 1).leading_zeros()
}

impl Operation {
    fn apply(self, a: i128, b: i128) -> i128 {
        match self {
            Add => a.saturating_add(b),
            Multiply => a.saturating_mul(b),
            Divide => a.checked_div_euclid(b).unwrap_or(0),
            DivideUp => a.saturating_add(b.saturating_sub(1)).checked_div_euclid(b).unwrap_or(0),
            Remainder => a.checked_rem_euclid(b).unwrap_or(0),
            Most => a.max(b),
            Least => a.min(b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A launch that is given the same number for everything.
    struct Everywhere(i64);

    impl Given for Everywhere {
        fn quantity(&self, _quantity: Quantity, _of: Memory) -> i64 {
            self.0
        }

        fn address(&self, _of: Memory) -> Option<(Memory, u64, u64)> {
            None
        }
    }

    /// Every divisor up to 2^31 near a power of two, and others, with the indices where a quotient changes.
    #[test]
    fn reciprocals_divide_every_index() {
        let powers = (0..=31).flat_map(|s| [-1i64, 0, 1].map(|near| (1i64 << s) + near));
        let others = (1..400).chain((0..500).map(|i| 1 + i * 4_294_967));
        for divisor in powers.chain(others).filter(|d| (0..1 << 31).contains(d)) {
            let given = Everywhere(divisor);
            let values = Evaluation::new(&given);
            let magic = values.of_product(&Formula::Reciprocal(&M));
            let shift = 31 + values.of_product(&Formula::LogUp(&M));
            assert!(magic < 1 << 32, "{divisor}: it is multiplied as 32 bits");
            let (divisor, last) = (i128::from(divisor.max(1)), (1i128 << 31) - 1);
            let quotients = [1, 2, 3, last / divisor / 2, last / divisor].map(|q| q.max(1));
            let edges = quotients.into_iter().flat_map(|q| [q * divisor - 1, q * divisor, q * divisor + 1]);
            for i in edges.chain([0, last]).filter(|i| *i <= last) {
                assert_eq!((i * magic) >> shift, i / divisor, "{i} / {divisor}");
            }
        }
    }

    /// Whatever is given, evaluation ends with a number.
    #[test]
    fn nothing_is_divided_by_zero() {
        for number in [0, -1, 1, i64::MAX, i64::MIN] {
            let given = Everywhere(number);
            let values = Evaluation::new(&given);
            for formula in [ROW_TILES, COLUMN_TILES, DEPTH_TILES, K_PER_SPLIT, SHARE, LONGER] {
                values.of_product(&formula);
                values.of_product(&Formula::Reciprocal(&LONGER));
            }
        }
    }
}
