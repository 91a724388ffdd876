//! Reductions: of a block within its tile, and of the tiles' partial results in their order.
//!
//! Sums and products are accumulated in f64, in an order that depends only on the extents. So the same input gives the
//! same bits with any number of threads.

use super::element::Arithmetic;
use super::program::TileReduction;
use super::tile::Tile;
use crate::evt::{Axis, ReduceOp};
use crate::simd::{Vectorised, dispatch};

/// Elements of a row that are accumulated side by side.
const LANES: usize = 16;

/// The result of a reduction without elements.
pub(super) fn identity(op: ReduceOp) -> f64 {
    match op {
        ReduceOp::Add | ReduceOp::AbsMax | ReduceOp::SumSquares => 0.0,
        ReduceOp::Mul => 1.0,
        ReduceOp::Max => f64::NEG_INFINITY,
        ReduceOp::Min => f64::INFINITY,
    }
}

#[inline(always)]
fn maximum(a: f64, b: f64) -> f64 {
    if a > b || a.is_nan() { a } else { b }
}

#[inline(always)]
fn minimum(a: f64, b: f64) -> f64 {
    if a < b || a.is_nan() { a } else { b }
}

/// Combines two partial results.
#[inline(always)]
pub(super) fn combine(op: ReduceOp, a: f64, b: f64) -> f64 {
    match op {
        ReduceOp::Add | ReduceOp::SumSquares => a + b,
        ReduceOp::Mul => a * b,
        ReduceOp::Max | ReduceOp::AbsMax => maximum(a, b),
        ReduceOp::Min => minimum(a, b),
    }
}

/// The partial results of a tile before its first block.
pub(super) fn start(reduction: &TileReduction, tile: &Tile) -> Vec<f64> {
    let entries = match reduction.axis {
        Axis::Row => tile.rows.len(),
        Axis::Column => tile.columns.len(),
        Axis::All => 1,
    };
    vec![identity(reduction.op); entries]
}

/// Combines a block into the partial results. Its rows, of `width` elements, are the tile's rows from `first` on.
pub(super) fn accumulate<T: Arithmetic>(
    reduction: &TileReduction,
    partial: &mut [f64],
    block: &[T],
    first: usize,
    width: usize,
) {
    let partial = if reduction.axis == Axis::Row { &mut partial[first..] } else { partial };
    dispatch(Accumulate { reduction, partial, block, width });
}

struct Accumulate<'a, T> {
    reduction: &'a TileReduction,
    partial: &'a mut [f64],
    block: &'a [T],
    width: usize,
}

impl<T: Arithmetic> Vectorised for Accumulate<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let identity = identity(self.reduction.op);
        match self.reduction.op {
            ReduceOp::Add => self.with(identity, |a, x| a + x, |a, b| a + b),
            ReduceOp::Mul => self.with(identity, |a, x| a * x, |a, b| a * b),
            // The square of an f32 is exact in f64.
            ReduceOp::SumSquares => self.with(identity, |a, x| a + x * x, |a, b| a + b),
            ReduceOp::Max => self.with(identity, maximum, maximum),
            ReduceOp::Min => self.with(identity, minimum, minimum),
            ReduceOp::AbsMax => self.with(identity, |a, x: f64| maximum(a, x.abs()), maximum),
        }
    }
}

impl<T: Arithmetic> Accumulate<'_, T> {
    #[inline(always)]
    fn with(self, identity: f64, add: impl Fn(f64, f64) -> f64, join: impl Fn(f64, f64) -> f64) {
        let rows = self.block.chunks_exact(self.width);
        match self.reduction.axis {
            Axis::Row => {
                for (to, row) in self.partial.iter_mut().zip(rows) {
                    *to = join(*to, across(row, identity, &add, &join));
                }
            }
            Axis::All => {
                for row in rows {
                    self.partial[0] = join(self.partial[0], across(row, identity, &add, &join));
                }
            }
            Axis::Column => {
                for row in rows {
                    for (to, &x) in self.partial.iter_mut().zip(row) {
                        *to = add(*to, x.to_f64());
                    }
                }
            }
        }
    }
}

/// Reduces a row: element `i` goes to lane `i mod 16`, then the lanes are joined in halves.
#[inline(always)]
fn across<T: Arithmetic>(
    row: &[T],
    identity: f64,
    add: &impl Fn(f64, f64) -> f64,
    join: &impl Fn(f64, f64) -> f64,
) -> f64 {
    let mut lanes = [identity; LANES];
    let (chunks, rest) = row.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane = add(*lane, x.to_f64());
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane = add(*lane, x.to_f64());
    }
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = join(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    lanes[0]
}
