//! Runs direct reductions: combines rows of memory into lanes.

use std::ops::Range;

use super::plan::{Direct, DirectValue};
use crate::lane::{Class, Register};
use crate::parallel;
use crate::simd::stream::Fence;
use crate::te::auto::cpu::elements::Along;
use crate::te::auto::cpu::fold_lanes::{fold_block, fold_lanes};
use crate::te::auto::cpu::fold_memory::{FoldedRows, FromMemory, Outputs, RegisterLanes};
use crate::te::auto::cpu::memory::{decode, origin, runs};
use crate::te::auto::cpu::reduce_job::Job;
use crate::te::auto::cpu::reduce_tree::part_of;
use crate::te::auto::cpu::registers::{LANES, Registers, by_class};
use crate::te::error::TeError;

/// The number of neighbouring outputs in a task: their lanes stay in a near cache, and a row of them is long enough for
/// the CPU's prefetcher.
const WIDTH: i64 = 1 << 14;
/// Fewer rows than `FEW` are combined in one pass. A task then has `NARROW` outputs: their lanes stay in the
/// first-level cache until they are stored.
const FEW: i64 = 8;
const NARROW: i64 = 1 << 12;
/// The number of elements of all outputs of a task. If something is computed from each element again, they should be in
/// a near cache then.
const ELEMENTS: i64 = 1 << 16;
const AGAIN: i64 = 1 << 15;
/// The number of outputs of a task whose elements share cache lines, and of the elements read from each at a time.
const SHARERS: i64 = 64;
const SHARED: i64 = 1 << 12;
/// Bytes of a cache line.
const LINE: i64 = 64;

/// Some outputs: the first, and how many.
#[derive(Clone, Copy)]
struct Chunk {
    first: i64,
    count: usize,
}

impl Job {
    /// Lanes for the outputs of a chunk.
    pub(in crate::te::auto) fn sums(&self, direct: &Direct) -> Registers {
        let lanes = if self.register_lanes(direct).is_some() { 1 } else { self.tree.lanes as usize };
        Registers::of(direct.counts, self.chunk_width(direct) as usize * lanes)
    }

    /// Computes and stores some outputs, each from all of its elements.
    ///
    /// # Safety
    /// Nobody else may write what is read, or access these outputs, during the call.
    pub(in crate::te::auto) unsafe fn run_chunk(
        &self,
        direct: &Direct,
        (registers, sums): (&mut Registers, &mut Registers),
        first: i64,
        count: usize,
    ) -> Result<(), TeError> {
        let chunk = Chunk { first, count };
        // SAFETY: the caller's promise.
        unsafe {
            self.fold_part(direct, registers, sums, chunk, 0..self.count())?;
            self.store_chunk(direct, registers, sums, chunk)
        }
    }

    /// Runs a reduction whose outputs are cut into parts.
    ///
    /// # Safety
    /// Nobody else may access the tensors during the call.
    pub(in crate::te::auto) unsafe fn run_parts_directly(&self, direct: &Direct) -> Result<(), TeError> {
        let (outputs, width, parts) = (self.count_outputs(), self.chunk_width(direct), self.tree.parts);
        let chunk = |number: i64| {
            let first = number * width;
            Chunk { first, count: width.min(outputs - first) as usize }
        };
        let chunks = (outputs + width - 1) / width;
        let partials = parallel::try_map(0..(chunks * parts) as usize, |task| {
            let task = task as i64;
            let (mut registers, mut sums) = (Registers::new(&self.program), self.sums(direct));
            let elements = part_of(0..self.count(), task % parts, parts);
            // SAFETY: the caller's promise.
            unsafe { self.fold_part(direct, &mut registers, &mut sums, chunk(task / parts), elements) }?;
            Ok::<Registers, TeError>(sums.shortened(width as usize))
        })?;
        let workspace = || (Registers::new(&self.program), Fence);
        parallel::try_for_each(0..chunks as usize, workspace, |(registers, _), number| {
            let number = number as i64;
            let partials = &partials[(number * parts) as usize..((number + 1) * parts) as usize];
            let sums = self.combine_directly(direct, registers, partials, chunk(number))?;
            // SAFETY: the caller's promise; the outputs of this chunk belong to this task.
            unsafe { self.store_chunk(direct, registers, &sums, chunk(number)) }
        })
    }

