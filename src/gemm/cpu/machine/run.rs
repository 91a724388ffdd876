//! Runs loops over the rows of a tile.

use std::sync::Arc;

use smallvec::SmallVec;

use super::lower::{Binding, Code, RowLoop};
use super::{Item, Machine};
use crate::evt::BroadcastClass;
use crate::gemm::cpu::element::{Arithmetic, View};
use crate::gemm::cpu::step::Place;
use crate::gemm::cpu::strip::{Block, Bound, Frame};
use crate::gemm::cpu::tile::{STRIP, Tile};
use crate::jit::{ARGUMENTS, Kernel, ROW_ARGUMENTS, RowKernel};

/// Columns of a tile from which on a loop for each row pays; narrower rows are computed many at a time, step by step.
const WIDE: usize = 32;

/// The most elements of a block. Several registers of this many are in the first-level cache.
const BLOCK: usize = 4 * STRIP;

/// Where a loop's argument is in the first row of a block, how many bytes further in the next one, and whether what is there
/// follows the first row's without a gap.
struct Lanes {
    address: *mut u8,
    step: isize,
    follows: bool,
}

impl Machine {
    /// Whether it does what is to be done in a tile.
    fn serves<T: Arithmetic>(&self, bound: &Bound<'_, T>, tile: &Tile) -> bool {
        let is_wide = tile.columns.len() >= WIDE;
        #[cfg(test)]
        let is_wide = is_wide || super::FORCED.get() == Some(true);
        is_wide && self.outputs.iter().all(|i| Bound::<T>::stores(&bound.outputs[*i], BroadcastClass::Tensor, tile))
    }

    /// The code of loops over rows of this many elements, for each of them that has reductions. `None` if some have none.
    fn of_rows(&self, width: usize) -> Option<SmallVec<[Arc<Option<RowKernel>>; 4]>> {
        let rows = self.items.iter().filter_map(|item| match item {
            Item::Loop(RowLoop { code: Code::Rows(of_rows), .. }) => Some(of_rows.kernel(width)),
            _ => None,
        });
        rows.map(|kernel| kernel.is_some().then_some(kernel)).collect()
    }

    /// The rows of a block. What several loops and steps share is in the first-level cache then.
    fn rows(&self, tile: &Tile) -> usize {
        if self.items.len() == 1 { tile.rows.len() } else { (BLOCK / tile.columns.len()).max(1) }
    }
}

