//! Tensor memory: a block's cells and allocations, the columns that the blocks of an SM share, and the products and copies
//! in flight.

use std::collections::VecDeque;
use std::ops::Range;

use crate::numerics::descriptor::Tile;
use crate::numerics::tcgen05::Product;
use crate::numerics::tensor_memory::{COLUMNS, LANES, TensorAddress};

/// The bits of a cell that nothing has written. As a float it is a NaN.
pub(in crate::exec) const POISON: u32 = u32::MAX;

/// The unit of allocation, in columns (PTX ISA 9.7.16.1.2).
const UNIT: u32 = 32;

/// A rectangle of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) struct Cells {
    pub(in crate::exec) column: u32,
    pub(in crate::exec) columns: u32,
    /// One bit for each half of a quarter of the lanes.
    pub(in crate::exec) halves: u8,
}

impl Cells {
    /// The lanes of a product's operand: all of them, or one half of each quarter.
    pub(in crate::exec) fn of_product(at: TensorAddress, rows: usize, columns: u32) -> Self {
        let halves = if rows == 128 { 0xff } else { 0x55 << (at.lane / 16) };
        Self { column: at.column, columns, halves }
    }

    fn has(&self, lane: u32, column: u32) -> bool {
        self.halves >> (lane / 16) & 1 != 0 && column.wrapping_sub(self.column) < self.columns
    }
}

/// The place of operand A.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) enum Source {
    Shared(Tile),
    Tensor(TensorAddress),
}

/// An operation of the pipe.
#[derive(Clone, Debug)]
pub(in crate::exec) enum Work {
    Multiply {
        product: Product,
        d: TensorAddress,
        a: Source,
        b: Tile,
        accumulate: bool,
    },
    /// Rows of 16 or 32 bytes of a tile go to lanes: each of `parts` maps the first of its rows to lanes, and says how
    /// many there are.
    Copy {
        tile: Tile,
        bytes: u32,
        column: u32,
        parts: &'static [(u32, u32, u32)],
    },
    /// Arrives at mbarriers, given as block and offset.
    Commit {
        mbarriers: Vec<(usize, u32)>,
        ticket: u64,
    },
}

/// An operation that was issued and has not taken effect.
#[derive(Clone, Debug)]
pub(in crate::exec) struct Issued {
    pub(in crate::exec) work: Work,
    /// The cells that it will write.
    pub(in crate::exec) cells: Cells,
    pub(in crate::exec) pc: u32,
    pub(in crate::exec) warp: u32,
}

/// The tensor memory of one block.
#[derive(Debug, Default)]
pub(in crate::exec) struct TensorMemory {
    /// Cells, lane by lane; empty until something is allocated.
    cells: Vec<u32>,
    /// One bit for each cell: whether it holds no defined value.
    undefined: Vec<u64>,
    /// First column and number of columns.
    allocations: Vec<(u32, u32)>,
    /// Number of columns of the last allocation.
    last: Option<u32>,
    relinquished: bool,
    /// Products, copies and commits in flight, in the order in which they were issued.
    pub(in crate::exec) pipe: VecDeque<Issued>,
    /// The SM of the block, among those of its worker.
    pub(in crate::exec) multiprocessor: usize,
}

fn index(lane: u32, column: u32) -> usize {
    (lane * COLUMNS + column) as usize
}

impl TensorMemory {
    /// Begins a block on an SM.
    pub(in crate::exec) fn restart(&mut self, multiprocessor: usize) {
        self.allocations.clear();
        self.pipe.clear();
        (self.last, self.relinquished, self.multiprocessor) = (None, false, multiprocessor);
    }

    /// Why the block may not allocate this many columns, if it may not.
    pub(in crate::exec) fn refusal(&self, columns: u32) -> Option<String> {
        if !columns.is_power_of_two() || !(UNIT..=COLUMNS).contains(&columns) {
            return Some(format!(
                "{columns} columns of tensor memory: the number must be a power of two from 32 to 512"
            ));
        }
        if self.relinquished {
            return Some(
                "the block has given up its right to allocate by tcgen05.relinquish_alloc_permit: allocate before"
                    .into(),
            );
        }
        let last = self.last.filter(|&last| columns > last)?;
        Some(format!(
            "{columns} columns of tensor memory after an allocation of {last}: the number must not grow between two \
             allocations of a block (PTX ISA 9.7.16.7)"
        ))
    }

    /// Records an allocation, whose cells hold nothing yet.
    pub(in crate::exec) fn allocate(&mut self, first: u32, columns: u32) {
        self.cells.resize((LANES * COLUMNS) as usize, POISON);
        self.undefined.resize((LANES * COLUMNS / 64) as usize, u64::MAX);
        for lane in 0..LANES {
            self.cells[index(lane, first)..][..columns as usize].fill(POISON);
            (first..first + columns).for_each(|column| self.mark(lane, column, false));
        }
        self.allocations.push((first, columns));
        self.last = Some(columns);
    }

    /// Ends an allocation. False if there is none of this size at this column.
    pub(in crate::exec) fn free(&mut self, first: u32, columns: u32) -> bool {
        let found = self.allocations.iter().position(|&allocation| allocation == (first, columns));
        found.map(|place| self.allocations.swap_remove(place)).is_some()
    }

    pub(in crate::exec) fn relinquish(&mut self) {
        self.relinquished = true;
    }

    pub(in crate::exec) fn allocations(&self) -> &[(u32, u32)] {
        &self.allocations
    }

