//! Reductions: of a block within its tile, and of the tiles' partial results in their order.
//!
//! Sums and products are accumulated in f64, in an order that depends only on the extents. So the same input gives the
//! same bits with any number of threads.

use std::ops::Range;

use super::across::{across, maximum, minimum};
use super::element::Arithmetic;
use super::indexed;
use super::program::TileReduction;
use super::tile::Tile;
use crate::ElementType;
use crate::evt::{Axis, ReduceOp};
use crate::exhaustion::{repeated, resize};
use crate::lane::element::Loaded as _;
use crate::simd::{Vectorised, dispatch};

/// The result of a reduction without elements.
pub(super) fn identity(op: ReduceOp) -> f64 {
    match op {
        ReduceOp::Add | ReduceOp::AbsMax | ReduceOp::SumSquares => 0.0,
        ReduceOp::Mul => 1.0,
        ReduceOp::Max => f64::NEG_INFINITY,
        ReduceOp::Min => f64::INFINITY,
        ReduceOp::ArgMax => f64::NEG_INFINITY,
        ReduceOp::ArgMin => f64::INFINITY,
        // Never: its functions say.
        ReduceOp::User(_) => f64::NAN,
    }
}

/// Combines two partial results that are numbers.
#[inline(always)]
pub(super) fn combine(op: ReduceOp, a: f64, b: f64) -> f64 {
    match op {
        ReduceOp::Add | ReduceOp::SumSquares => a + b,
        ReduceOp::Mul => a * b,
        ReduceOp::Max | ReduceOp::AbsMax | ReduceOp::ArgMax => maximum(a, b),
        ReduceOp::Min | ReduceOp::ArgMin => minimum(a, b),
        // Never: its functions say.
        ReduceOp::User(_) => f64::NAN,
    }
}

/// The results of a reduction, combined tile by tile.
pub(super) struct Results {
    reduction: TileReduction,
    values: Vec<f64>,
    /// Where these are, if that is wanted: infinite without elements.
    indices: Vec<f64>,
}

impl Results {
    /// So many, without elements.
    pub(super) fn new(reduction: TileReduction, count: usize) -> Self {
        if let Some(own) = &reduction.own {
            let values = own.start(count);
            return Self { reduction, values, indices: Vec::new() };
        }
        let indices = if reduction.op.gives_index() { repeated(f64::INFINITY, count) } else { Vec::new() };
        let values = repeated(identity(reduction.op), count);
        Self { reduction, values, indices }
    }

    /// Combines the partial results of a tile with those from `start` on; rows have `columns` elements.
    pub(super) fn combine(&mut self, start: usize, tile: &Tile, columns: usize, partial: &[f64]) {
        let TileReduction { op, axis, ref own, .. } = self.reduction;
        if let Some(own) = own {
            return own.join(&mut self.values, start, partial);
        }
        if op.gives_index() {
            let (values, indices) = partial.split_at(partial.len() / 2);
            let global = |index: f64| indexed::in_matrix(index, axis, tile, columns);
            let results = self.values[start..].iter_mut().zip(&mut self.indices[start..]);
            for ((value, index), (&x, &i)) in results.zip(values.iter().zip(indices)) {
                (*value, *index) = indexed::combine(op, (*value, *index), (x, global(i)));
            }
            return;
        }
        for (result, &value) in self.values[start..].iter_mut().zip(partial) {
            *result = combine(op, *result, value);
        }
    }

    /// Stores some of them.
    ///
    /// # Safety
    /// The elements must be inside the memory of `element`s, which nobody else uses meanwhile.
    pub(super) unsafe fn store<T: Arithmetic>(
        &self,
        which: Range<usize>,
        element: ElementType,
        to: *mut u8,
        stride: isize,
    ) {
        if self.reduction.op.gives_index() {
            let found = |index: &f64| if index.is_finite() { *index } else { -1.0 };
            let indices: Vec<f64> = self.indices[which].iter().map(found).collect();
            // SAFETY: the caller's promise. An f64 holds every index of what fits a memory.
            return unsafe { f64::store(element, &indices, to, stride) };
        }
        let finished = self.reduction.own.as_ref().map(|own| own.finished(&self.values, which.clone()));
        let values = finished.as_deref().unwrap_or_else(|| &self.values[which]);
        let values: Vec<T> = values.iter().map(|&x| T::from_f64(x)).collect();
        // SAFETY: the caller's promise.
        unsafe { T::store(element, &values, to, stride) };
    }
}

/// The partial results of a tile before its first block. Where indices are wanted, they come after the values, and count
/// within the tile. Where a running result is several numbers, all first ones come first.
pub(super) fn start(reduction: &TileReduction, tile: &Tile) -> Vec<f64> {
    let entries = match reduction.axis {
        Axis::Row => tile.rows.len(),
        Axis::Column => tile.columns.len(),
        Axis::All => 1,
    };
    if let Some(own) = &reduction.own {
        return own.start(entries);
    }
    let mut partial = repeated(identity(reduction.op), entries);
    if reduction.op.gives_index() {
        resize(&mut partial, 2 * entries, f64::INFINITY);
    }
    partial
}

