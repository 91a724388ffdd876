//! Reductions by user reducers: of a block within its tile, and of two tiles.
//!
//! The functions are lists of operations on rows of up to [`LANES`] f64s, each as vector code. Operations that several
//! functions of a reducer share are computed once. The running results of many lines, or of the lanes of one line, are
//! combined side by side.

use std::ops::Range;

use smallvec::SmallVec;

use super::element::Arithmetic;
use super::exponentials;
use super::lower::{LoweredKind, lower_functions};
use crate::evt::{AtInfinity, Axis, Reducer};
use crate::exhaustion::resize;
use crate::expr::Function;
use crate::lane::scalar::{Lanes, LanesMut, Scalar as _};
use crate::lane::strip::compute;

/// Elements that are combined side by side.
const LANES: usize = 64;

type Row = [f64; LANES];

/// A reducer, ready to be computed. A running result's numbers are in rows of their own: number `w` of entry `i` of `n` is
/// `values[w * n + i]`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Own {
    identity: Vec<f64>,
    lift: Formulas,
    combine: Formulas,
    finish: Formulas,
    /// The kind, if it sums exponentials.
    exponentials: Option<AtInfinity>,
}

impl Own {
    /// Constants have the precision of the arithmetic.
    pub(super) fn of<T: Arithmetic>(reducer: &Reducer) -> Self {
        let words = reducer.words();
        Self {
            identity: reducer.identity().iter().map(|x| T::from_f64(*x).to_f64()).collect(),
            lift: Formulas::of::<T>(reducer.lift(), 1),
            combine: Formulas::of::<T>(reducer.combine(), 2 * words),
            finish: Formulas::of::<T>(std::slice::from_ref(reducer.finish()), words),
            exponentials: AtInfinity::of(reducer),
        }
    }

    /// The running results of this many lines without elements.
    pub(super) fn start(&self, entries: usize) -> Vec<f64> {
        let mut all = Vec::new();
        self.identity.iter().enumerate().for_each(|(i, x)| resize(&mut all, (i + 1) * entries, *x));
        all
    }

    /// Combines a block into the running results of its tile. Its rows, of `width` elements, are the tile's rows from `first`
    /// on.
    pub(super) fn accumulate<T: Arithmetic>(
        &self,
        axis: Axis,
        partial: &mut [f64],
        block: &[T],
        first: usize,
        width: usize,
    ) {
        if let (Some(at), Axis::Row) = (self.exponentials, axis) {
            // A tile's row is in one block, so nothing has been combined of it before.
            let rows = first..first + block.len() / width;
            let (greatest, sums) = Self::rows_of(partial, rows);
            return exponentials::of_rows(at, block, width, greatest, sums);
        }
        let mut registers = Registers::default();
        for (row, elements) in (first..).zip(block.chunks_exact(width)) {
            match axis {
                Axis::Row => self.along(elements, partial, row, &mut registers),
                Axis::All => self.along(elements, partial, 0, &mut registers),
                Axis::Column => self.down(elements, partial, &mut registers),
            }
        }
    }

    /// The kind, if it sums exponentials.
    pub(super) const fn exponentials(&self) -> Option<AtInfinity> {
        self.exponentials
    }

    /// The first and the second numbers of some entries, of two.
    pub(super) fn rows_of(partial: &mut [f64], rows: Range<usize>) -> (&mut [f64], &mut [f64]) {
        let (first, second) = partial.split_at_mut(partial.len() / 2);
        (&mut first[rows.clone()], &mut second[rows])
    }

    fn words(&self) -> usize {
        self.identity.len()
    }

    /// Reduces a row into an entry: element `i` goes to lane `i mod 64`, then the lanes are joined in halves.
    fn along<T: Arithmetic>(&self, elements: &[T], partial: &mut [f64], entry: usize, registers: &mut Registers) {
        let mut lanes: Vec<Row> = self.identity.iter().map(|x| [*x; LANES]).collect();
        for chunk in elements.chunks(LANES) {
            let lifted = self.lifted(chunk, registers);
            let n = chunk.len();
            let operands: Vec<&[f64]> = lanes.iter().chain(&lifted).map(|row| &row[..n]).collect();
            let combined = self.combine.compute(&operands, registers);
            lanes.iter_mut().zip(&combined).for_each(|(to, row)| to[..n].copy_from_slice(&row[..n]));
        }
        let mut half = elements.len().min(LANES).next_power_of_two() / 2;
        while half > 0 {
            let (low, high) = (lanes.iter().map(|row| &row[..half]), lanes.iter().map(|row| &row[half..2 * half]));
            let operands: Vec<&[f64]> = low.chain(high).collect();
            lanes = self.combine.compute(&operands, registers);
            half /= 2;
        }
        let entries = partial.len() / self.words();
        let before = (0..self.words()).map(|word| &partial[word * entries + entry..][..1]);
        let operands: Vec<&[f64]> = before.chain(lanes.iter().map(|row| &row[..1])).collect();
        let combined = self.combine.compute(&operands, registers);
        combined.iter().enumerate().for_each(|(word, row)| partial[word * entries + entry] = row[0]);
    }