    /// Whether every column is allocated.
    pub(in crate::exec) fn holds(&self, columns: Range<u32>) -> bool {
        let holds = |column| self.allocations.iter().any(|&(first, count)| (first..first + count).contains(&column));
        columns.end <= COLUMNS && columns.step_by(1).all(holds)
    }

    /// A cell as a load sees it now, and whether it is defined. Cells of operations in flight are poisoned.
    pub(in crate::exec) fn load(&self, lane: u32, column: u32) -> (u32, bool) {
        let defined = self.is_defined(lane, column);
        if self.pipe.iter().any(|issued| issued.cells.has(lane, column)) {
            return (POISON, defined);
        }
        (self.cells[index(lane, column)], defined)
    }

    pub(in crate::exec) fn store(&mut self, lane: u32, column: u32, value: u32, defined: bool) {
        self.cells[index(lane, column)] = value;
        self.mark(lane, column, defined);
    }

    pub(in crate::exec) fn row(&self, lane: u32, column: u32, columns: u32) -> &[u32] {
        &self.cells[index(lane, column)..][..columns as usize]
    }

    /// All cells, lane by lane.
    pub(in crate::exec) fn cells_mut(&mut self) -> &mut [u32] {
        &mut self.cells
    }

    pub(in crate::exec) fn is_defined(&self, lane: u32, column: u32) -> bool {
        let at = index(lane, column);
        self.undefined[at / 64] >> (at % 64) & 1 == 0
    }

    pub(in crate::exec) fn mark(&mut self, lane: u32, column: u32, defined: bool) {
        let at = index(lane, column);
        let bit = 1 << (at % 64);
        if defined {
            self.undefined[at / 64] &= !bit;
        } else {
            self.undefined[at / 64] |= bit;
        }
    }
}

/// An SM of a worker: the columns of its tensor memory, and its blocks.
#[derive(Clone, Copy, Debug, Default)]
struct Multiprocessor {
    /// One bit for each unit of columns that is taken.
    taken: u16,
    blocks: u32,
}

/// The SMs of a worker. Blocks of different clusters share them, as many as there is room for.
#[derive(Debug, Default)]
pub(in crate::exec) struct Multiprocessors(Vec<Multiprocessor>);

impl Multiprocessors {
    /// Places a block on the first SM with room that is not among `others`. At most `most` blocks fit on one.
    pub(in crate::exec) fn enter(&mut self, most: u32, others: &[usize]) -> usize {
        let free = |(number, sm): &(usize, &Multiprocessor)| sm.blocks < most && !others.contains(number);
        let number = self.0.iter().enumerate().find(free).map_or(self.0.len(), |(number, _)| number);
        if number == self.0.len() {
            self.0.push(Multiprocessor::default());
        }
        self.0[number].blocks += 1;
        number
    }

    pub(in crate::exec) fn leave(&mut self, number: usize) {
        if let Some(sm) = self.0.get_mut(number) {
            sm.blocks = sm.blocks.saturating_sub(1);
        }
    }

    fn mask(first: u32, columns: u32) -> u16 {
        (((1u32 << (columns / UNIT)) - 1) << (first / UNIT)) as u16
    }

    /// Takes this many columns, from a multiple of their number on, if they are free.
    pub(in crate::exec) fn take(&mut self, number: usize, columns: u32) -> Option<u32> {
        let sm = self.0.get_mut(number)?;
        let free = |first: &u32| sm.taken & Self::mask(*first, columns) == 0;
        let first = (0..COLUMNS).step_by(columns as usize).find(free)?;
        sm.taken |= Self::mask(first, columns);
        Some(first)
    }

    pub(in crate::exec) fn give_back(&mut self, number: usize, first: u32, columns: u32) {
        if let Some(sm) = self.0.get_mut(number) {
            sm.taken &= !Self::mask(first, columns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_an_sm_share_its_columns() {
        let mut sms = Multiprocessors::default();
        let (a, b, c) = (sms.enter(2, &[]), sms.enter(2, &[]), sms.enter(2, &[]));
        assert_eq!((a, b, c), (0, 0, 1));
        assert_eq!((sms.take(a, 256), sms.take(b, 128), sms.take(b, 256)), (Some(0), Some(256), None));
        assert_eq!(sms.take(c, 512), Some(0));
        sms.give_back(a, 0, 256);
        assert_eq!(sms.take(b, 256), Some(0));
        sms.leave(a);
        assert_eq!((sms.enter(2, &[0]), sms.enter(2, &[])), (1, 0));
    }

    #[test]
    fn allocations_shrink_are_undefined_and_end_as_they_began() {
        let mut memory = TensorMemory::default();
        assert!(memory.refusal(48).is_some() && memory.refusal(16).is_some() && memory.refusal(1024).is_some());
        memory.allocate(64, 64);
        memory.store(5, 64, 7, true);
        assert_eq!((memory.load(5, 64), memory.load(5, 65)), ((7, true), (POISON, false)));
        assert!(memory.holds(64..128) && !memory.holds(63..65) && !memory.holds(127..129));
        assert!(memory.refusal(128).is_some() && memory.refusal(64).is_none());
        assert!(!memory.free(64, 32) && !memory.free(0, 64) && memory.free(64, 64));
        memory.allocate(64, 32);
        assert_eq!(memory.load(5, 64), (POISON, false));
        memory.relinquish();
        assert!(memory.refusal(32).is_some());
    }
}
