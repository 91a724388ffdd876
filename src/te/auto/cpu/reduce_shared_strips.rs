//! Several outputs in one strip, each with some of its lanes. They share the cost of starting, combining and storing.

use super::elements::Side;
use super::machine::{At, LoopOutputs};
use super::memory::runs;
use super::reduce_job::Job;
use super::registers::Registers;
use crate::te::error::TeError;

impl Job {
    /// Leaves the totals of `rows` outputs from `output` on in the first lanes of `left`.
    ///
    /// # Safety
    /// Nobody may write what is read during the call.
    pub(in crate::te::auto) unsafe fn accumulate_rows(
        &self,
        registers: &mut Registers,
        output: i64,
        rows: usize,
        count: i64,
    ) -> Result<(), TeError> {
        let lanes = self.tree.lanes as usize;
        let all = rows * lanes;
        self.start(registers, &self.code.left, all)?;
        let side = Side { output, outputs: rows, lanes };
        // Each lane belongs to the same output throughout.
        if let Some(source) = &self.source {
            // Machine code takes the first lane's.
            let filled = if self.machine.add.is_some() { 1 } else { lanes as i64 };
            // SAFETY: the caller's promise.
            unsafe { self.elements[0].fill_side_by_side(registers, side, 0..count.min(filled), true) };
            registers.run(&source.once, all)?;
        }
        if let Some(code) = &self.machine.add {
            if self.reuse.is_some() {
                registers.kept.resize(registers.kept.len().max(rows * count as usize), 0.0);
            }
            let kept = count as usize;
            for run in runs(&self.outer, output, rows) {
                let first = run.lane * lanes;
                let (outer, inner) = (&run.index[..], &[0][..]);
                let at = At { outer, inner, strip: 0, uniform: first, cyclic: first, kept: run.lane * kept };
                let rows = LoopOutputs { count: run.count, uniform: lanes, cyclic: lanes, kept };
                // SAFETY: the caller's promise; the registers have a lane for each of the strip's.
                unsafe { code.run_rows((&self.elements[0], &self.outputs), registers, at, count as usize, rows) };
            }
            return self.fold(registers, all, lanes);
        }
        for first in (0..count).step_by(lanes) {
            let filled = (count - first).min(lanes as i64) as usize;
            // SAFETY: the caller's promise.
            unsafe { self.elements[0].fill_side_by_side(registers, side, first..first + filled as i64, false) };
            if filled == lanes {
                self.add(registers, all, all)?;
            } else {
                self.add_some(registers, rows, filled)?;
            }
            if let Some(reuse) = self.reuse {
                reuse.put(registers, (rows, lanes), count as usize, first as usize, filled);
            }
        }
        self.fold(registers, all, lanes)
    }

    /// Combines the first `filled` lanes of every row with what was read.
    fn add_some(&self, registers: &mut Registers, rows: usize, filled: usize) -> Result<(), TeError> {
        let (code, lanes) = (&self.code, self.tree.lanes as usize);
        registers.run(self.source_steps(), rows * lanes)?;
        registers.run(&code.accumulate.0, rows * lanes)?;
        for (left, result) in code.left.iter().zip(&code.accumulate.1) {
            for row in 0..rows {
                registers.copy_lanes((*left, row * lanes), (*result, row * lanes), filled);
            }
        }
        Ok(())
    }
}
