//! Runs a contraction: blocks of outputs in parallel, each by tiles.

use std::cell::Cell;
use std::ops::Range;

use super::pack::Word;
use super::{Contraction, Tiles};
use crate::parallel;
use crate::simd::stream::Fence;
use crate::te::auto::bind::iteration_space::points;
use crate::te::auto::cpu::reduce_job::Job;
use crate::te::auto::cpu::reduce_tree::part_of;
use crate::te::auto::cpu::registers::{LANES, Registers};
use crate::te::error::TeError;

/// The most memory that a thread keeps from run to run, in units of 64 bits.
const KEPT: usize = 1 << 20;

thread_local! {
    /// The memory of this thread's last workspace. New memory would cost a page fault for each page in every run.
    static LAST: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
}

/// A thread's memory for computing blocks.
struct Workspace {
    registers: Registers,
    memory: Vec<u64>,
    _fence: Fence,
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        if memory.len() <= KEPT {
            // A thread that ends keeps nothing.
            let _ = LAST.try_with(|last| last.set(memory));
        }
    }
}

/// The outputs of a block.
struct Block {
    batch: usize,
    rows: Range<usize>,
    columns: Range<usize>,
}

/// How the totals of a block lie in memory: tile by tile, those of a row of tiles' columns first.
#[derive(Clone, Copy)]
struct Lie {
    tile: [usize; 2],
    /// Rows of tiles.
    rows: usize,
    totals: usize,
}

impl Lie {
    /// The number of totals of a tile.
    const fn of_tile(self) -> usize {
        self.tile[0] * self.tile[1] * self.totals
    }

    /// The totals of outputs of a row, from a column at the beginning of a tile on: where each tile's begin.
    fn row(self, total: usize, row: usize, column: usize) -> impl Iterator<Item = usize> {
        let [rows, columns] = self.tile;
        let first = (column / columns * self.rows + row / rows) * self.of_tile();
        let within = (total * rows + row % rows) * columns;
        (0..).map(move |tile| first + tile * self.rows * self.of_tile() + within)
    }
}

impl Job {
    /// Computes all outputs by tiles.
    ///
    /// # Safety
    /// Nobody else may access the tensors during the call.
    pub(in crate::te::auto::cpu) unsafe fn run_tiles(&self, contraction: &Contraction) -> Result<(), TeError> {
        let Some(tiles) = &contraction.tiles else { return Ok(()) };
        // SAFETY: the caller's promise.
        unsafe {
            if contraction.sides.is_wide {
                self.run_blocks::<u64>((contraction, tiles))
            } else {
                self.run_blocks::<u32>((contraction, tiles))
            }
        }
    }

    /// # Safety
    /// The conditions of [`Job::run_tiles`].
    unsafe fn run_blocks<W: Word>(&self, (contraction, tiles): (&Contraction, &Tiles)) -> Result<(), TeError> {
        let ([rows, columns], [most_rows, most_columns]) = (contraction.roles.extents(), tiles.block);
        let batches = points(&contraction.roles.batches()) as usize;
        let [down, across] = [rows.div_ceil(most_rows), columns.div_ceil(most_columns)];
        let workspace = || Workspace { registers: Registers::new(&self.program), memory: LAST.take(), _fence: Fence };
        parallel::try_for_each(0..batches * down * across, workspace, |workspace, number| {
            let (row, column) = (number / across % down * most_rows, number % across * most_columns);
            let block = Block {
                batch: number / across / down,
                rows: row..(row + most_rows).min(rows),
                columns: column..(column + most_columns).min(columns),
            };
            // SAFETY: the caller's promise; no two blocks share an output.
            unsafe { self.run_block::<W>((contraction, tiles), workspace, &block) }
        })
    }

    /// # Safety
    /// Nobody else may write what is read, or access the block's outputs, during the call.
    unsafe fn run_block<W: Word>(
        &self,
        (contraction, tiles): (&Contraction, &Tiles),
        Workspace { registers, memory, .. }: &mut Workspace,
        block: &Block,
    ) -> Result<(), TeError> {
        let tile @ [rows, columns] = tiles.kernel.shape();
        let [down, across] = [block.rows.len().div_ceil(rows), block.columns.len().div_ceil(columns)];
        let lie = Lie { tile, rows: down, totals: self.code.left.len() };
        let [of_row, of_column] = [&contraction.sides.rows, &contraction.sides.columns].map(|side| side.operands.len());
        let of_rows = down * rows * of_row * tiles.elements;
        let of_columns = across * columns * of_column * tiles.elements;
        let of_totals = down * across * lie.of_tile();
        let of_all = if self.tree.parts > 1 { of_totals } else { 0 };
        let bytes = (of_rows + of_columns + of_totals + of_all) * size_of::<W>();
        memory.resize(memory.len().max(bytes.div_ceil(size_of::<u64>())), 0);
        let (packed_rows, rest) = bytemuck::cast_slice_mut::<u64, W>(memory).split_at_mut(of_rows);
        let (packed_columns, rest) = rest.split_at_mut(of_columns);
        // The totals of a part, and those of the parts so far if there are several.
        let (totals, rest) = rest.split_at_mut(of_totals);
        let all = &mut rest[..of_all];
        for part in 0..self.tree.parts {
            let elements = part_of(0..self.count(), part, self.tree.parts);
            // SAFETY: the caller's promise.
            unsafe { self.start_block(contraction, registers, block, (lie, &mut *totals)) }?;
            for first in elements.clone().step_by(tiles.elements) {
                let own = first..(first + tiles.elements as i64).min(elements.end);
                let count = (own.end - own.start) as usize;
                // SAFETY: the caller's promise; the block and the elements are within the loops.
                unsafe {
                    let (of_rows, of_columns) =
                        ((block.batch, block.rows.clone()), (block.batch, block.columns.clone()));
                    contraction.pack_rows(registers, of_rows, own.clone(), (rows, &mut *packed_rows))?;
                    contraction.pack_columns(registers, of_columns, own, (columns, &mut *packed_columns))?;
                }
                for (number, totals) in totals.chunks_exact_mut(lie.of_tile()).enumerate() {
                    let row = &packed_rows[number % down * (rows * of_row * count)..][..rows * of_row * count];
                    let column = &packed_columns[number / down * (columns * of_column * count)..];
                    let column = &column[..columns * of_column * count];
                    // SAFETY: so many elements of the operands of a tile are packed, and there are its totals.
                    unsafe {
                        tiles.kernel.run(
                            row.as_ptr().cast(),
                            column.as_ptr().cast(),
                            totals.as_mut_ptr().cast(),
                            count,
                        );
                    }
                }
            }
            if self.tree.parts > 1 {
                self.merge_block(registers, part == 0, (lie, block), (&*totals, &mut *all))?;
            }
        }
        let totals = if self.tree.parts > 1 { &*all } else { &*totals };
        // SAFETY: the caller's promise.
        unsafe { self.store_block(contraction, registers, block, (lie, totals)) }
    }