    /// Combines a row's elements with the running results of their columns.
    fn down<T: Arithmetic>(&self, elements: &[T], partial: &mut [f64], registers: &mut Registers) {
        for (i, chunk) in elements.chunks(LANES).enumerate() {
            let lifted = self.lifted(chunk, registers);
            let lifted: Vec<&[f64]> = lifted.iter().map(|row| &row[..chunk.len()]).collect();
            self.merge(partial, i * LANES, &lifted, registers);
        }
    }

    /// Lifts elements to running results.
    fn lifted<T: Arithmetic>(&self, elements: &[T], registers: &mut Registers) -> Vec<Row> {
        let mut row = [0.0; LANES];
        row.iter_mut().zip(elements).for_each(|(to, x)| *to = x.to_f64());
        self.lift.compute(&[&row[..elements.len()]], registers)
    }

    /// Combines running results with those of the entries from `start` on; at most [`LANES`] of them.
    fn merge(&self, values: &mut [f64], start: usize, others: &[&[f64]], registers: &mut Registers) {
        let entries = values.len() / self.words();
        let n = others[0].len();
        let before = (0..self.words()).map(|word| &values[word * entries + start..][..n]);
        let operands: Vec<&[f64]> = before.chain(others.iter().copied()).collect();
        let combined = self.combine.compute(&operands, registers);
        for (word, row) in combined.iter().enumerate() {
            values[word * entries + start..][..n].copy_from_slice(&row[..n]);
        }
    }

    /// Combines the running results of a tile with those of the entries from `start` on.
    pub(super) fn join(&self, values: &mut [f64], start: usize, partial: &[f64]) {
        let (mut registers, entries) = (Registers::default(), partial.len() / self.words());
        for first in (0..entries).step_by(LANES) {
            let n = LANES.min(entries - first);
            let others: Vec<&[f64]> = (0..self.words()).map(|word| &partial[word * entries + first..][..n]).collect();
            self.merge(values, start + first, &others, &mut registers);
        }
    }

    /// The final results of some of the entries.
    pub(super) fn finished(&self, values: &[f64], which: Range<usize>) -> Vec<f64> {
        let (mut registers, entries) = (Registers::default(), values.len() / self.words());
        let mut results = Vec::with_capacity(which.len());
        for first in which.clone().step_by(LANES) {
            let n = LANES.min(which.end - first);
            let operands: Vec<&[f64]> = (0..self.words()).map(|word| &values[word * entries + first..][..n]).collect();
            results.extend_from_slice(&self.finish.compute(&operands, &mut registers)[0][..n]);
        }
        results
    }
}

/// Functions of the same numbers, as one list of operations: those that two of them need are computed once.
#[derive(Clone, Debug, PartialEq)]
struct Formulas {
    /// Operands before users; an accumulator is a parameter.
    values: Vec<LoweredKind<f64>>,
    results: Vec<usize>,
}

type Registers = Vec<Row>;

impl Formulas {
    fn of<T: Arithmetic>(functions: &[Function], parameters: usize) -> Self {
        let lowered = lower_functions::<T>(functions, parameters);
        let mut values: Vec<LoweredKind<f64>> = Vec::new();
        let mut became: Vec<usize> = Vec::with_capacity(lowered.values.len());
        for value in &lowered.values {
            let kind = value.kind.with(|id| became[id], T::to_f64);
            became.push(values.iter().position(|known| *known == kind).unwrap_or_else(|| {
                values.push(kind);
                values.len() - 1
            }));
        }
        Self { results: lowered.outputs.iter().map(|id| became[*id]).collect(), values }
    }

    /// The functions' results for each place of the operands, which have equal lengths, at most [`LANES`].
    fn compute(&self, operands: &[&[f64]], registers: &mut Registers) -> Vec<Row> {
        let n = operands[0].len();
        registers.resize(registers.len().max(self.values.len()), [0.0; LANES]);
        for (i, kind) in self.values.iter().enumerate() {
            let (before, rest) = registers.split_at_mut(i);
            let (to, of) = (&mut rest[0][..n], |id: usize| &before[id][..n]);
            match *kind {
                LoweredKind::Accum(parameter) => to.copy_from_slice(operands[parameter]),
                LoweredKind::Constant(x) => to.fill(x),
                LoweredKind::Compute(operation, _) => {
                    let of: SmallVec<[Lanes<'_>; 3]> = kind.operands().iter().map(|id| f64::lanes(of(*id))).collect();
                    let done = compute(operation, LanesMut::F64(to), &of);
                    debug_assert!(done.is_ok(), "no division of integers");
                }
                // Functions of numbers have none.
                LoweredKind::Parameter(_)
                | LoweredKind::Integer(_)
                | LoweredKind::Position(_)
                | LoweredKind::Random(..) => {
                    debug_assert!(false, "{kind:?} in a function of numbers");
                    to.fill(f64::NAN);
                }
            }
        }
        self.results.iter().map(|result| registers[*result]).collect()
    }
}
