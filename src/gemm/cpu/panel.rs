//! Epilogues with phases whose rows have nothing to do with each other, computed by panels: a thread takes a row of tiles
//! through all parts of the epilogue, one after another, while what they leave for each other is in its caches. Parts
//! without a product take the panel's rows a few at a time, so that it is in those that are nearest.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::element::{Arithmetic, View};
use super::machine::Machine;
use super::program::TileReduction;
use super::programs::{Prepared, Worker};
use super::reduce::Results;
use super::slots::{self, SlotMemory};
use super::tile::{Extents, Tile, Tiles, are_long};
use super::{Run, Whole, threads};
use crate::evt::{Axis, BroadcastClass, Form, Reduction};
use crate::parallel;
use crate::sync::lock;

/// The number of elements that parts without a product take at a time.
const FEW_ROWS: usize = 1 << 16;

/// The fewest long panels that a thread takes. (Zen 5, 2 threads, RMSNorm after 256×32000×64: 5.0 ms part by part, 5.9 by four
/// panels.)
const SEVERAL: usize = 4;

/// Parts that a panel goes through one after the other.
struct Stretch {
    parts: Range<usize>,
    /// How many rows at a time.
    rows: usize,
}

/// What a tile of a part left of its reductions. Those that end with the row of tiles have left nothing.
struct Left {
    part: usize,
    tile: usize,
    partials: Vec<Vec<f64>>,
}

impl Whole<'_> {
    /// Whether panels have nothing to do with each other: what parts leave is the rows' own.
    pub(super) fn has_panels(&self) -> bool {
        let of_rows = |class| matches!(class, BroadcastClass::Tensor | BroadcastClass::ColumnVector);
        self.phases.parts.len() > 1 && self.phases.slots.iter().all(|slot| of_rows(slot.class) && slot.batched)
    }

    /// Whether there is a panel for every thread; of long ones several, or most of what a thread does is to pack all of B.
    pub(super) fn panels_are_enough(&self) -> bool {
        let tiles = Tiles::within(self.extents, self.tile);
        let least =
            if are_long(self.tile.m, self.extents.n) { SEVERAL * parallel::threads() } else { parallel::threads() };
        self.extents.is_little() || tiles.count() / tiles.across() >= least
    }

    /// Runs all parts panel by panel.
    pub(super) fn by_panels<T: Arithmetic>(&self, prepared: &[Prepared<T>], memory: &SlotMemory) {
        let tiles = Tiles::within(self.extents, self.tile);
        let panels = tiles.count() / tiles.across();
        let absent = slots::absent(&self.phases.slots, self.extents);
        let machines: Vec<Option<Arc<Machine>>> = (self.phases.parts.iter().zip(prepared))
            .map(|(part, prepared)| self.part(part, &absent).machine(prepared))
            .collect();
        let stretches = self.stretches(prepared, &absent);
        let next = AtomicUsize::new(0);
        let left = Mutex::new(Vec::new());
        parallel::together(threads(self.extents, panels), || {
            let mut workers: Vec<Worker<T>> = prepared.iter().map(|part| part.worker(tiles.largest())).collect();
            let extents = Extents { batch: 1, m: tiles.largest().m, ..self.extents };
            let mut kept = memory.take(&self.phases.slots, extents);
            let mut own = Vec::new();
            loop {
                let panel = next.fetch_add(1, Ordering::Relaxed);
                if panel >= panels {
                    break;
                }
                let numbers = panel * tiles.across()..(panel + 1) * tiles.across();
                let Tile { batch, rows, .. } = tiles.tile(numbers.start);
                let views = memory.views(&mut kept, &self.phases.slots, extents);
                let slots: Vec<View> = views.iter().map(|slot| of_panel(slot, batch, rows.start)).collect();
                for Stretch { parts, rows: step } in &stretches {
                    for rows in pieces(&rows, *step) {
                        for part in parts.clone() {
                            let run = self.part(&self.phases.parts[part], &slots);
                            let bound = run.bound(&prepared[part].program, machines[part].as_deref());
                            let tile = |i: usize| {
                                let tile = tiles.tile(i).of_rows(rows.clone());
                                let partials = run.tile(&bound, &tile, &mut workers[part]);
                                (i, tile, partials)
                            };
                            let mut done: Vec<(usize, Tile, Vec<Vec<f64>>)> = numbers.clone().map(tile).collect();
                            for (i, reduction) in prepared[part].program.reductions.iter().enumerate() {
                                if run.ends_with_row(reduction) {
                                    let parts = done.iter_mut().map(|(_, tile, partials)| {
                                        let partial = std::mem::take(&mut partials[i]);
                                        (tile.clone(), partial)
                                    });
                                    run.finish_rows::<T>(reduction, parts);
                                }
                            }
                            let left = |partials: &[Vec<f64>]| partials.iter().any(|partial| !partial.is_empty());
                            let rest = done.into_iter().filter(|(_, _, partials)| left(partials));
                            own.extend(rest.map(|(tile, _, partials)| Left { part, tile, partials }));
                        }
                    }
                }
            }
            memory.keep(kept);
            workers.into_iter().zip(prepared).for_each(|(worker, prepared)| prepared.keep(worker));
            lock(&left).append(&mut own);
        });
        let mut left = std::mem::take(&mut *lock(&left));
        left.sort_unstable_by_key(|left| (left.part, left.tile));
        for (part, prepared) in prepared.iter().enumerate() {
            // None of these is a slot's.
            let run = self.part(&self.phases.parts[part], &absent);
            for (i, reduction) in prepared.program.reductions.iter().enumerate() {
                if !run.ends_with_row(reduction) {
                    let of_part = left.iter().filter(|left| left.part == part);
                    run.finish::<T>(reduction, of_part.map(|left| (tiles.tile(left.tile), &*left.partials[i])));
                }
            }
        }
    }

    /// All parts. Those that have no product and leave nothing but results of rows may go through a panel together.
    fn stretches<T: Arithmetic>(&self, prepared: &[Prepared<T>], slots: &[View]) -> Vec<Stretch> {
        let few = (FEW_ROWS / self.extents.n.max(1)).max(4);
        let mut stretches: Vec<Stretch> = Vec::new();
        for (part, prepared) in prepared.iter().enumerate() {
            let run = self.part(&self.phases.parts[part], slots);
            let program = &prepared.program;
            let is_of_rows = program.accumulators.is_empty() && program.reductions.iter().all(|r| run.ends_with_row(r));
            let rows = if is_of_rows { few } else { usize::MAX };
            match stretches.last_mut() {
                Some(last) if is_of_rows && last.rows == few => last.parts.end = part + 1,
                _ => stretches.push(Stretch { parts: part..part + 1, rows }),
            }
        }
        stretches
    }
}