    /// The number of outputs of a chunk.
    pub(in crate::te::auto) fn chunk_width(&self, direct: &Direct) -> i64 {
        let (outputs, count) = (self.count_outputs(), self.count());
        let fair = outputs / self.pieces;
        if self.tree.across {
            let most = if count < FEW { NARROW } else { WIDTH };
            return if self.tree.parts > 1 { most } else { fair.clamp(LANES as i64, most) }.min(outputs.max(1));
        }
        let elements = if self.code.apply.is_some() { AGAIN } else { ELEMENTS };
        if self.register_lanes(direct).is_some() {
            let width = if self.tree.parts > 1 { 1 } else { fair.min(elements / count.max(1)) };
            return width.clamp(1, LANES as i64);
        }
        let shares = direct.values.iter().any(|value| self.shares_lines(value));
        let width = if shares || self.tree.parts > 1 { SHARERS } else { fair.min(elements / count.max(1)) };
        width.clamp(1, outputs.clamp(1, LANES as i64))
    }

    /// The number of lanes of an output, if they stay in registers while its elements are combined into them.
    fn register_lanes(&self, direct: &Direct) -> Option<RegisterLanes> {
        let alone = !self.tree.across && !self.tree.exact && direct.follows(&self.inner);
        if alone { RegisterLanes::of(self.tree.lanes) } else { None }
    }

    /// Whether elements of neighbouring outputs share cache lines.
    fn shares_lines(&self, value: &DirectValue) -> bool {
        let (outer, inner) = (value.step(&self.outer).abs(), value.step(&self.inner).abs());
        outer < inner && outer * (value.read.element.size() as i64) < LINE
    }

    /// Whether the outputs are interleaved without gaps: the first elements of all are neighbours, then the second
    /// ones. The lanes of all outputs then read one run of memory.
    fn lie_mixed(&self, direct: &Direct, chunk: Chunk) -> bool {
        let [outputs] = &*self.outer else { return false };
        let dense = |value: &DirectValue| {
            value.step(&self.outer) == 1 && value.step(&self.inner) == outputs.extent && self.inner.len() == 1
        };
        chunk.count > 1 && chunk.count as i64 == outputs.extent && direct.values.iter().all(dense)
    }

    /// Combines some elements of the chunk's outputs into the first lanes of `sums`.
    ///
    /// # Safety
    /// Nobody may write what is read during the call.
    unsafe fn fold_part(
        &self,
        direct: &Direct,
        registers: &mut Registers,
        sums: &mut Registers,
        chunk: Chunk,
        elements: Range<i64>,
    ) -> Result<(), TeError> {
        // SAFETY: the caller's promise.
        unsafe { self.begin(direct, registers, sums, chunk) }?;
        if self.tree.across {
            // SAFETY: the caller's promise.
            unsafe { self.fold_across(direct, sums, chunk, elements) };
            return Ok(());
        }
        if let Some(lanes) = self.register_lanes(direct) {
            // SAFETY: the caller's promise.
            unsafe { self.fold_outputs(direct, sums, chunk, elements, lanes) };
            return Ok(());
        }
        let mixed = self.lie_mixed(direct, chunk);
        let stands = if mixed { Chunk { count: 1, ..chunk } } else { chunk };
        // SAFETY: the caller's promise.
        unsafe { self.fold_along(direct, sums, stands, elements, mixed) };
        let lanes = self.tree.lanes as usize;
        for value in &direct.values {
            by_class!(value.lanes.class, T => {
                let sums = &mut sums.get_mut::<T>(value.lanes)[..chunk.count * lanes];
                if mixed {
                    let apart: Vec<T> = (0..sums.len()).map(|i| sums[i % lanes * chunk.count + i / lanes]).collect();
                    sums.copy_from_slice(&apart);
                }
                fold_lanes(value.combine, sums, lanes);
            });
        }
        Ok(())
    }

