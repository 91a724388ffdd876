//! The roles of a contraction's axes: rows, columns, or batches, by the operands that have them.

use std::ops::Range;

use crate::te::auto::bind::iteration_space::{LoopLevel, Space, points};
use crate::te::auto::cpu::elements::Loops;
use crate::te::auto::cpu::task::Task;
use crate::te::auto::order::Order;
use crate::te::auto::pattern::fused::Reduction;

/// The fewest rows, columns and outputs that make a tile worth its packing.
const ROWS: i64 = 4;
const COLUMNS: i64 = 8;
const OUTPUTS: i64 = 1024;

/// The roles of the loops over outputs.
#[derive(Clone, Debug)]
pub(in crate::te::auto::cpu) struct Roles {
    /// The loops over outputs, in the order of the outputs' memory.
    pub(in crate::te::auto::cpu) outer: Loops,
    /// Which of them are rows. Axes from `columns` on are columns; the others are batches.
    rows: Vec<bool>,
    columns: usize,
    /// The reads that differ from row to row, those that differ from column to column, and those that do neither.
    reads: [Vec<usize>; 3],
}

/// A set of reads, by their places among those of a pass.
type Movers = Vec<bool>;

impl Roles {
    /// `None` if the reduction is no contraction, or one that is too small.
    pub(in crate::te::auto::cpu) fn of(task: &Task<'_>, order: Order) -> Option<Self> {
        let Task { reduction, space, used, .. } = *task;
        let [pass] = reduction.passes.as_slice() else { return None };
        if order == Order::Shape || reduction.applies() {
            return None;
        }
        let mut axes: Vec<usize> = (0..reduction.outer).collect();
        let written = space.outputs.first()?;
        axes.sort_by_key(|axis| std::cmp::Reverse(written.strides[*axis]));
        let outer = space.levels(&axes, used, false);
        let movers: Vec<Movers> =
            outer.iter().map(|level| movers(reduction, space, level, pass.reads.clone())).collect();
        let last = movers.last()?;
        let columns = movers.iter().rposition(|own| own != last).map_or(0, |before| before + 1);
        let crosses = |own: &Movers| own.contains(&true) && !own.iter().zip(last).any(|(a, b)| *a && *b);
        let sized = |own: &Movers| -> i64 {
            let levels = movers[..columns].iter().zip(&outer).filter(|(other, _)| *other == own);
            levels.fold(1i64, |all, (_, level)| all.saturating_mul(level.extent))
        };
        let chosen = movers[..columns].iter().filter(|own| crosses(own)).max_by_key(|own| sized(own))?;
        let rows: Vec<bool> = movers.iter().enumerate().map(|(l, own)| l < columns && own == chosen).collect();
        let is_small = sized(chosen) < ROWS || points(&outer[columns..]) < COLUMNS || points(&outer) < OUTPUTS;
        if !last.contains(&true) || is_small {
            return None;
        }
        let mut reads: [Vec<usize>; 3] = Default::default();
        for (number, place) in pass.reads.clone().enumerate() {
            reads[if chosen[number] {
                0
            } else if last[number] {
                1
            } else {
                2
            }]
            .push(place);
        }
        Some(Self { outer: outer.into(), rows, columns, reads })
    }

    /// The reads that a side needs: those that differ along it, and those that differ along neither, in their order.
    pub(in crate::te::auto::cpu) fn reads_of(&self, side: usize) -> Vec<usize> {
        let mut places: Vec<usize> = self.reads[side].iter().chain(&self.reads[2]).copied().collect();
        places.sort_unstable();
        places
    }

    /// Whether a read differs from row to row, and from column to column.
    pub(super) fn read_varies(&self, place: usize) -> [bool; 2] {
        [0, 1].map(|side| self.reads[side].contains(&place))
    }

    /// The role by an axis's value.
    pub(super) fn axis_varies(&self, axis: usize) -> [bool; 2] {
        let at = self.outer.iter().position(|level| level.axis == Some(axis));
        [at.is_some_and(|at| self.rows[at]), at.is_some_and(|at| at >= self.columns)]
    }

    /// The numbers of rows and columns.
    pub(super) fn extents(&self) -> [usize; 2] {
        let rows = self.outer.iter().zip(&self.rows).filter(|(_, is_row)| **is_row).map(|(level, _)| level.extent);
        [rows.product::<i64>() as usize, points(&self.outer[self.columns..]) as usize]
    }

    /// The loops over batches.
    pub(super) fn batches(&self) -> Vec<LoopLevel> {
        let is_batch = |at: &usize| !self.rows[*at] && *at < self.columns;
        (0..self.outer.len()).filter(is_batch).map(|at| self.outer[at].clone()).collect()
    }

    /// The loops over columns, and how many loops are before them.
    pub(super) fn column_loops(&self) -> (usize, &[LoopLevel]) {
        (self.columns, &self.outer[self.columns..])
    }

    /// The indices of a row's first output, and its number among all outputs.
    pub(super) fn row(&self, batch: usize, row: usize) -> (Vec<i64>, i64) {
        let (mut batch, mut row) = (batch as i64, row as i64);
        let mut index = vec![0; self.outer.len()];
        let (mut number, mut apart) = (0, points(&self.outer[self.columns..]));
        for at in (0..self.columns).rev() {
            let (extent, rest) = (self.outer[at].extent, if self.rows[at] { &mut row } else { &mut batch });
            index[at] = *rest % extent;
            *rest /= extent;
            number += index[at] * apart;
            apart *= extent;
        }
        (index, number)
    }
}

/// The reads of a pass that are of another element at every step of a loop.
fn movers(reduction: &Reduction, space: &Space, level: &LoopLevel, reads: Range<usize>) -> Movers {
    let axis = level.axis.map(|axis| reduction.axes[axis].var());
    let by_value = axis.map(|axis| reduction.reads.depending_on(&[axis]));
    let moves = |place: usize| match &space.reads[place] {
        Some(_) => level.reads[place] != 0,
        None => by_value.as_ref().is_some_and(|by_value| by_value[place]),
    };
    reads.map(moves).collect()
}
