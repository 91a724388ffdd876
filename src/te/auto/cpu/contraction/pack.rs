//! Packs the operands of rows and columns for tiles.

use std::ops::Range;

use super::Contraction;
use super::sides::Side;
use crate::te::auto::cpu::elements::Along;
use crate::te::auto::cpu::memory::{LaneRun, decode, runs};
use crate::te::auto::cpu::registers::{LANES, Registers};
use crate::te::error::TeError;

/// The bits of a lane: u32 or u64.
pub(super) trait Word: bytemuck::Pod + Send + Sync {}
impl Word for u32 {}
impl Word for u64 {}

impl Contraction {
    /// Packs rows of a batch, by tiles of `own` rows, for some elements.
    ///
    /// # Safety
    /// The rows and elements must be within the loops. Nobody may write what is read during the call.
    pub(super) unsafe fn pack_rows<W: Word>(
        &self,
        registers: &mut Registers,
        (batch, rows): (usize, Range<usize>),
        elements: Range<i64>,
        (own, packed): (usize, &mut [W]),
    ) -> Result<(), TeError> {
        let ([of_rows, _], Side { steps, operands }) = (&self.elements, &self.sides.rows);
        let count = (elements.end - elements.start) as usize;
        let along = runs(&of_rows.inner, elements.start, count);
        for (number, row) in rows.enumerate() {
            let (outer, _) = self.roles.row(batch, row);
            // SAFETY: the caller's promise.
            unsafe { of_rows.fill(registers, Along::Inner(&outer, &along), count) }?;
            registers.run(steps, count)?;
            let tile = &mut packed[number / own * (own * operands.len() * count)..];
            for (operand, register) in operands.iter().enumerate() {
                let to = tile[operand * own + number % own..].iter_mut().step_by(own * operands.len());
                registers.words::<W>(*register)[..count].iter().zip(to).for_each(|(from, to)| *to = *from);
            }
        }
        Ok(())
    }

    /// Packs columns of a batch, by tiles of `own` columns, for some elements.
    ///
    /// # Safety
    /// The columns and elements must be within the loops. Nobody may write what is read during the call.
    pub(super) unsafe fn pack_columns<W: Word>(
        &self,
        registers: &mut Registers,
        (batch, columns): (usize, Range<usize>),
        elements: Range<i64>,
        (own, packed): (usize, &mut [W]),
    ) -> Result<(), TeError> {
        let ([_, of_columns], Side { steps, operands }) = (&self.elements, &self.sides.columns);
        let (before, loops) = self.roles.column_loops();
        let (first, _) = self.roles.row(batch, 0);
        let count = (elements.end - elements.start) as usize;
        let of_element = own * operands.len();
        let most = LANES / own * own;
        for at in (0..columns.len()).step_by(most) {
            let lanes = (columns.len() - at).min(most);
            let mut along = runs(loops, (columns.start + at) as i64, lanes);
            for run in &mut along {
                let LaneRun { index, .. } = run;
                index.insert_from_slice(0, &first[..before]);
            }
            let tiles = &mut packed[at * operands.len() * count..];
            for (number, element) in elements.clone().enumerate() {
                let inner = decode(&of_columns.inner, element);
                // SAFETY: the caller's promise.
                unsafe { of_columns.fill(registers, Along::Outer(&along, &inner), lanes) }?;
                registers.run(steps, lanes)?;
                for (operand, register) in operands.iter().enumerate() {
                    let first = number * of_element + operand * own;
                    let tiles = tiles.chunks_mut(of_element * count);
                    for (from, tile) in registers.words::<W>(*register)[..lanes].chunks(own).zip(tiles) {
                        tile[first..first + from.len()].copy_from_slice(from);
                    }
                }
            }
        }
        Ok(())
    }
}
