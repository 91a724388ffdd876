//! Several outputs in one strip, each with some of its lanes. They share the cost of starting, combining and storing.

use super::elements::Side;
use super::job::Job;
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
            // SAFETY: the caller's promise.
            unsafe { self.elements[0].fill_side_by_side(registers, side, 0..count.min(lanes as i64), true) };
            registers.run(&source.once, all)?;
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
                registers.copy_lanes(*left, row * lanes, *result, row * lanes, filled);
            }
        }
        Ok(())
    }
}