    /// Sets the lanes to the identities or, in exact order, to the initial values.
    ///
    /// # Safety
    /// Nobody may write what is read during the call.
    unsafe fn begin(
        &self,
        direct: &Direct,
        registers: &mut Registers,
        sums: &mut Registers,
        chunk: Chunk,
    ) -> Result<(), TeError> {
        if let Some((steps, init)) = self.code.init.as_ref().filter(|_| self.tree.exact) {
            for first in (0..chunk.count).step_by(LANES) {
                let lanes = (chunk.count - first).min(LANES);
                // SAFETY: the caller's promise.
                unsafe { self.fill_outputs(registers, chunk.first + first as i64, lanes) }?;
                registers.run(steps, lanes)?;
                for (value, init) in direct.values.iter().zip(init) {
                    sums.take_lanes((value.lanes, first), registers, (*init, 0), lanes);
                }
            }
            return Ok(());
        }
        registers.run(&self.code.identity.0, 1)?;
        for (value, identity) in direct.values.iter().zip(&self.code.identity.1) {
            by_class!(identity.class, T => {
                sums.get_mut::<T>(value.lanes).fill(registers.get::<T>(*identity)[0]);
            });
        }
        Ok(())
    }

    /// Combines elements if lanes are outputs.
    ///
    /// # Safety
    /// Nobody may write what is read during the call.
    unsafe fn fold_across(&self, direct: &Direct, sums: &mut Registers, chunk: Chunk, elements: Range<i64>) {
        // For a tuple, values of the same elements are read while these are in a near cache.
        let most = if direct.values.len() > 1 { 8 } else { i64::MAX };
        for run in runs(&self.outer, chunk.first, chunk.count) {
            let mut at = elements.start;
            while at < elements.end {
                let inner = decode(&self.inner, at);
                let rows = self.run_length(&inner).min(elements.end - at).min(most);
                for value in &direct.values {
                    let offset = value.offset(&self.outer, &run.index) + value.offset(&self.inner, &inner);
                    let rows = FoldedRows {
                        address: value.address(offset),
                        element: value.read.element,
                        apart: value.step(&self.outer) as isize,
                        count: rows as usize,
                        stride: value.step(&self.inner) as isize,
                    };
                    // SAFETY: the space has checked that reads of points within the loops are inside their tensors.
                    unsafe { value.fold(sums, run.lane..run.lane + run.count, &rows) };
                }
                at += rows;
            }
        }
    }

    /// Combines elements if lanes share an output and its elements are contiguous. The first lanes of `sums` must
    /// hold the identities, and get the totals.
    ///
    /// # Safety
    /// Nobody may write what is read during the call.
    unsafe fn fold_outputs(
        &self,
        direct: &Direct,
        sums: &mut Registers,
        chunk: Chunk,
        elements: Range<i64>,
        lanes: RegisterLanes,
    ) {
        // For a tuple, values of the same elements are read while these are in a near cache.
        let most = if direct.values.len() > 1 { 1 } else { chunk.count };
        let inner = decode(&self.inner, elements.start);
        for run in runs(&self.outer, chunk.first, chunk.count) {
            for first in (0..run.count).step_by(most) {
                for value in &direct.values {
                    let apart = value.step(&self.outer);
                    let offset = value.offset(&self.outer, &run.index) + value.offset(&self.inner, &inner);
                    let outputs = Outputs {
                        address: value.address(offset + first as i64 * apart),
                        element: value.read.element,
                        count: (elements.end - elements.start) as usize,
                        apart: apart as isize,
                        lanes,
                    };
                    let first = run.lane + first;
                    by_class!(value.lanes.class, T => {
                        let totals = &mut sums.get_mut::<T>(value.lanes)[first..][..most.min(run.lane + run.count - first)];
                        let identity = totals[0];
                        // SAFETY: the space has checked that reads of points within the loops are inside their tensors.
                        unsafe { T::fold_outputs(value.combine, totals, identity, &outputs) };
                    });
                }
            }
        }
    }

