//! Runs the loops over the rows of a tile.

use smallvec::SmallVec;

use super::lower::{RowLoop, StripBinding};
use super::{Exponentials, Item, Machine};
use crate::evt::BroadcastClass;
use crate::exhaustion::repeated;
use crate::gemm::cpu::element::{Arithmetic, View};
use crate::gemm::cpu::exponentials::at_infinity;
use crate::gemm::cpu::own::Own;
use crate::gemm::cpu::reduce;
use crate::gemm::cpu::step::StripPlace;
use crate::gemm::cpu::strip::{Bank, BoundStrips, Frame, StripBlock};
use crate::gemm::cpu::tile::{STRIP, Tile};
use crate::jit::ROW_ARGUMENTS;
use crate::tuning::MachineCode;

/// Columns of a tile from which on a loop for each row pays; narrower rows are computed many at a time, step by step.
const WIDE: usize = 32;

/// The most elements of a block. Several registers of this many are in the first-level cache.
const BLOCK: usize = 4 * STRIP;

/// A loop's argument: its address in the first row of a block, the bytes from row to row, and whether rows follow each
/// other without a gap.
struct Lanes {
    address: *mut u8,
    step: isize,
    follows: bool,
}

impl Machine {
    /// Whether it does what is to be done in a tile.
    fn serves<T: Arithmetic>(&self, bound: &BoundStrips<'_, T>, tile: &Tile) -> bool {
        let is_wide = tile.columns.len() >= WIDE || self.code == MachineCode::Always;
        let has_code = |item: &Item| match item {
            Item::Loop(of_rows) | Item::Exponentials(Exponentials { rows: of_rows, .. }) => {
                of_rows.elements.is_some() || of_rows.rows.kernel(tile.columns.len()).is_some()
            }
            Item::Step(_) => true,
        };
        is_wide && self.stores_all(bound, tile) && self.items.iter().all(has_code)
    }

    /// Whether a tile stores all outputs of the loops.
    fn stores_all<T: Arithmetic>(&self, bound: &BoundStrips<'_, T>, tile: &Tile) -> bool {
        let is_stored = |i: &usize| BoundStrips::<T>::stores(&bound.outputs[*i], BroadcastClass::Tensor, tile);
        self.outputs.iter().all(is_stored)
    }

    /// The rows of a block. Several loops and steps then share their data in the first-level cache.
    fn rows(&self, tile: &Tile) -> usize {
        if self.items.len() == 1 { tile.rows.len() } else { (BLOCK / tile.columns.len()).max(1) }
    }
}

impl Machine {
    /// The loop, if it is all there is to do for elements, and reads no integers of every column.
    fn only_loop(&self) -> Option<&RowLoop> {
        match self.items.as_slice() {
            [Item::Loop(of_rows)] if self.integer_rows.is_empty() => Some(of_rows),
            _ => None,
        }
    }

    /// Whether it takes whole rows of this many columns in pieces.
    pub(in crate::gemm::cpu) fn takes_rows(&self, columns: usize, piece: usize) -> bool {
        let rest = columns % piece;
        let has_code = |width: usize| self.only_loop().is_some_and(|only| only.rows.kernel(width).is_some());
        has_code(piece) && (rest == 0 || has_code(rest))
    }
}

