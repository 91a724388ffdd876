//! Reductions of outputs that are neighbours in memory, as machine code that walks down the rows of their elements.
//!
//! Rows are read from end to end, as far as the outputs' lanes stay in the nearest cache. Pieces of rows, 4 KiB apart,
//! cost more than lanes that leave their registers.

use std::ops::Range;

use super::elements::Along;
use super::machine::{Columns, LoopBuilder, Moving, NARROW, Strip, Strips, Walk, Walks};
use super::memory::{decode, origin, runs};
use super::reduce_job::{Job, TASK, Worker};
use super::reduce_tree::part_of;
use super::registers::{LANES, Registers};
use crate::exhaustion::repeated;
use crate::lane::machine::BodyLanes;
use crate::lane::{LaneStep, Register};
use crate::parallel;
use crate::simd::stream::Fence;
use crate::te::error::TeError;

/// Bytes of lanes that stay in the first-level cache while rows stream through it.
const NEAREST: i64 = 16 << 10;

impl Job {
    /// The code of a reduction with outputs as lanes, if vector code can do all of it. `strips` is given if several
    /// reductions share them. A reduction by itself must compute something; plain combinations of rows have other code.
    pub(super) fn columns(&self, strips: Option<Strips>) -> Option<Columns> {
        let (code, source) = (&self.code, self.source.as_ref()?);
        let computes = self.direct.is_none() || code.apply.is_some() || strips.is_some();
        let line = self.outer.last()?.extent;
        if !self.tree.across || !computes || self.inner.is_empty() || line == 0 {
            return None;
        }
        let registers: Vec<Register> = source.spread.iter().chain(&code.left).copied().collect();
        let operands = source.each.iter().flat_map(LaneStep::operands).chain(&registers);
        let is_wide = operands.chain(&code.source.1).any(|register| register.class.is_wide());
        let (words, body_lanes) = if is_wide { (2, BodyLanes::Wide) } else { (1, BodyLanes::Narrow) };
        let strips = strips.unwrap_or_else(|| self.strips(line, (words * registers.len()) as i64));
        let add = Walks::of(strips, |lanes| {
            let mut builder = LoopBuilder::new(&self.program, &self.elements[0], Moving::Outer).of_lanes(body_lanes);
            source.spread.iter().try_for_each(|register| builder.strip(*register))?;
            builder.add(self, &source.each, None)?;
            builder.walk(lanes, &registers, self.kept_in)
        })?;
        let apply = code.apply.as_ref().map(|results| {
            Walks::of(strips, |lanes| {
                let mut builder = LoopBuilder::new(&self.program, &self.elements[2], Moving::Outer);
                code.left.iter().try_for_each(|left| builder.strip(*left))?;
                if let Some(reuse) = &self.reuse {
                    builder.kept(reuse.to);
                }
                builder.steps(&results.steps)?;
                for (place, register) in &results.results {
                    let (output, levels) = (&self.outputs[*place], self.outer.iter().rev().skip(1).chain(&*self.inner));
                    let past = self.kept_in != Some(*place) && output.is_streamed(*place, levels);
                    builder.write_points(*register, *place, output, past)?;
                }
                builder.walk(lanes, &registers, self.kept_in)
            })
        });
        let apply = match apply {
            Some(made) => Some(made?),
            None => None,
        };
        Some(Columns { strips, add, apply, registers, words, invariant: source.spread.len() })
    }
}

impl Job {
    /// The strips of this reduction alone: wide, but enough for all threads if these can't share a strip.
    fn strips(&self, line: i64, registers: i64) -> Strips {
        let most = NEAREST / (size_of::<f32>() as i64 * registers.max(1));
        let fair = if self.tree.parts > 1 { most } else { self.count_outputs() / self.pieces };
        Strips::at_most(line, fair.clamp(NARROW, most.max(NARROW)))
    }