impl Run<'_> {
    /// Whether a reduction is complete when a row of tiles is.
    fn ends_with_row(&self, part: &TileReduction) -> bool {
        let complete = Reduction { axis: Axis::Row, batch: false, op: part.op, form: Form::Complete };
        self.tree.outputs()[part.output].reduction() == Some(complete)
    }

    /// Combines the parts of a row of tiles, in order, and stores the result.
    fn finish_rows<T: Arithmetic>(&self, part: &TileReduction, parts: impl Iterator<Item = (Tile, Vec<f64>)>) {
        let mut parts = parts.peekable();
        let Some((first, _)) = parts.peek() else { return };
        let (batch, rows) = (first.batch, first.rows.clone());
        let mut results = Results::new(part.clone(), rows.len());
        for (tile, partial) in parts {
            results.combine(0, &tile, self.extents.n, &partial);
        }
        let view = &self.outputs[part.output];
        // SAFETY: as for the tiles; this thread alone has the panel.
        unsafe { results.store::<T>(0..rows.len(), view.element, view.at(batch, rows.start, 0), view.strides[1]) };
    }
}

/// Rows, this many at a time; also no rows.
fn pieces(rows: &Range<usize>, step: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows.len().div_ceil(step).max(1)).map(move |i| {
        let first = rows.start + i * step;
        first..rows.end.min(first.saturating_add(step))
    })
}

/// A slot of one panel as if it were the whole product's, of which the panel has one batch's rows from `row` on.
fn of_panel(slot: &View, batch: usize, row: usize) -> View {
    let [of_batch, of_row, _] = slot.strides;
    let elements = of_batch * batch as isize + of_row * row as isize;
    View { pointer: slot.pointer.wrapping_offset(-elements * slot.element.size() as isize), ..*slot }
}
