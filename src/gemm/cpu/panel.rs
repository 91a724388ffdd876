//! Epilogues with phases, some rows at a time.
//!
//! If rows do not depend on each other, a thread takes a panel (a row of tiles) through all parts of the epilogue. The
//! parts' intermediates stay in its caches, and B stays packed for all panels. Otherwise parts run one after another
//! over the whole product; for large B that is faster.
//!
//! In both cases, parts without a product take a few rows at a time, so that these stay in the nearest caches.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::element::{Arithmetic, View};
use super::machine::Machine;
use super::product::KEPT_BYTES;
use super::program::TileReduction;
use super::programs::{Prepared, Worker};
use super::reduce::Results;
use super::slots::{self, SlotMemory, Slots};
use super::tile::{Extents, STRIP, Tile, TileShape, Tiles, are_long};
use super::{Run, Whole, threads};
use crate::evt::{Axis, BroadcastClass, Form, Reduction};
use crate::gemm::problem::Error;
use crate::parallel;
use crate::simd::stream;
use crate::sync::lock;

/// The number of elements that parts without a product take at a time.
const FEW_ROWS: usize = 1 << 16;

/// With this many columns, parts without a GEMM compute whole rows, each as several of a loop's rows in one piece of
/// memory. (Zen 4, softmax after 2048×16384×64: 32 ms in place of 37 tile by tile.)
const WIDE: usize = 4 * STRIP;

/// The fewest long panels that a thread takes. (Zen 5, 2 threads, RMSNorm after 256×32000×64: 5.0 ms part by part, 5.9 by four
/// panels.)
const SEVERAL: usize = 4;

/// Parts that a panel goes through one after the other.
struct Stretch {
    parts: Range<usize>,
    /// How many rows at a time; `None` for a part with a product, or with results of more than a row: all of the panel's.
    few: Option<usize>,
}

/// The memory in which the parts of a panel find the intermediates of earlier parts.
#[derive(Clone, Copy)]
enum Kept<'a> {
    /// In memory for one panel, of each thread.
    OfPanel(&'a SlotMemory),
    /// In that of the whole product.
    Whole(&'a [View]),
}

/// A part that panels go through.
struct Passed<'a, T> {
    number: usize,
    prepared: &'a Prepared<T>,
    machine: Option<Arc<Machine>>,
    /// The columns of the pieces in which it computes whole rows, if it does.
    pieces: Option<usize>,
}

/// A thread's state for a part.
struct Own<T> {
    worker: Worker<T>,
    /// The batch whose shared column values are in the frame, for whole rows.
    rows_of: Option<usize>,
}