    /// Sets a block's totals to the identities or, in exact order, to the initial values.
    ///
    /// # Safety
    /// Nobody may write what is read during the call.
    unsafe fn start_block<W: Word>(
        &self,
        contraction: &Contraction,
        registers: &mut Registers,
        block: &Block,
        (lie, totals): (Lie, &mut [W]),
    ) -> Result<(), TeError> {
        if !self.tree.exact || self.code.init.is_none() {
            self.start(registers, &self.code.left, 1)?;
            let of_total = lie.of_tile() / lie.totals.max(1);
            for (number, totals) in totals.chunks_exact_mut(of_total).enumerate() {
                totals.fill(registers.words::<W>(self.code.left[number % lie.totals])[0]);
            }
            return Ok(());
        }
        for (row, at, lanes, number) in pieces(contraction, block, lie) {
            // SAFETY: the caller's promise.
            unsafe { self.start_outputs(registers, number, lanes, true) }?;
            self.put(registers, lie, (row, at, lanes), totals);
        }
        Ok(())
    }

    /// Combines the parts so far with another.
    fn merge_block<W: Word>(
        &self,
        registers: &mut Registers,
        is_first: bool,
        (lie, block): (Lie, &Block),
        (totals, all): (&[W], &mut [W]),
    ) -> Result<(), TeError> {
        let most = LANES / lie.tile[1] * lie.tile[1];
        for row in 0..block.rows.len() {
            for at in (0..block.columns.len()).step_by(most) {
                let place = (row, at, (block.columns.len() - at).min(most));
                if is_first {
                    self.start(registers, &self.code.left, place.2)?;
                } else {
                    take(registers, &self.code.left, lie, place, all);
                }
                take(registers, &self.code.right, lie, place, totals);
                self.merge_lanes(registers, place.2)?;
                self.put(registers, lie, place, all);
            }
        }
        Ok(())
    }

    /// Copies totals of outputs of a row from their registers.
    fn put<W: Word>(
        &self,
        registers: &mut Registers,
        lie: Lie,
        (row, column, lanes): (usize, usize, usize),
        totals: &mut [W],
    ) {
        for (total, left) in self.code.left.iter().enumerate() {
            let from = registers.words::<W>(*left)[..lanes].chunks(lie.tile[1]);
            for (from, to) in from.zip(lie.row(total, row, column)) {
                totals[to..to + from.len()].copy_from_slice(from);
            }
        }
    }

    /// Stores a block's outputs.
    ///
    /// # Safety
    /// Nobody else may access the block's outputs during the call.
    unsafe fn store_block<W: Word>(
        &self,
        contraction: &Contraction,
        registers: &mut Registers,
        block: &Block,
        (lie, totals): (Lie, &[W]),
    ) -> Result<(), TeError> {
        for (row, at, lanes, number) in pieces(contraction, block, lie) {
            take(registers, &self.code.left, lie, (row, at, lanes), totals);
            // SAFETY: the caller's promise.
            unsafe { self.store_totals(registers, number, lanes) }?;
        }
        Ok(())
    }
}

/// Copies totals of outputs of a row into registers.
fn take<W: Word>(
    registers: &mut Registers,
    to: &[crate::lane::Register],
    lie: Lie,
    (row, column, lanes): (usize, usize, usize),
    totals: &[W],
) {
    for (total, to) in to.iter().enumerate() {
        let to = registers.words_mut::<W>(*to)[..lanes].chunks_mut(lie.tile[1]);
        for (to, from) in to.zip(lie.row(total, row, column)) {
            to.copy_from_slice(&totals[from..from + to.len()]);
        }
    }
}

/// The outputs of a block, as many of a row as registers have lanes: the row and the first column in the block, how many, and
/// the first one's number among all.
fn pieces<'a>(
    contraction: &'a Contraction,
    block: &'a Block,
    lie: Lie,
) -> impl Iterator<Item = (usize, usize, usize, i64)> + 'a {
    let most = LANES / lie.tile[1] * lie.tile[1];
    block.rows.clone().enumerate().flat_map(move |(number, row)| {
        let (_, first) = contraction.roles.row(block.batch, row);
        (0..block.columns.len()).step_by(most).map(move |at| {
            (number, at, (block.columns.len() - at).min(most), first + (block.columns.start + at) as i64)
        })
    })
}