impl<T: Arithmetic> Bound<'_, T> {
    /// Runs the steps of blocks over a tile with rows and columns, as far as they are machine code. Gives whether they are.
    ///
    /// # Safety
    /// The conditions of [`Bound::run`].
    pub(in crate::gemm::cpu) unsafe fn by_machine<'s>(
        &self,
        tile: &Tile,
        frame: &mut Frame<T>,
        sums: impl Fn(usize) -> &'s [f64],
        partials: &mut [Vec<f64>],
    ) -> bool {
        let Some(machine) = self.machine.filter(|machine| machine.serves(self, tile)) else { return false };
        let (height, width, rows) = (tile.rows.len(), tile.columns.len(), machine.rows(tile));
        let Some(kernels) = machine.of_rows(width) else { return false };
        frame.have_blocks(machine.registers, BLOCK);
        self.spread(&machine.spread, &Block { first: 0, rows: rows.min(height), width }, frame);
        for first in (0..height).step_by(rows) {
            let block = Block { first, rows: rows.min(height - first), width };
            let mut kernels = kernels.iter().filter_map(|kernel| kernel.as_ref().as_ref());
            for item in &machine.items {
                // SAFETY: the caller's promise.
                unsafe {
                    match item {
                        Item::Loop(RowLoop { code: Code::Elements(kernel), bindings }) => {
                            self.elements((kernel, bindings), tile, &block, frame);
                        }
                        Item::Loop(RowLoop { code: Code::Rows(_), bindings }) => {
                            if let Some(kernel) = kernels.next() {
                                self.rows((kernel, bindings), tile, &block, (frame, partials));
                            }
                        }
                        Item::Step(step) => self.block(*step, tile, &block, frame, &sums, partials),
                    }
                }
            }
        }
        true
    }

    /// # Safety
    /// The conditions of [`Bound::run`].
    unsafe fn rows(
        &self,
        (kernel, bindings): (&RowKernel, &[Binding]),
        tile: &Tile,
        block: &Block,
        (frame, partials): (&mut Frame<T>, &mut [Vec<f64>]),
    ) {
        let mut addresses: SmallVec<[*mut u8; ROW_ARGUMENTS]> = SmallVec::with_capacity(bindings.len());
        let mut apart: SmallVec<[isize; ROW_ARGUMENTS]> = SmallVec::with_capacity(bindings.len());
        for binding in bindings {
            let (address, step) = match *binding {
                Binding::Nothing => (std::ptr::null_mut(), 0),
                Binding::Total(i) => (partials[i][block.first..].as_mut_ptr().cast(), size_of::<f64>() as isize),
                other => {
                    let Lanes { address, step, .. } = self.lanes(other, tile, block, frame);
                    (address, step)
                }
            };
            addresses.push(address);
            apart.push(step);
        }
        // SAFETY: as for `elements`; the results of a reduction are one for each of the tile's rows.
        unsafe { kernel.run(&mut addresses, &apart, block.rows) };
    }

    /// # Safety
    /// The conditions of [`Bound::run`].
    unsafe fn elements(
        &self,
        (kernel, bindings): (&Kernel, &[Binding]),
        tile: &Tile,
        block: &Block,
        frame: &mut Frame<T>,
    ) {
        let mut addresses = [std::ptr::null_mut::<u8>(); ARGUMENTS];
        let mut steps = [0; ARGUMENTS];
        let mut follow = true;
        for ((binding, address), step) in bindings.iter().zip(&mut addresses).zip(&mut steps) {
            let lanes = self.lanes(*binding, tile, block, frame);
            (*address, *step) = (lanes.address, lanes.step);
            follow &= lanes.follows;
        }
        let addresses = &mut addresses[..bindings.len()];
        let (calls, count) = if follow { (1, block.rows * block.width) } else { (block.rows, block.width) };
        for _ in 0..calls {
            // SAFETY: registers have room for the block's rows, or the tile's columns or rows; the views reach its elements,
            // which are neighbours, as `Neighbours` says. An output overlaps no other and no input but the one that it
            // overwrites, which has the same elements at the same addresses.
            unsafe { kernel.run(addresses, count) };
            for (address, step) in addresses.iter_mut().zip(&steps) {
                *address = address.wrapping_offset(*step);
            }
        }
    }

    fn lanes(&self, binding: Binding, tile: &Tile, block: &Block, frame: &mut Frame<T>) -> Lanes {
        let size = size_of::<T>() as isize;
        let below = block.width as isize * size;
        let view = |view: &View| {
            let address = view.at(tile.batch, tile.rows.start + block.first, tile.columns.start);
            let step = view.strides[1] * view.element.size() as isize;
            Lanes { address, step, follows: view.strides[1] == block.width as isize }
        };
        let numbers = &mut frame.numbers;
        let (own, step, follows) = match binding {
            Binding::Parameter(i) => return view(&self.parameters[i]),
            Binding::Output(i) => return view(&self.outputs[i]),
            Binding::Read(Place::Single(i)) => (&mut numbers.singles[i..], 0, true),
            Binding::Read(Place::Row(i)) => (numbers.rows[i].as_mut_slice(), 0, false),
            Binding::Read(Place::Column(i)) => (&mut numbers.columns[i][block.first..], size, false),
            Binding::Read(Place::Block(i)) | Binding::Write(i) => (numbers.blocks[i].as_mut_slice(), below, true),
            Binding::Read(Place::Accum(i)) => (&mut frame.accums[i][block.first * block.width..], below, true),
            // These have no lanes.
            Binding::Total(_) | Binding::Nothing => (&mut [][..], 0, true),
        };
        Lanes { address: own.as_mut_ptr().cast(), step, follows: follows || block.rows == 1 }
    }
}
