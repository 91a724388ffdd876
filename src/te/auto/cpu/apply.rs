//! Computes and stores the outputs of points: what a reduction's totals and elements together give.

use std::ops::Range;

use super::compile::Results;
use super::elements::Along;
use super::machine::{At, LoopOutputs, PointLoop};
use super::memory::{LaneRun, MemoryRows, StoreTarget, decode, origin, read, runs};
use super::reduce_job::Job;
use super::registers::{LANES, Registers};
use crate::lane::Register;
use crate::te::auto::bind::iteration_space::LoopLevel;
use crate::te::error::TeError;

impl Job {
    /// Computes and stores the outputs of points, from some points of these outputs and from their totals.
    ///
    /// # Safety
    /// Nobody else may access these elements during the call.
    pub(in crate::te::auto) unsafe fn apply(
        &self,
        registers: &mut Registers,
        results: &Results,
        (output, lanes): (i64, usize),
        elements: Range<i64>,
    ) -> Result<(), TeError> {
        if self.tree.across {
            let along = runs(&self.outer, output, lanes);
            for element in elements {
                let inner = decode(&self.inner, element);
                if let Some((reuse, place)) = self.kept_across() {
                    // SAFETY: the caller's promise.
                    unsafe { self.take_kept(registers, place, reuse.to, &along, &inner) };
                }
                // SAFETY: the caller's promise.
                unsafe { self.apply_points(registers, results, Along::Outer(&along, &inner), lanes) }?;
            }
            return Ok(());
        }
        if elements.is_empty() {
            return Ok(());
        }
        // Values that all elements of an output need (its totals, or results of them), for all outputs at once.
        let of_outputs: &[Register] = match &self.invariant {
            Some(steps) => {
                let along = runs(&self.outer, output, lanes);
                // SAFETY: the caller's promise.
                unsafe { self.elements[2].fill_invariant(registers, Along::Outer(&along, &origin(&self.inner))) };
                registers.run(&steps.once, lanes)?;
                &steps.spread
            }
            None => &self.code.left,
        };
        if let Some(code) = &self.machine.apply {
            // SAFETY: the caller's promise.
            unsafe { self.apply_along(code, registers, results, (output, lanes), elements) };
            return Ok(());
        }
        let kept = registers.kept(of_outputs, lanes);
        let most = (elements.end - elements.start).min(LANES as i64) as usize;
        for lane in 0..lanes {
            registers.spread(of_outputs, &kept, lane, most);
            let outer = decode(&self.outer, output + lane as i64);
            for first in elements.clone().step_by(LANES) {
                let lanes = (elements.end - first).min(LANES as i64) as usize;
                let along = runs(&self.inner, first, lanes);
                if let Some(reuse) = self.reuse {
                    reuse.take(registers, lane, self.count() as usize, first as usize, lanes);
                }
                // SAFETY: the caller's promise.
                unsafe { self.apply_points(registers, results, Along::Inner(&outer, &along), lanes) }?;
            }
        }
        Ok(())
    }

    /// Computes, by machine code, the outputs of some points of each output. Values that all points of an output share
    /// are in its lane.
    ///
    /// # Safety
    /// The conditions of [`Job::apply`].
    unsafe fn apply_along(
        &self,
        code: &PointLoop,
        registers: &mut Registers,
        results: &Results,
        (output, lanes): (i64, usize),
        elements: Range<i64>,
    ) {
        let (all, count) = (self.count() as usize, (elements.end - elements.start) as usize);
        if !code.is_short && self.inner.len() == 1 {
            for run in runs(&self.outer, output, lanes) {
                let (outer, inner) = (&run.index[..], &[elements.start][..]);
                let kept = run.lane * all + elements.start as usize;
                let at = At { outer, inner, strip: 0, uniform: run.lane, cyclic: 0, kept };
                let rows = LoopOutputs { count: run.count, uniform: 1, cyclic: 0, kept: all };
                // SAFETY: the caller's promise.
                unsafe { code.run_rows((&self.elements[2], &self.outputs), registers, at, count, rows) };
            }
            return;
        }
        let most = if code.is_short || self.inner.len() > 1 { LANES } else { count };
        for lane in 0..lanes {
            let outer = decode(&self.outer, output + lane as i64);
            for first in elements.clone().step_by(most) {
                let strip = (elements.end - first).min(most as i64) as usize;
                let along = runs(&self.inner, first, strip);
                for run in &along {
                    let kept = lane * all + first as usize + run.lane;
                    let at = At { outer: &outer, inner: &run.index, strip: run.lane, uniform: lane, cyclic: 0, kept };
                    // SAFETY: the caller's promise.
                    unsafe { code.run((&self.elements[2], &self.outputs), registers, at, run.count) };
                }
                // SAFETY: the caller's promise.
                unsafe { self.write_far(registers, results, Along::Inner(&outer, &along)) };
            }
        }
    }

    /// Reads values that were kept in an output, at an element of neighbouring outputs.
    ///
    /// # Safety
    /// The conditions of [`Job::apply`].
    unsafe fn take_kept(
        &self,
        registers: &mut Registers,
        place: usize,
        to: Register,
        along: &[LaneRun],
        inner: &[i64],
    ) {
        let offset = |levels: &[LoopLevel], index: &[i64]| -> i64 {
            levels.iter().zip(index).map(|(level, i)| level.outputs[place] * i).sum()
        };
        for run in along {
            let first = offset(&self.outer, &run.index) + offset(&self.inner, inner);
            let StoreTarget { element, address, step, .. } = self.outputs[place].target(first, 1);
            // SAFETY: the points are within the output's shape; the caller's promise.
            unsafe { read(registers, to, run.lane, &MemoryRows::row(element, address, run.count, step)) };
        }
    }

    /// Writes the outputs that machine code leaves in registers.
    ///
    /// # Safety
    /// The conditions of [`Job::write`].
    unsafe fn write_far(&self, registers: &Registers, results: &Results, along: Along<'_>) {
        for (place, register) in &results.results {
            if self.outputs[*place].far {
                // SAFETY: the caller's promise.
                unsafe { self.write(registers, *place, *register, along) };
            }
        }
    }

    /// # Safety
    /// The conditions of [`Job::apply`].
    unsafe fn apply_points(
        &self,
        registers: &mut Registers,
        results: &Results,
        along: Along<'_>,
        lanes: usize,
    ) -> Result<(), TeError> {
        match (&self.invariant, along) {
            (Some(steps), Along::Inner(..)) => {
                // SAFETY: the caller's promise.
                unsafe { self.elements[2].fill_each(registers, along) };
                registers.run(&steps.each, lanes)?;
            }
            _ => {
                // SAFETY: the caller's promise.
                unsafe { self.elements[2].fill(registers, along, lanes) }?;
                registers.run(&results.steps, lanes)?;
            }
        }
        for (place, register) in &results.results {
            // SAFETY: the caller's promise.
            unsafe { self.write(registers, *place, *register, along) };
        }
        Ok(())
    }
}