    /// Runs a reduction of strips.
    ///
    /// # Safety
    /// Nobody else may access the tensors during the call.
    pub(super) unsafe fn run_columns(&self, columns: &Columns) -> Result<(), TeError> {
        let outputs = self.count_outputs();
        let strips: Vec<Strip> = columns.strips.of(0..outputs).collect();
        if self.tree.parts == 1 {
            // SAFETY: the caller's promise; no two strips share an output.
            let run = |worker: &mut Worker, strip| unsafe { self.run_strip(columns, worker, strip) };
            return parallel::try_for_each(strips.into_iter(), || self.worker(), run);
        }
        let ([of_invariant, of_state], parts) = (columns.lanes(), self.tree.parts as usize);
        let workspace = || Registers::new(&self.program);
        let mut invariant = repeated(0, strips.len() * of_invariant);
        if of_invariant > 0 {
            let tasks = strips.iter().zip(invariant.chunks_mut(of_invariant));
            parallel::try_for_each(tasks, workspace, |registers, (strip, to)| {
                // SAFETY: the caller's promise.
                unsafe { self.begin_strip(columns, registers, *strip, to) }
            })?;
        }
        let mut states = repeated(0, strips.len() * parts * of_state);
        let tasks = states.chunks_mut(of_state).enumerate();
        parallel::try_for_each(tasks, workspace, |registers, (task, state)| {
            let (number, part) = (task / parts, task % parts);
            let elements = part_of(0..self.count(), part as i64, self.tree.parts);
            let invariant = &invariant[number * of_invariant..][..of_invariant];
            // SAFETY: the caller's promise.
            unsafe { self.add_strip(columns, registers, strips[number], elements, (invariant, state)) }
        })?;
        let tasks = strips.iter().zip(states.chunks_mut(parts * of_state));
        parallel::try_for_each(tasks, workspace, |registers, (strip, states)| {
            // SAFETY: the caller's promise; the outputs of this strip belong to this task.
            unsafe { self.finish_strip(columns, registers, *strip, states) }
        })?;
        if columns.apply.is_none() {
            return Ok(());
        }
        let least = (TASK / columns.strips.width).max(1) as usize;
        let rows: Vec<Range<usize>> = parallel::pieces(self.count() as usize, least).collect();
        parallel::try_for_each(
            0..strips.len() * rows.len(),
            || Fence,
            |_, task| {
                let (number, rows) = (task / rows.len(), &rows[task % rows.len()]);
                let totals = &states[number * parts * of_state..][..of_state];
                // SAFETY: the caller's promise; no two tasks share a point.
                unsafe { self.apply_strip(columns, strips[number], rows.start as i64..rows.end as i64, totals) };
                Ok(())
            },
        )
    }

    /// Computes and stores the outputs of a strip, each from all of its elements.
    ///
    /// # Safety
    /// Nobody else may write what is read, or access these outputs, during the call.
    pub(super) unsafe fn run_strip(&self, columns: &Columns, worker: &mut Worker, strip: Strip) -> Result<(), TeError> {
        let Worker { registers, lanes, .. } = worker;
        let ([of_invariant, of_state], parts) = (columns.lanes(), self.tree.parts as usize);
        lanes.resize(lanes.len().max(of_invariant + parts * of_state), 0);
        let (invariant, states) = lanes.split_at_mut(of_invariant);
        // SAFETY: the caller's promise.
        unsafe {
            self.begin_strip(columns, registers, strip, invariant)?;
            for (part, state) in states.chunks_mut(of_state).take(parts).enumerate() {
                let elements = part_of(0..self.count(), part as i64, self.tree.parts);
                self.add_strip(columns, registers, strip, elements, (invariant, state))?;
            }
            self.finish_strip(columns, registers, strip, &mut states[..parts * of_state])?;
            self.apply_strip(columns, strip, 0..self.count(), states);
        }
        Ok(())
    }

    /// Computes what is the same for all elements of an output.
    ///
    /// # Safety
    /// Nobody may write what is read during the call.
    unsafe fn begin_strip(
        &self,
        columns: &Columns,
        registers: &mut Registers,
        (first, count): Strip,
        invariant: &mut [u32],
    ) -> Result<(), TeError> {
        let spread = &columns.registers[..columns.invariant];
        for at in (0..if spread.is_empty() { 0 } else { count }).step_by(LANES) {
            let lanes = (count - at).min(LANES);
            let along = runs(&self.outer, first + at as i64, lanes);
            // SAFETY: the caller's promise.
            unsafe { self.begin_source(registers, Along::Outer(&along, &origin(&self.inner)), lanes) }?;
            let own = columns.words * at..columns.words * (at + lanes);
            for (register, to) in spread.iter().zip(invariant.chunks_mut(columns.of_register())) {
                to[own.clone()].copy_from_slice(&registers.words::<u32>(*register)[..own.len()]);
            }
        }
        Ok(())
    }