/// Combines a block into the partial results. Its rows, of `width` elements, are the tile's rows from `first` on.
pub(super) fn accumulate<T: Arithmetic>(
    reduction: &TileReduction,
    partial: &mut [f64],
    block: &[T],
    first: usize,
    width: usize,
) {
    if reduction.op.gives_index() {
        return indexed::accumulate(reduction, partial, block, first, width);
    }
    if let Some(own) = &reduction.own {
        return own.accumulate(reduction.axis, partial, block, first, width);
    }
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
            // These go another way.
            ReduceOp::ArgMax | ReduceOp::ArgMin | ReduceOp::User(_) => {}
        }
    }
}

impl<T: Arithmetic> Accumulate<'_, T> {
    #[inline(always)]
    fn with(self, identity: f64, add: impl Fn(f64, f64) -> f64, join: impl Fn(f64, f64) -> f64) {
        let rows = self.block.chunks_exact(self.width);
        let of_element = |a: f64, x: T| add(a, x.to_f64());
        match self.reduction.axis {
            Axis::Row => {
                for (to, row) in self.partial.iter_mut().zip(rows) {
                    *to = join(*to, across(row, identity, &of_element, &join));
                }
            }
            Axis::All => {
                for row in rows {
                    self.partial[0] = join(self.partial[0], across(row, identity, &of_element, &join));
                }
            }
            Axis::Column => {
                for row in rows {
                    for (to, &x) in self.partial.iter_mut().zip(row) {
                        *to = of_element(*to, x);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The index by a loop over all elements, in the order of their indices.
    fn first(op: ReduceOp, elements: impl Iterator<Item = (usize, f32)>) -> f64 {
        let mut best: Option<(usize, f32)> = None;
        for (i, x) in elements {
            let beyond = |old: f32| if op == ReduceOp::ArgMax { x > old } else { x < old };
            if best.is_none_or(|(_, old)| !old.is_nan() && (x.is_nan() || beyond(old))) {
                best = Some((i, x));
            }
        }
        best.map_or(-1.0, |(i, _)| i as f64)
    }

    /// The matrix has tiles and blocks of ragged extents, many equal values and perhaps some NaN.
    #[test]
    fn indices_are_those_of_the_first() {
        let (m, n) = (11, 83);
        for (nan, seed) in [(false, 1), (true, 2), (false, 3), (true, 4)] {
            let number = |i: usize| match (i * i * 31 + i * 7 + seed * 13) % 229 {
                0 if nan => f32::NAN,
                1 => f32::NEG_INFINITY,
                x => (x % 9) as f32 - if x % 2 == 0 { 0.0 } else { 4.0 },
            };
            let values: Vec<f32> = (0..m * n).map(number).collect();
            for (axis, count) in [(Axis::Row, m), (Axis::Column, n), (Axis::All, 1)] {
                for op in [ReduceOp::ArgMax, ReduceOp::ArgMin] {
                    let reduction = TileReduction::new::<f32>(0, axis, op);
                    let mut results = Results::new(reduction.clone(), count);
                    for (top, left) in [(0, 0), (0, 40), (4, 0), (4, 40), (8, 0), (8, 40)] {
                        let (rows, columns) = (top..(top + 4).min(m), left..(left + 40 + left / 13).min(n));
                        let tile =
                            Tile { batch: 0, rows, columns, is_top: top == 0, is_alone: false, has_own_rows: false };
                        let (height, width) = (tile.rows.len(), tile.columns.len());
                        let mut partial = start(&reduction, &tile);
                        for row in (0..height).step_by(3) {
                            let of_row = |r: usize| &values[(top + r) * n + left..][..width];
                            let block: Vec<f32> = (row..(row + 3).min(height)).flat_map(of_row).copied().collect();
                            accumulate(&reduction, &mut partial, &block, row, width);
                        }
                        let start = [tile.rows.start, tile.columns.start, 0][axis as usize];
                        results.combine(start, &tile, n, &partial);
                    }
                    let mut stored = vec![0i64; count];
                    // SAFETY: this many elements of that type.
                    unsafe { results.store::<f32>(0..count, ElementType::I64, stored.as_mut_ptr().cast(), 1) };
                    let expected = |line: usize| match axis {
                        Axis::Row => first(op, (0..n).map(|j| (j, values[line * n + j]))),
                        Axis::Column => first(op, (0..m).map(|i| (i, values[i * n + line]))),
                        Axis::All => first(op, values.iter().copied().enumerate()),
                    };
                    for (line, &index) in stored.iter().enumerate() {
                        assert_eq!(index as f64, expected(line), "{op:?} {axis:?}, {line}");
                    }
                }
            }
        }
    }

    /// An f32 has 24 bits; an index has as many as it needs.
    #[test]
    fn indices_are_exact() {
        let reduction = TileReduction::new::<f32>(0, Axis::All, ReduceOp::ArgMax);
        let tile =
            Tile { batch: 0, rows: 70_001..70_002, columns: 3..6, is_top: false, is_alone: false, has_own_rows: false };
        let (mut results, mut partial) = (Results::new(reduction.clone(), 1), start(&reduction, &tile));
        accumulate(&reduction, &mut partial, &[1f32, 5.0, 2.0], 0, 3);
        results.combine(0, &tile, 1000, &partial);
        let mut stored = 0i64;
        // SAFETY: one element of that type.
        unsafe { results.store::<f32>(0..1, ElementType::I64, (&raw mut stored).cast(), 1) };
        assert_eq!(stored, 70_001_004);
    }
}