/// A tile's partial reductions. Row reductions that are complete after a row of tiles are not listed.
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

    /// Whether it is faster panel by panel than part by part: there is a panel for every thread, of long ones several, and a
    /// thread packs B once for all of its panels. (Zen 4, softmax, 2 threads: 44 ms in place of 46 after 4096×4096×256, of whose
    /// B 4 MiB are packed, but 115 in place of 93 after 2048×16384×256.)
    pub(super) fn panels_are_best(&self) -> bool {
        let tiles = Tiles::within(self.extents, self.tile);
        let least =
            if are_long(self.tile.m, self.extents.n) { SEVERAL * parallel::threads() } else { parallel::threads() };
        let is_kept = || {
            let sizes = self.products.iter().map(|product| product.b.element.size());
            let bytes = |size: usize| self.extents.n.saturating_mul(self.extents.k).saturating_mul(size);
            sizes.map(bytes).fold(0, usize::saturating_add) <= KEPT_BYTES
        };
        self.extents.is_little() || tiles.count() / tiles.across() >= least && is_kept()
    }

    /// Runs all parts panel by panel.
    ///
    /// # Errors
    /// There is not enough memory for a panel of what they leave. Then nothing has been written.
    pub(super) fn by_panels<T: Arithmetic>(&self, prepared: &[Prepared<T>], memory: &SlotMemory) -> Result<(), Error> {
        let absent = slots::absent(&self.phases.slots, self.extents);
        let stretches = self.stretches(prepared, &absent);
        self.panels(prepared, &stretches, &Tiles::within(self.extents, self.tile), Kept::OfPanel(memory))
    }

    /// Runs one part after another over the whole product, and some together for a few rows at a time.
    ///
    /// # Errors
    /// There is not enough memory for what they leave. Then nothing has been written.
    pub(super) fn by_parts<T: Arithmetic>(&self, prepared: &[Prepared<T>], memory: &SlotMemory) -> Result<(), Error> {
        let mut slots = memory.take(&self.phases.slots, self.extents)?;
        let held = memory.views(&mut slots, &self.phases.slots, self.extents);
        for stretch in self.stretches(prepared, &held) {
            if let Some(few) = stretch.few {
                let shape = TileShape { m: few, n: self.tile.computable().n };
                self.panels(prepared, &[stretch], &Tiles::new(self.extents, shape), Kept::Whole(&held))?;
                continue;
            }
            for part in stretch.parts {
                let run = self.part(&self.phases.parts[part], &held);
                run.all_tiles(&prepared[part], run.machine(&prepared[part]).as_deref());
            }
        }
        memory.keep(slots);
        Ok(())
    }

    /// Takes rows of tiles through parts that follow each other.
    ///
    /// # Errors
    /// No thread has memory for a panel. Then nothing has been written.
    fn panels<T: Arithmetic>(
        &self,
        prepared: &[Prepared<T>],
        stretches: &[Stretch],
        tiles: &Tiles<'_>,
        kept: Kept<'_>,
    ) -> Result<(), Error> {
        let panels = tiles.count() / tiles.across();
        let absent = slots::absent(&self.phases.slots, self.extents);
        let passed: Vec<Vec<Passed<'_, T>>> =
            stretches.iter().map(|stretch| self.passed(prepared, stretch, tiles, &absent)).collect();
        let next = AtomicUsize::new(0);
        let left = Mutex::new(Vec::new());
        let failure = Mutex::new(None);
        parallel::together(threads(self.extents, panels), || {
            let _fence = stream::Fence;
            let largest = tiles.largest();
            let own = |part: &Passed<'_, T>| {
                let has_tiles = part.pieces.is_none() && part.prepared.program.has_elements();
                let n = if has_tiles { largest.n } else { self.extents.n };
                Own { worker: part.prepared.worker(TileShape { n, ..largest }), rows_of: None }
            };
            let mut own: Vec<Vec<Own<T>>> = passed.iter().map(|parts| parts.iter().map(own).collect()).collect();
            let extents = Extents { batch: 1, m: largest.m, ..self.extents };
            let taken = match kept {
                Kept::OfPanel(memory) => memory.take(&self.phases.slots, extents),
                Kept::Whole(_) => Ok(Slots::default()),
            };
            let mut own_slots = match taken {
                Ok(slots) => slots,
                // Its panels are left to the others.
                Err(error) => return *lock(&failure) = Some(error),
            };
            let mut own_left = Vec::new();
            loop {
                let panel = next.fetch_add(1, Ordering::Relaxed);
                if panel >= panels {
                    break;
                }
                let numbers = panel * tiles.across()..(panel + 1) * tiles.across();
                let Tile { batch, rows, .. } = tiles.tile(numbers.start);
                let slots: Cow<'_, [View]> = match kept {
                    Kept::OfPanel(memory) => {
                        let views = memory.views(&mut own_slots, &self.phases.slots, extents);
                        views.iter().map(|slot| of_panel(slot, batch, rows.start)).collect()
                    }
                    Kept::Whole(slots) => slots.into(),
                };
                for ((stretch, parts), own) in stretches.iter().zip(&passed).zip(&mut own) {
                    for rows in pieces(&rows, stretch.few.unwrap_or(usize::MAX)) {
                        for (part, own) in parts.iter().zip(&mut *own) {
                            let run = self.part(&self.phases.parts[part.number], &slots);
                            own_left.extend(run.panel(part, tiles, numbers.clone(), &rows, own));
                        }
                    }
                }
            }
            if let Kept::OfPanel(memory) = kept {
                memory.keep(own_slots);
            }
            let used = passed.iter().flatten().zip(own.into_iter().flatten());
            used.for_each(|(part, own)| part.prepared.keep(own.worker));
            lock(&left).append(&mut own_left);
        });
        if let (0, Some(error)) = (next.into_inner(), lock(&failure).take()) {
            return Err(error);
        }
        let mut left = std::mem::take(&mut *lock(&left));
        left.sort_unstable_by_key(|left| (left.part, left.tile));
        for Passed { number, prepared, .. } in passed.iter().flatten() {
            // None of these is a slot's.
            let run = self.part(&self.phases.parts[*number], &absent);
            for (i, reduction) in prepared.program.reductions.iter().enumerate() {
                if !run.ends_with_row(reduction) {
                    let of_part = left.iter().filter(|left| left.part == *number);
                    run.finish::<T>(reduction, of_part.map(|left| (tiles.tile(left.tile), &*left.partials[i])));
                }
            }
        }
        Ok(())
    }

    /// The parts of a stretch.
    fn passed<'a, T: Arithmetic>(
        &self,
        prepared: &'a [Prepared<T>],
        stretch: &Stretch,
        tiles: &Tiles<'_>,
        slots: &[View],
    ) -> Vec<Passed<'a, T>> {
        let (columns, piece) = (self.extents.n, tiles.largest().n);
        let part = |number: usize| {
            let prepared = &prepared[number];
            let machine = self.part(&self.phases.parts[number], slots).machine(prepared);
            let is_wide = stretch.few.is_some() && columns >= WIDE;
            let takes_rows = is_wide && machine.as_ref().is_some_and(|machine| machine.takes_rows(columns, piece));
            Passed { number, prepared, machine, pieces: takes_rows.then_some(piece) }
        };
        stretch.parts.clone().map(part).collect()
    }

    /// All parts, in stretches. Neighbouring parts go through a panel together if they have no GEMM and leave only
    /// rows' results. Groups exclude this: their rows are their own.
    fn stretches<T: Arithmetic>(&self, prepared: &[Prepared<T>], slots: &[View]) -> Vec<Stretch> {
        let few = (FEW_ROWS / self.extents.n.max(1)).max(1);
        let mut stretches: Vec<Stretch> = Vec::new();
        for (part, prepared) in prepared.iter().enumerate() {
            let run = self.part(&self.phases.parts[part], slots);
            let program = &prepared.program;
            let has_rows = program.accumulators.is_empty() && program.reductions.iter().all(|r| run.ends_with_row(r));
            let few = (has_rows && self.groups.is_none()).then_some(few);
            match stretches.last_mut() {
                Some(last) if few.is_some() && last.few.is_some() => last.parts.end = part + 1,
                _ => stretches.push(Stretch { parts: part..part + 1, few }),
            }
        }
        for stretch in &mut stretches {
            // Where only rows have something, all of them have it at once.
            if !prepared[stretch.parts.clone()].iter().any(|part| part.program.has_elements()) {
                stretch.few = None;
            }
        }
        stretches
    }
}