    /// Combines some elements of each output of a strip.
    ///
    /// # Safety
    /// Nobody else may write what is read, or access values that are kept of these elements, during the call.
    unsafe fn add_strip(
        &self,
        columns: &Columns,
        registers: &mut Registers,
        (first, count): Strip,
        elements: Range<i64>,
        (invariant, state): (&[u32], &mut [u32]),
    ) -> Result<(), TeError> {
        let width = columns.of_register();
        for at in (0..count).step_by(LANES) {
            let lanes = (count - at).min(LANES);
            // SAFETY: the caller's promise.
            unsafe { self.start_outputs(registers, first + at as i64, lanes, self.tree.parts == 1) }?;
            let own = columns.words * at..columns.words * (at + lanes);
            for (left, to) in self.code.left.iter().zip(state.chunks_mut(width)) {
                to[own.clone()].copy_from_slice(&registers.words::<u32>(*left)[..own.len()]);
            }
        }
        let (invariant, state) = (invariant.as_ptr().cast_mut(), state.as_mut_ptr());
        let lanes = |number: usize| match number.checked_sub(columns.invariant) {
            Some(number) => state.wrapping_add(number * width),
            None => invariant.wrapping_add(number * width),
        };
        let walk = columns.add.of_strip(columns.strips, count);
        // SAFETY: the caller's promise; invariant lanes are only read.
        unsafe { self.walk(walk, 0, lanes, first, elements) };
        Ok(())
    }

    /// Combines the parts of a strip's outputs, stores the outputs, and leaves the totals in the first part's state.
    ///
    /// # Safety
    /// Nobody else may access these outputs during the call.
    unsafe fn finish_strip(
        &self,
        columns: &Columns,
        registers: &mut Registers,
        (first, count): Strip,
        states: &mut [u32],
    ) -> Result<(), TeError> {
        let (width, code, [_, of_state]) = (columns.of_register(), &self.code, columns.lanes());
        for at in (0..count).step_by(LANES) {
            let lanes = (count - at).min(LANES);
            let own = columns.words * at..columns.words * (at + lanes);
            let take = |registers: &mut Registers, to: &[Register], part: &[u32]| {
                for (to, from) in to.iter().zip(part.chunks(width)) {
                    registers.words_mut::<u32>(*to)[..own.len()].copy_from_slice(&from[own.clone()]);
                }
            };
            if self.tree.parts == 1 {
                take(registers, &code.left, states);
            } else {
                self.start(registers, &code.left, lanes)?;
                for part in states.chunks(of_state) {
                    take(registers, &code.right, part);
                    self.merge_lanes(registers, lanes)?;
                }
            }
            // SAFETY: the caller's promise.
            unsafe { self.store_totals(registers, first + at as i64, lanes) }?;
            for (left, to) in code.left.iter().zip(states.chunks_mut(width)) {
                to[own.clone()].copy_from_slice(&registers.words::<u32>(*left)[..own.len()]);
            }
        }
        Ok(())
    }

    /// Computes and stores the outputs of points, of some elements of each output of a strip.
    ///
    /// # Safety
    /// Nobody else may access these elements during the call.
    unsafe fn apply_strip(&self, columns: &Columns, (first, count): Strip, elements: Range<i64>, totals: &[u32]) {
        let Some(apply) = &columns.apply else { return };
        let (width, totals) = (columns.of_register(), totals.as_ptr().cast_mut());
        let lanes = |number: usize| totals.wrapping_add((number - columns.invariant) * width);
        // SAFETY: the caller's promise; totals are only read.
        unsafe { self.walk(apply.of_strip(columns.strips, count), 2, lanes, first, elements) };
    }

    /// Takes some elements of each output from the first on.
    ///
    /// # Safety
    /// The conditions of [`Walk::run`].
    unsafe fn walk(
        &self,
        walk: &Walk,
        elements: usize,
        lanes: impl Fn(usize) -> *mut u32,
        first: i64,
        rows: Range<i64>,
    ) {
        let outer = decode(&self.outer, first);
        for run in runs(&self.inner, rows.start, (rows.end - rows.start) as usize) {
            let tensors = (&self.elements[elements], &self.outputs[..]);
            // SAFETY: the caller's promise.
            unsafe { walk.run(tensors, &lanes, (&outer, &run.index), run.count) };
        }
    }
}