impl<T: Arithmetic> BoundStrips<'_, T> {
    /// Computes whole rows without accumulators, each in pieces of `piece` columns, with the bits of tiles of that
    /// width. Gives the results of the rows' reductions; `None` if there is no code for these rows, and then nothing
    /// has been done. `has_rows`: the frame has the values that columns share.
    ///
    /// # Safety
    /// The conditions of [`BoundStrips::run`].
    pub(in crate::gemm::cpu) unsafe fn whole_rows(
        &self,
        tile: &Tile,
        piece: usize,
        has_rows: bool,
        frame: &mut Frame<T>,
    ) -> Option<Vec<Vec<f64>>> {
        let machine = self.machine.filter(|machine| machine.stores_all(self, tile))?;
        let RowLoop { rows, bindings, .. } = machine.only_loop()?;
        let (height, width) = (tile.rows.len(), tile.columns.len());
        let (pieces, rest) = (width / piece, width % piece);
        let kernels =
            [(piece, pieces), (rest, 1)].map(|(width, count)| (width > 0).then(|| (rows.kernel(width), count)));
        if kernels.iter().flatten().any(|(kernel, _)| kernel.is_none()) {
            return None;
        }
        // SAFETY: the caller's promise.
        unsafe { self.vectors(tile, frame, has_rows) };
        let reductions = &self.program.reductions;
        let mut results: Vec<Vec<f64>> = reductions.iter().map(|_| Vec::with_capacity(height)).collect();
        let mut partials: Vec<Vec<f64>> = reductions.iter().map(|_| repeated(0.0, width.div_ceil(piece))).collect();
        let step = |binding: &StripBinding| match *binding {
            StripBinding::Total(..) => size_of::<f64>(),
            binding => self.of_column(binding) * piece,
        };
        let steps: SmallVec<[isize; ROW_ARGUMENTS]> = bindings.iter().map(|binding| step(binding) as isize).collect();
        for first in 0..height {
            let block = StripBlock { first, rows: 1, width };
            let address = |binding: &StripBinding| match *binding {
                StripBinding::Total(i, _) => partials[i].as_mut_ptr().cast(),
                binding => self.lanes(binding, tile, &block, frame).address,
            };
            let mut addresses: SmallVec<[*mut u8; ROW_ARGUMENTS]> = bindings.iter().map(address).collect();
            for (kernel, count) in kernels.iter().flatten() {
                if let Some(kernel) = kernel.as_ref() {
                    // SAFETY: as in `row_loop`; a piece is one of the kernel's rows, and the next one begins where it ends.
                    unsafe { kernel.run(&mut addresses, &steps, *count) };
                }
            }
            for ((result, partial), reduction) in results.iter_mut().zip(&partials).zip(reductions) {
                let combine = |all, part: &f64| reduce::combine(reduction.op, all, *part);
                result.push(partial.iter().fold(reduce::identity(reduction.op), combine));
            }
        }
        Some(results)
    }

    /// The bytes of one column of a row in a binding's memory; 0 if all columns share it.
    fn of_column(&self, binding: StripBinding) -> usize {
        match binding {
            StripBinding::Parameter(i) => self.parameters[i].element.size(),
            StripBinding::Output(i) => self.outputs[i].element.size(),
            StripBinding::Read(StripPlace::Row(_)) => size_of::<T>(),
            _ => 0,
        }
    }

    /// Runs the steps of blocks over a tile with rows and columns, as far as they are machine code. Gives whether they are.
    ///
    /// # Safety
    /// The conditions of [`BoundStrips::run`].
    pub(in crate::gemm::cpu) unsafe fn by_machine<'s>(
        &self,
        tile: &Tile,
        frame: &mut Frame<T>,
        sums: impl Fn(usize) -> &'s [f64],
        partials: &mut [Vec<f64>],
    ) -> bool {
        let Some(machine) = self.machine.filter(|machine| machine.serves(self, tile)) else { return false };
        let (height, width, rows) = (tile.rows.len(), tile.columns.len(), machine.rows(tile));
        frame.have_blocks(machine.registers, BLOCK);
        frame.narrow_integers(&machine.integer_rows, width);
        self.spread(&machine.spread, &StripBlock { first: 0, rows: rows.min(height), width }, frame);
        for first in (0..height).step_by(rows) {
            let block = StripBlock { first, rows: rows.min(height - first), width };
            for item in &machine.items {
                // SAFETY: the caller's promise.
                unsafe {
                    match item {
                        Item::Loop(of_rows) => self.row_loop(of_rows, tile, &block, (frame, partials)),
                        Item::Exponentials(Exponentials { at, reduction, rows: of_rows }) => {
                            self.row_loop(of_rows, tile, &block, (frame, partials));
                            let rows = block.first..block.first + block.rows;
                            let (greatest, sums) = Own::rows_of(&mut partials[*reduction], rows);
                            at_infinity(*at, greatest, sums);
                        }
                        Item::Step(step) => self.block(step, tile, &block, frame, &sums, partials),
                    }
                }
            }
        }
        true
    }

    /// # Safety
    /// The conditions of [`BoundStrips::run`].
    unsafe fn row_loop(
        &self,
        RowLoop { elements, rows, bindings }: &RowLoop,
        tile: &Tile,
        block: &StripBlock,
        (frame, partials): (&mut Frame<T>, &mut [Vec<f64>]),
    ) {
        let mut addresses: SmallVec<[*mut u8; ROW_ARGUMENTS]> = SmallVec::with_capacity(bindings.len());
        let mut steps: SmallVec<[isize; ROW_ARGUMENTS]> = SmallVec::with_capacity(bindings.len());
        let mut follow = true;
        for binding in bindings {
            let lanes = match *binding {
                StripBinding::Total(i, word) => {
                    let address = partials[i][word * tile.rows.len() + block.first..].as_mut_ptr().cast();
                    Lanes { address, step: size_of::<f64>() as isize, follows: false }
                }
                binding => self.lanes(binding, tile, block, frame),
            };
            addresses.push(lanes.address);
            steps.push(lanes.step);
            follow &= lanes.follows;
        }
        let of_rows = (!follow || elements.is_none()).then(|| rows.kernel(block.width));
        let of_rows = of_rows.as_deref().and_then(Option::as_ref);
        // SAFETY: registers have room for the block's rows, or the tile's columns or rows; the views reach its elements, which
        // are neighbours, as `Neighbours` says; a reduction has a result for each of the tile's rows. An output overlaps no
        // other and no input but the one that it overwrites, which has the same elements at the same addresses.
        unsafe {
            match (of_rows, elements) {
                (Some(kernel), _) => kernel.run(&mut addresses, &steps, block.rows),
                (None, Some(kernel)) if follow => kernel.run(&addresses, block.rows * block.width),
                (None, Some(kernel)) => {
                    for _ in 0..block.rows {
                        kernel.run(&addresses, block.width);
                        addresses.iter_mut().zip(&steps).for_each(|(to, step)| *to = to.wrapping_offset(*step));
                    }
                }
                // Tiles without code are not served.
                (None, None) => {}
            }
        }
    }

    fn lanes(&self, binding: StripBinding, tile: &Tile, block: &StripBlock, frame: &mut Frame<T>) -> Lanes {
        let size = size_of::<T>() as isize;
        let below = block.width as isize * size;
        let view = |view: &View| {
            let address = view.at(tile.batch, tile.rows.start + block.first, tile.columns.start);
            let step = view.strides[1] * view.element.size() as isize;
            Lanes { address, step, follows: view.strides[1] == block.width as isize }
        };
        let numbers = &mut frame.numbers;
        let integers = |place: StripPlace, block: &StripBlock, integers: &mut Bank<i64>, narrow: &mut [Vec<i32>]| {
            let wide = size_of::<i64>() as isize;
            // The lower half of 64 bits comes first.
            let (address, step) = match place {
                StripPlace::Row(i) => (narrow[i].as_mut_ptr().cast(), 0),
                StripPlace::Column(i) => (integers.columns[i][block.first..].as_mut_ptr().cast(), wide),
                StripPlace::Single(i) => (integers.singles[i].as_mut_ptr().cast(), 0),
                // These are no places of `StripBinding::Integers`.
                StripPlace::Block(_) | StripPlace::Accum(_) => (std::ptr::null_mut(), 0),
            };
            Lanes { address, step, follows: matches!(place, StripPlace::Single(_)) || block.rows == 1 }
        };
        let (own, step, follows) = match binding {
            StripBinding::Parameter(i) => return view(&self.parameters[i]),
            StripBinding::Output(i) => return view(&self.outputs[i]),
            StripBinding::Read(StripPlace::Single(i)) => (numbers.singles[i].as_mut_slice(), 0, true),
            StripBinding::Read(StripPlace::Row(i)) => (numbers.rows[i].as_mut_slice(), 0, false),
            StripBinding::Read(StripPlace::Column(i)) => (&mut numbers.columns[i][block.first..], size, false),
            StripBinding::Read(StripPlace::Block(i)) | StripBinding::Write(i) => {
                (numbers.blocks[i].as_mut_slice(), below, true)
            }
            StripBinding::Read(StripPlace::Accum(i)) => {
                (&mut frame.accums[i][block.first * block.width..], below, true)
            }
            StripBinding::Integers(place) => return integers(place, block, &mut frame.integers, &mut frame.narrow),
            // It has no lanes.
            StripBinding::Total(..) => (&mut [][..], 0, true),
        };
        Lanes { address: own.as_mut_ptr().cast(), step, follows: follows || block.rows == 1 }
    }
}
