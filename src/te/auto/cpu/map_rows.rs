//! Maps whose reads are rows that indices choose: gathers of rows, values of a group for each of its elements.
//!
//! An index is the same for all points of a row. It is computed and checked once a row, as is every other value of this
//! kind. The row itself is one loop in machine code, from memory to memory.

use super::elements::Elements;
use super::machine::{At, LoopBuilder, Moving, PointLoop};
use super::memory::{Written, decode, runs};
use super::program::Program;
use super::registers::{LANES, Registers};
use crate::lane::{LaneStep, Register};
use crate::parallel;
use crate::te::auto::bind::iteration_space::points;
use crate::te::error::TeError;

/// The least number of points of a row. To find a row and to begin its loop takes some ten nanoseconds.
const SHORTEST: i64 = 4;
/// The number of points that are computed between two searches for rows, if rows are short.
const STRIP: usize = 16 * LANES;

/// A map's steps as machine code for one row after another.
pub(super) struct ChosenRows {
    code: PointLoop,
    /// The reads whose rows indices choose, by their numbers.
    chosen: Vec<usize>,
    /// The steps whose operands are the same for all points of a row.
    once: Vec<LaneStep>,
    /// The number of rows, and their points.
    rows: usize,
    length: usize,
    /// The rows whose addresses are found together.
    together: usize,
}

impl ChosenRows {
    /// `None` if no index chooses rows, or if rows are too short, or fewer than threads. Also if vector code lacks a step.
    pub(super) fn compiled(
        (program, elements): (&Program, &Elements),
        steps: &[LaneStep],
        results: &[Register],
        outputs: &[Written],
    ) -> Option<Self> {
        let chosen: Vec<usize> = elements.of_chosen_rows().collect();
        let length = elements.inner.last()?.extent;
        let rows = usize::try_from(points(elements.rows())).ok()?;
        let suit = !chosen.is_empty() && elements.are_rows() && elements.inner.len() > 1;
        if !suit || length < SHORTEST || rows < parallel::threads() {
            return None;
        }
        let mut of_rows: Vec<Register> = program.constants.iter().map(|(register, _)| *register).collect();
        let is_of_rows = |of_rows: &[Register], register: &Register| {
            of_rows.contains(register) || elements.stands_in_rows(*register)
        };
        let (mut once, mut each) = (Vec::new(), Vec::new());
        for step in steps {
            if step.operands().iter().all(|operand| is_of_rows(&of_rows, operand)) {
                of_rows.push(step.to);
                once.push(*step);
            } else {
                each.push(*step);
            }
        }
        let mut builder = LoopBuilder::new(program, elements, Moving::Inner).choosing();
        for made in &once {
            let is_used = |step: &LaneStep| step.operands().contains(&made.to);
            if each.iter().any(is_used) || results.contains(&made.to) {
                builder.uniform(made.to)?;
            }
        }
        builder.steps(&each)?;
        for (place, (output, result)) in outputs.iter().zip(results).enumerate() {
            builder.write_points(*result, place, output, false)?;
        }
        let length = usize::try_from(length).ok()?;
        let code = builder.finish_for(length)?;
        Some(Self { code, chosen, once, rows, length, together: (STRIP / length).clamp(1, LANES) })
    }

    /// Computes all rows.
    ///
    /// # Safety
    /// The conditions of [`Map::run`](super::map::Map::run).
    pub(super) unsafe fn run(
        &self,
        program: &Program,
        elements: &Elements,
        outputs: &[Written],
    ) -> Result<(), TeError> {
        let strips = self.rows.div_ceil(self.together);
        parallel::try_for_each(
            parallel::pieces(strips, 1),
            || (Registers::new(program), Vec::new()),
            |(registers, addresses), mut strips| {
                // SAFETY: the caller's promise; no two strips share a row.
                strips.try_for_each(|strip| unsafe { self.run_strip((elements, outputs), registers, addresses, strip) })
            },
        )
    }

    /// # Safety
    /// The conditions of [`ChosenRows::run`]; the strip's rows must belong to this thread.
    unsafe fn run_strip(
        &self,
        (elements, outputs): (&Elements, &[Written]),
        registers: &mut Registers,
        addresses: &mut Vec<u64>,
        strip: usize,
    ) -> Result<(), TeError> {
        let first = strip * self.together;
        let count = self.together.min(self.rows - first);
        let along = runs(elements.rows(), first as i64, count);
        // SAFETY: the caller's promise.
        unsafe { elements.choose_rows(registers, (&along, count, self.length), !self.once.is_empty(), addresses) }?;
        registers.run(&self.once, count)?;
        let mut inner = decode(&elements.inner, (first * self.length) as i64);
        for run in &along {
            let row = run.index.len() - 1;
            inner[..=row].copy_from_slice(&run.index);
            let at = At { outer: &[], inner: &inner, strip: 0, uniform: run.lane, cyclic: 0, kept: 0 };
            let chosen = |part: usize, of_run: usize| {
                let number = self.chosen.iter().position(|chosen| *chosen == part)?;
                Some(addresses[number * count + run.lane + of_run])
            };
            // SAFETY: the caller's promise; all points of the chosen rows are within their tensors.
            unsafe { self.code.run_chosen((elements, outputs), registers, at, (run.count, self.length), chosen) };
        }
        Ok(())
    }
}