impl Run<'_> {
    /// Computes some rows of a row of tiles, which have these numbers, and stores the results that end with it. Gives what is left
    /// of the other reductions.
    fn panel<T: Arithmetic>(
        &self,
        part: &Passed<'_, T>,
        tiles: &Tiles<'_>,
        numbers: Range<usize>,
        rows: &Range<usize>,
        own: &mut Own<T>,
    ) -> Vec<Left> {
        let program = &part.prepared.program;
        let bound = self.bound(program, part.machine.as_deref());
        if let Some(piece) = part.pieces {
            let first = tiles.tile(numbers.start).of_rows(rows.clone());
            let tile = Tile { columns: 0..self.extents.n, ..first };
            // The first row of a batch is where vectors are stored.
            let has_rows = own.rows_of == Some(tile.batch) && !tile.is_top;
            // SAFETY: as for the tiles; this thread alone has the panel.
            if let Some(results) = unsafe { bound.whole_rows(&tile, piece, has_rows, &mut own.worker.frame) } {
                own.rows_of = Some(tile.batch);
                for (reduction, results) in program.reductions.iter().zip(results) {
                    self.finish_rows::<T>(reduction, std::iter::once((tile.clone(), results)));
                }
                return Vec::new();
            }
            own.rows_of = None;
        }
        let has_elements = program.has_elements();
        let numbers = if has_elements { numbers } else { numbers.start..numbers.start + 1 };
        let tile = |i: usize| {
            let mut tile = tiles.tile(i).of_rows(rows.clone());
            if !has_elements {
                tile.columns = 0..self.extents.n;
            }
            let partials = self.tile(&bound, &tile, &mut own.worker);
            (i, tile, partials)
        };
        let mut done: Vec<(usize, Tile, Vec<Vec<f64>>)> = numbers.map(tile).collect();
        for (i, reduction) in program.reductions.iter().enumerate() {
            if self.ends_with_row(reduction) {
                let parts = done.iter_mut().map(|(_, tile, partials)| {
                    let partial = std::mem::take(&mut partials[i]);
                    (tile.clone(), partial)
                });
                self.finish_rows::<T>(reduction, parts);
            }
        }
        let is_left = |partials: &[Vec<f64>]| partials.iter().any(|partial| !partial.is_empty());
        let rest = done.into_iter().filter(|(_, _, partials)| is_left(partials));
        rest.map(|(tile, _, partials)| Left { part: part.number, tile, partials }).collect()
    }

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
        for stored in view.stretches_of_vector(rows.clone()) {
            let (which, address) =
                (stored.start - rows.start..stored.end - rows.start, view.at(batch, stored.start, 0));
            // SAFETY: as for the tiles; this thread alone has the panel.
            unsafe { results.store::<T>(which, view.element, address, view.strides[1]) };
        }
    }
}

/// Rows, this many at a time; also no rows.
fn pieces(rows: &Range<usize>, step: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows.len().div_ceil(step).max(1)).map(move |i| {
        let first = rows.start + i * step;
        first..rows.end.min(first.saturating_add(step))
    })
}

/// A slot of one panel, addressed as the whole GEMM's. The panel has one batch's rows from `row` on.
fn of_panel(slot: &View, batch: usize, row: usize) -> View {
    let [of_batch, of_row, _] = slot.strides;
    let elements = of_batch * batch as isize + of_row * row as isize;
    View { pointer: slot.pointer.wrapping_offset(-elements * slot.element.size() as isize), ..*slot }
}
