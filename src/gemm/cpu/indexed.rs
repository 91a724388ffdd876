//! Argmax and argmin: of a block within its tile, and of two tiles.
//!
//! A row is searched twice at most. Vector code finds its maximum; the place is searched only if that is greater than
//! the maximum so far.

use super::element::Arithmetic;
use super::program::TileReduction;
use super::tile::Tile;
use crate::evt::{Axis, ReduceOp};
use crate::simd::{Vectorised, dispatch};

/// Whether a value comes before one that was found in front of it: it is beyond it, or the first NaN.
#[inline(always)]
fn replaces(op: ReduceOp, new: f64, old: f64) -> bool {
    let beyond = if op == ReduceOp::ArgMin { new < old } else { new > old };
    !old.is_nan() && (new.is_nan() || beyond)
}

/// Combines two results, each a value and its index.
pub(super) fn combine(op: ReduceOp, a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    let same = a.0 == b.0 || a.0.is_nan() && b.0.is_nan();
    let takes = if same { b.1 < a.1 } else { replaces(op, b.0, a.0) };
    if takes { b } else { a }
}

/// The index in the matrix, whose rows have `columns` elements, of one in a tile.
pub(super) fn in_matrix(index: f64, axis: Axis, tile: &Tile, columns: usize) -> f64 {
    // Exact: numbers of elements are below 2^53.
    let number = |x: usize| x as f64;
    match axis {
        Axis::Row => number(tile.columns.start) + index,
        Axis::Column => number(tile.rows.start) + index,
        Axis::All if index.is_finite() => {
            let width = number(tile.columns.len());
            let (row, column) = ((index / width).floor(), index % width);
            (number(tile.rows.start) + row) * number(columns) + number(tile.columns.start) + column
        }
        Axis::All => index,
    }
}

/// Combines a block into the partial results of its tile. Its rows, of `width` elements, are the tile's rows from `first` on.
pub(super) fn accumulate<T: Arithmetic>(
    reduction: &TileReduction,
    partial: &mut [f64],
    block: &[T],
    first: usize,
    width: usize,
) {
    let entries = partial.len() / 2;
    let (values, indices) = partial.split_at_mut(entries);
    let op = reduction.op;
    for (row, elements) in (first..).zip(block.chunks_exact(width)) {
        match reduction.axis {
            Axis::Row => {
                let found = (&mut values[row], &mut indices[row]);
                along(op, elements, found, 0);
            }
            Axis::All => along(op, elements, (&mut values[0], &mut indices[0]), row * width),
            Axis::Column => {
                dispatch(Down { op, elements, values: &mut *values, indices: &mut *indices, row: row as f64 });
            }
        }
    }
}

/// Looks through a row whose first element has an index.
fn along<T: Arithmetic>(op: ReduceOp, elements: &[T], (value, index): (&mut f64, &mut f64), first: usize) {
    let best = dispatch(Best { op, elements });
    // The first element is taken, whatever it is.
    if index.is_finite() && !replaces(op, best, *value) {
        return;
    }
    let is_best = |x: &T| {
        let x = x.to_f64();
        x == best || x.is_nan() && best.is_nan()
    };
    if let Some(place) = elements.iter().position(is_best) {
        (*value, *index) = (best, (first + place) as f64);
    }
}

/// The greatest or least of a row; NaN if there is one.
struct Best<'a, T> {
    op: ReduceOp,
    elements: &'a [T],
}

impl<T: Arithmetic> Vectorised for Best<'_, T> {
    type Output = f64;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> f64 {
        match self.op {
            ReduceOp::ArgMin => -best(self.elements, |x| -x),
            _ => best(self.elements, |x| x),
        }
    }
}

#[inline(always)]
fn best<T: Arithmetic>(elements: &[T], key: impl Fn(f64) -> f64) -> f64 {
    const LANES: usize = 16;
    let larger = |a: f64, b: f64| if a > b || a.is_nan() { a } else { b };
    let mut lanes = [f64::NEG_INFINITY; LANES];
    let (chunks, rest) = elements.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, key(x.to_f64()));
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane = larger(*lane, key(x.to_f64()));
    }
    lanes.into_iter().fold(f64::NEG_INFINITY, larger)
}

/// Compares a row's elements with what was found in their columns.
struct Down<'a, T> {
    op: ReduceOp,
    elements: &'a [T],
    values: &'a mut [f64],
    indices: &'a mut [f64],
    row: f64,
}

impl<T: Arithmetic> Vectorised for Down<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { op, elements, values, indices, row } = self;
        for ((value, index), x) in values.iter_mut().zip(indices).zip(elements) {
            let x = x.to_f64();
            let takes = replaces(op, x, *value) || index.is_infinite();
            *value = if takes { x } else { *value };
            *index = if takes { row } else { *index };
        }
    }
}