    /// Combines elements if lanes share an output. If outputs are interleaved, the chunk's first one stands for all.
    ///
    /// # Safety
    /// Nobody may write what is read during the call.
    unsafe fn fold_along(
        &self,
        direct: &Direct,
        sums: &mut Registers,
        chunk: Chunk,
        elements: Range<i64>,
        mixed: bool,
    ) {
        let lanes = self.tree.lanes;
        // The number of lanes of an element, and their distance.
        let outputs = if mixed { self.outer[0].extent } else { 1 };
        let shares = chunk.count > 1 && direct.values.iter().any(|value| self.shares_lines(value));
        let several = chunk.count > 1 || direct.values.len() > 1;
        let most = if shares || several { SHARED.max(lanes) } else { i64::MAX } / lanes * lanes;
        let outer: Vec<_> = (0..chunk.count as i64).map(|i| decode(&self.outer, chunk.first + i)).collect();
        let mut at = elements.start;
        while at < elements.end {
            let inner = decode(&self.inner, at);
            let run = self.run_length(&inner).min(elements.end - at).min(most);
            let (count, rest) = ((run / lanes) as usize, (run % lanes) as usize);
            for (output, outer) in outer.iter().enumerate() {
                let first = output * lanes as usize;
                let (all, rest) = ((lanes * outputs) as usize, rest * outputs as usize);
                for value in &direct.values {
                    let step = value.step(&self.inner);
                    let offset = value.offset(&self.outer, outer) + value.offset(&self.inner, &inner);
                    let rows = |offset: i64, count: usize| FoldedRows {
                        address: value.address(offset),
                        element: value.read.element,
                        apart: if mixed { 1 } else { step as isize },
                        count,
                        stride: (step * lanes) as isize,
                    };
                    // SAFETY: the space has checked that reads of points within the loops are inside their tensors.
                    unsafe {
                        value.fold(sums, first..first + all, &rows(offset, count));
                        if rest > 0 {
                            let offset = offset + run / lanes * lanes * step;
                            value.fold(sums, first..first + rest, &rows(offset, 1));
                        }
                    }
                }
            }
            at += run;
        }
    }

    /// The number of elements from a point on until the last of the inner loops ends.
    fn run_length(&self, inner: &[i64]) -> i64 {
        self.inner.last().zip(inner.last()).map_or(1, |(level, at)| level.extent - at)
    }

    /// Combines the parts of some outputs in order.
    fn combine_directly(
        &self,
        direct: &Direct,
        registers: &mut Registers,
        partials: &[Registers],
        chunk: Chunk,
    ) -> Result<Registers, TeError> {
        let finish = self.tree.finish.unwrap_or(1);
        let mut sums = Registers::of(direct.counts, chunk.count * finish as usize);
        registers.run(&self.code.identity.0, 1)?;
        for (value, identity) in direct.values.iter().zip(&self.code.identity.1) {
            by_class!(value.lanes.class, T => {
                let sums = sums.get_mut::<T>(value.lanes);
                sums.fill(registers.get::<T>(*identity)[0]);
                for lane in 0..finish {
                    for part in part_of(0..partials.len() as i64, lane, finish) {
                        let part = &partials[part as usize].get::<T>(value.lanes)[..chunk.count];
                        if finish == 1 {
                            fold_block(value.combine, sums, part);
                            continue;
                        }
                        for (output, x) in part.iter().enumerate() {
                            let at = output * finish as usize + lane as usize;
                            fold_block(value.combine, &mut sums[at..=at], std::slice::from_ref(x));
                        }
                    }
                }
                fold_lanes(value.combine, sums, finish as usize);
            });
        }
        Ok(sums)
    }

    /// For each output, the lanes of its total, if outputs are the totals themselves.
    fn stored_totals(&self, direct: &Direct) -> Option<Vec<(usize, Register)>> {
        let code = &self.code;
        let starts = code.init.is_some() && !self.tree.exact;
        if starts || code.apply.is_some() || !code.finish.steps.is_empty() {
            return None;
        }
        let lanes = |register| code.left.iter().position(|left| *left == register).map(|i| direct.values[i].lanes);
        code.finish.results.iter().map(|(place, register)| Some((*place, lanes(*register)?))).collect()
    }

    /// Stores the outputs of a chunk, whose totals are in the first lanes of `sums`.
    ///
    /// # Safety
    /// Nobody else may access these outputs during the call.
    unsafe fn store_chunk(
        &self,
        direct: &Direct,
        registers: &mut Registers,
        sums: &Registers,
        chunk: Chunk,
    ) -> Result<(), TeError> {
        if let Some(totals) = self.stored_totals(direct) {
            let along = runs(&self.outer, chunk.first, chunk.count);
            let inner = origin(&self.inner);
            for (place, total) in totals {
                // SAFETY: the caller's promise.
                unsafe { self.write(sums, place, total, Along::Outer(&along, &inner)) };
            }
            return Ok(());
        }
        for first in (0..chunk.count).step_by(LANES) {
            let lanes = (chunk.count - first).min(LANES);
            for (value, left) in direct.values.iter().zip(&self.code.left) {
                registers.take_lanes((*left, 0), sums, (value.lanes, first), lanes);
            }
            // SAFETY: the caller's promise.
            unsafe { self.store(registers, chunk.first + first as i64, lanes) }?;
        }
        Ok(())
    }
}
