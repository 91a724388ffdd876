//! Runs a strip program over one tile.

use std::mem::take;
use std::ops::Range;

use super::element::{Arithmetic, View};
use super::machine::Machine;
use super::program::{Program, Section};
use super::reduce;
use super::step::{IntegerStep, Place, Step};
use super::tile::{Extents, STRIP, Tile, TileShape};
use crate::evt::{BroadcastClass, ParameterClass, ValidTree};
use crate::exhaustion::{repeated, resize};
use crate::simd;
use crate::simd::lines::Lines;

/// A tree's compiled epilogue, with the memory of its arguments.
pub(super) struct Bound<'a, T> {
    pub(super) tree: &'a ValidTree,
    pub(super) program: &'a Program<T>,
    /// The steps of its blocks, compiled.
    pub(super) machine: Option<&'a Machine>,
    /// By parameter index; the entries of host scalars are not used.
    pub(super) parameters: &'a [View],
    /// By output index.
    pub(super) outputs: &'a [View],
    pub(super) extents: Extents,
}

/// A thread's registers.
#[derive(Debug)]
pub(super) struct Frame<T> {
    /// The tile's values of every accumulator that is read, row by row, followed by room for reading a whole block past
    /// them.
    pub(super) accums: Vec<Lines<T>>,
    /// Numbers, and truth values as 0 and 1.
    pub(super) numbers: Bank<T>,
    pub(super) integers: Bank<i64>,
    /// Integers for every column, in 32 bits, where machine code reads them: by the number of their register.
    pub(super) narrow: Vec<Vec<i32>>,
}

/// Registers of one type.
#[derive(Debug)]
pub(super) struct Bank<U> {
    pub(super) singles: Vec<U>,
    pub(super) rows: Vec<Vec<U>>,
    pub(super) columns: Vec<Vec<U>>,
    pub(super) blocks: Vec<Vec<U>>,
}

impl<U: Copy> Bank<U> {
    fn new<T>(program: &Program<T>, shape: TileShape, zero: U) -> Self {
        let registers =
            |section: &Section, length: usize| (0..section.registers).map(|_| repeated(zero, length)).collect();
        Self {
            singles: vec![zero; program.singles.registers],
            rows: registers(&program.rows, shape.n),
            columns: registers(&program.columns, shape.m),
            blocks: registers(&program.block, STRIP),
        }
    }

    fn have_blocks(&mut self, count: usize, length: usize, zero: U) {
        self.blocks.resize_with(self.blocks.len().max(count), Vec::new);
        for block in self.blocks.iter_mut().filter(|block| block.len() < length) {
            resize(block, length, zero);
        }
    }

    const fn none() -> Self {
        Self { singles: Vec::new(), rows: Vec::new(), columns: Vec::new(), blocks: Vec::new() }
    }

    /// Repeats a single value, a row vector or a column vector in a block register.
    pub(super) fn spread(&mut self, to: usize, x: Place, block: &Block) {
        let result = &mut self.blocks[to];
        let rows = result.chunks_exact_mut(block.width).take(block.rows);
        match x {
            Place::Single(i) => result.fill(self.singles[i]),
            Place::Row(i) => rows.for_each(|row| row.copy_from_slice(&self.rows[i][..block.width])),
            Place::Column(i) => {
                rows.zip(&self.columns[i][block.first..]).for_each(|(row, &value)| row.fill(value));
            }
            Place::Block(_) | Place::Accum(_) => debug_assert!(false, "{x:?} is a block already"),
        }
    }
}

impl<T: Arithmetic> Frame<T> {
    pub(super) fn new(program: &Program<T>, shape: TileShape) -> Self {
        let mut numbers = Bank::new(program, shape, T::ZERO);
        numbers.singles[..program.constants.len()].copy_from_slice(&program.constants);
        let integers = if program.has_integers { Bank::new(program, shape, 0) } else { Bank::none() };
        let mut accums = Vec::new();
        accums.resize_with(program.accumulators.last().map_or(0, |last| last + 1), Lines::default);
        program.accumulators.iter().for_each(|i| accums[*i] = Lines::zeroed(shape.m * shape.n + STRIP));
        Self { accums, numbers, integers, narrow: Vec::new() }
    }

    /// Has the integers of some registers for a tile's columns in 32 bits, too. They fit.
    pub(super) fn narrow_integers(&mut self, rows: &[usize], width: usize) {
        for &row in rows {
            self.narrow.resize_with(self.narrow.len().max(row + 1), Vec::new);
            let narrow = &mut self.narrow[row];
            narrow.clear();
            narrow.extend(self.integers.rows[row][..width].iter().map(|&x| x as i32));
        }
    }

    /// Makes sure that there are this many block registers with this many elements each.
    pub(super) fn have_blocks(&mut self, count: usize, length: usize) {
        self.numbers.have_blocks(count, length, T::ZERO);
        if !self.integers.blocks.is_empty() {
            self.integers.have_blocks(count, length, 0);
        }
    }
}

/// The rows of a tile that make up a block.
pub(super) struct Block {
    /// The first row, relative to the tile.
    pub(super) first: usize,
    pub(super) rows: usize,
    pub(super) width: usize,
}

impl Block {
    fn len(&self) -> usize {
        self.rows * self.width
    }

    /// The length that arithmetic runs over: whole vectors, so that no loop has a scalar remainder. Elements after
    /// [`Block::len`] are never stored.
    pub(super) fn padded(&self) -> usize {
        self.len().next_multiple_of(32)
    }
}

/// The elements that a step computes.
pub(super) enum Over<'a> {
    /// One value.
    Single,
    /// The tile's columns (for a row vector) or rows (for a column vector).
    Vector(BroadcastClass),
    Block(&'a Block),
}

impl Over<'_> {
    pub(super) const fn class(&self) -> BroadcastClass {
        match self {
            Self::Single => BroadcastClass::Scalar,
            Self::Vector(class) => *class,
            Self::Block(_) => BroadcastClass::Tensor,
        }
    }

    pub(super) fn length(&self, tile: &Tile) -> usize {
        match self {
            Self::Single => 1,
            Self::Vector(BroadcastClass::RowVector) => tile.columns.len(),
            Self::Vector(_) => tile.rows.len(),
            Self::Block(block) => block.padded(),
        }
    }
}

impl<T: Arithmetic> Bound<'_, T> {
    /// Runs the epilogue over a tile whose accumulators are in the frame, and gives the tile's partial result of every
    /// reduction. If integers were multiplied, `sums` has the exact accumulators.
    ///
    /// # Safety
    /// The views must reach every element of the tile, no other thread may write the outputs meanwhile, and no two
    /// tiles may share an element of an output (vectors and scalars are stored only by the first tile that has them).
    pub(super) unsafe fn run<'s>(
        &self,
        tile: &Tile,
        frame: &mut Frame<T>,
        sums: impl Fn(usize) -> &'s [f64],
    ) -> Vec<Vec<f64>> {
        let (height, width) = (tile.rows.len(), tile.columns.len());
        // SAFETY: the caller's promise.
        unsafe { self.vectors(tile, frame, false) };
        let reductions = &self.program.reductions;
        let mut partials: Vec<Vec<f64>> = reductions.iter().map(|r| reduce::start(r, tile)).collect();
        if height == 0 || width == 0 {
            return partials;
        }
        // SAFETY: the caller's promise.
        if unsafe { self.by_machine(tile, frame, &sums, &mut partials) } {
            return partials;
        }
        let rows = (STRIP / width).max(1);
        self.spread(&self.program.spread.steps, &Block { first: 0, rows: rows.min(height), width }, frame);
        for first in (0..height).step_by(rows) {
            let block = Block { first, rows: rows.min(height - first), width };
            for step in &self.program.block.steps {
                // SAFETY: the caller's promise.
                unsafe { self.block(*step, tile, &block, frame, &sums, &mut partials) };
            }
        }
        partials
    }

    /// Computes what a tile's rows or columns share; `has_rows`: what the columns share is there already.
    ///
    /// # Safety
    /// The conditions of [`run`](Self::run).
    pub(super) unsafe fn vectors(&self, tile: &Tile, frame: &mut Frame<T>, has_rows: bool) {
        for step in &self.program.singles.steps {
            // SAFETY: the caller's promise.
            unsafe { self.single(*step, tile, frame) };
        }
        for step in self.program.rows.steps.iter().filter(|_| !has_rows) {
            // SAFETY: the caller's promise.
            unsafe { self.vector(*step, tile, frame, BroadcastClass::RowVector) };
        }
        for step in &self.program.columns.steps {
            // SAFETY: the caller's promise.
            unsafe { self.vector(*step, tile, frame, BroadcastClass::ColumnVector) };
        }
    }

    /// Fills block registers with what is the same for all blocks, of which `whole` is the largest.
    pub(super) fn spread(&self, steps: &[Step], whole: &Block, frame: &mut Frame<T>) {
        for step in steps {
            match *step {
                Step::Spread { to, x } => frame.numbers.spread(to, x, whole),
                Step::Integer(IntegerStep::Spread { to, x }) => frame.integers.spread(to, x, whole),
                _ => {}
            }
        }
    }

    /// The tile's values of a vector or scalar, which are those of its columns or rows.
    pub(super) fn values_of(class: BroadcastClass, tile: &Tile) -> Range<usize> {
        match class {
            BroadcastClass::Scalar => 0..1,
            BroadcastClass::RowVector => tile.columns.clone(),
            BroadcastClass::ColumnVector | BroadcastClass::Tensor => tile.rows.clone(),
        }
    }

    /// Whether this tile stores an output of a class. The first batch stores an output that all batches share.
    pub(super) fn stores(view: &View, class: BroadcastClass, tile: &Tile) -> bool {
        let of_rows = matches!(class, BroadcastClass::ColumnVector | BroadcastClass::Tensor);
        let first_batch = tile.batch == 0 || view.strides[0] != 0 || (of_rows && tile.has_own_rows);
        first_batch
            && match class {
                BroadcastClass::Scalar => tile.is_top && tile.columns.start == 0,
                BroadcastClass::RowVector => tile.is_top,
                BroadcastClass::ColumnVector => tile.columns.start == 0,
                BroadcastClass::Tensor => true,
            }
    }

    unsafe fn single(&self, step: Step, tile: &Tile, frame: &mut Frame<T>) {
        if let Step::Integer(step) = step {
            // SAFETY: the caller's promise.
            return unsafe { self.integer(step, tile, frame, &Over::Single) };
        }
        let singles = &mut frame.numbers.singles;
        let value = |place: Place, singles: &[T]| match place {
            Place::Single(i) => [singles[i]],
            Place::Row(_) | Place::Column(_) | Place::Block(_) | Place::Accum(_) => [T::ZERO],
        };
        let mut result = [T::ZERO];
        let to = match step {
            Step::Load { to, parameter } => {
                let view = &self.parameters[parameter.index()];
                debug_assert_eq!(self.tree.parameter(parameter).class, ParameterClass::DeviceScalar);
                // SAFETY: the caller's promise.
                unsafe { T::load(view.element, view.at(tile.batch, 0, 0), 1, &mut result) };
                to
            }
            Step::Unary { to, op, x } => {
                simd::unary(op, &mut result, &value(x, singles));
                to
            }
            Step::Binary { to, op, x, y } => {
                simd::binary(op, &mut result, &value(x, singles), &value(y, singles));
                to
            }
            Step::Ternary { to, op, x, y, z } => {
                simd::select_fma(op, &mut result, &value(x, singles), &value(y, singles), &value(z, singles));
                to
            }
            Step::Round { to, element, x } => {
                T::round_to(element, &mut result, &value(x, singles));
                to
            }
            Step::Spread { to, x } => {
                result = value(x, singles);
                to
            }
            Step::Store { output, x } => {
                let view = &self.outputs[output];
                if Self::stores(view, BroadcastClass::Scalar, tile) {
                    // SAFETY: the caller's promise; no other tile stores it.
                    unsafe { T::store(view.element, &value(x, singles), view.at(tile.batch, 0, 0), 1) };
                }
                return;
            }
            // These occur in blocks only.
            Step::Random { .. } | Step::Reduce { .. } | Step::StoreSums { .. } | Step::Integer(_) => return,
        };
        singles[to] = result[0];
    }

    /// Runs a step over the columns (for a row vector) or the rows (for a column vector) of the tile.
    unsafe fn vector(&self, step: Step, tile: &Tile, frame: &mut Frame<T>, class: BroadcastClass) {
        if let Step::Integer(step) = step {
            // SAFETY: the caller's promise.
            return unsafe { self.integer(step, tile, frame, &Over::Vector(class)) };
        }
        let along_rows = class == BroadcastClass::RowVector;
        let values = Self::values_of(class, tile);
        let length = values.len();
        let Bank { singles, rows, columns, .. } = &mut frame.numbers;
        let registers = if along_rows { rows } else { columns };
        let at = |place: Place, registers: &'_ [Vec<T>]| -> *const [T] {
            match place {
                Place::Single(i) => &raw const singles[i..=i],
                Place::Row(i) | Place::Column(i) => &raw const registers[i][..length],
                Place::Block(_) | Place::Accum(_) => &raw const singles[..0],
            }
        };
        // The register to write is taken out. No operand is in it: `allocate` and `emit` give every step a new one.
        let mut taken = Vec::new();
        let number = match step {
            Step::Load { to, .. }
            | Step::Unary { to, .. }
            | Step::Binary { to, .. }
            | Step::Ternary { to, .. }
            | Step::Round { to, .. }
            | Step::Spread { to, .. } => {
                taken = take(&mut registers[to]);
                Some(to)
            }
            Step::Random { .. }
            | Step::Reduce { .. }
            | Step::Store { .. }
            | Step::StoreSums { .. }
            | Step::Integer(_) => None,
        };
        let to = &mut taken[..if number.is_some() { length } else { 0 }];
        // SAFETY: the slices borrow registers and single values, which do not change before the step ends.
        let slice = |place: Place| unsafe { &*at(place, registers) };
        match step {
            Step::Load { parameter, .. } => {
                let view = &self.parameters[parameter.index()];
                for part in view.stretches_of_vector(values.clone()) {
                    let from = view.at(tile.batch, part.start, 0);
                    let to = &mut to[part.start - values.start..part.end - values.start];
                    // SAFETY: the caller's promise.
                    unsafe { T::load(view.element, from, view.strides[1], to) };
                }
            }
            Step::Unary { op, x, .. } => simd::unary(op, to, slice(x)),
            Step::Binary { op, x, y, .. } => simd::binary(op, to, slice(x), slice(y)),
            Step::Ternary { op, x, y, z, .. } => simd::select_fma(op, to, slice(x), slice(y), slice(z)),
            Step::Round { element, x, .. } => T::round_to(element, to, slice(x)),
            Step::Spread { x, .. } => to.fill(slice(x).first().copied().unwrap_or(T::ZERO)),
            Step::Store { output, x } => {
                let view = &self.outputs[output];
                if Self::stores(view, class, tile) {
                    for part in view.stretches_of_vector(values.clone()) {
                        let to = view.at(tile.batch, part.start, 0);
                        let x = &slice(x)[part.start - values.start..part.end - values.start];
                        // SAFETY: the caller's promise; no other tile stores these elements.
                        unsafe { T::store(view.element, x, to, view.strides[1]) };
                    }
                }
            }
            Step::Random { .. } | Step::Reduce { .. } | Step::StoreSums { .. } | Step::Integer(_) => {}
        }
        if let Some(number) = number {
            registers[number] = taken;
        }
    }

    /// Runs a step over a block.
    ///
    /// # Safety
    /// The conditions of [`Bound::run`].
    pub(super) unsafe fn block<'s>(
        &self,
        step: Step,
        tile: &Tile,
        block: &Block,
        frame: &mut Frame<T>,
        sums: impl Fn(usize) -> &'s [f64],
        partials: &mut [Vec<f64>],
    ) {
        let length = block.padded();
        match step {
            Step::Load { to, parameter } => {
                let view = &self.parameters[parameter.index()];
                let to = &mut frame.numbers.blocks[to];
                if self.tree.parameter(parameter).class == ParameterClass::Bits {
                    // SAFETY: the caller's promise.
                    unsafe { Self::load_bits(view, tile, block, to) };
                } else {
                    // SAFETY: the caller's promise.
                    unsafe { load_block(view, tile, block, to) };
                }
            }
            Step::Random { to, seed, stream } => {
                // SAFETY: the caller's promise.
                unsafe { self.random((seed, stream), tile, block, &mut frame.numbers.blocks[to]) };
            }
            Step::Spread { to, x } => frame.numbers.spread(to, x, block),
            // SAFETY: the caller's promise.
            Step::Integer(step) => unsafe { self.integer(step, tile, frame, &Over::Block(block)) },
            Step::Unary { to, op, x } => {
                let mut result = take(&mut frame.numbers.blocks[to]);
                simd::unary(op, &mut result[..length], frame.slice(x, block, length));
                frame.numbers.blocks[to] = result;
            }
            Step::Binary { to, op, x, y } => {
                let mut result = take(&mut frame.numbers.blocks[to]);
                let (x, y) = (frame.slice(x, block, length), frame.slice(y, block, length));
                simd::binary(op, &mut result[..length], x, y);
                frame.numbers.blocks[to] = result;
            }
            Step::Ternary { to, op, x, y, z } => {
                let mut result = take(&mut frame.numbers.blocks[to]);
                let [x, y, z] = [x, y, z].map(|place| frame.slice(place, block, length));
                simd::select_fma(op, &mut result[..length], x, y, z);
                frame.numbers.blocks[to] = result;
            }
            Step::Round { to, element, x } => {
                let mut result = take(&mut frame.numbers.blocks[to]);
                T::round_to(element, &mut result[..length], frame.slice(x, block, length));
                frame.numbers.blocks[to] = result;
            }
            Step::Reduce { reduction, x } => {
                let values = frame.slice(x, block, block.len());
                let description = &self.program.reductions[reduction];
                reduce::accumulate(description, &mut partials[reduction], values, block.first, block.width);
            }
            Step::Store { output, x } => {
                let (view, values) = (&self.outputs[output], frame.slice(x, block, block.len()));
                if self.tree.outputs()[output].packed {
                    // SAFETY: the caller's promise.
                    unsafe { self.store_bits(view, tile, block, values) };
                } else {
                    // SAFETY: the caller's promise.
                    unsafe { store_block(view, tile, block, values) };
                }
            }
            Step::StoreSums { output, accumulator } => {
                let sums = &sums(accumulator)[block.first * block.width..][..block.len()];
                // SAFETY: the caller's promise.
                unsafe { store_block(&self.outputs[output], tile, block, sums) };
            }
        }
    }
}

impl<T: Arithmetic> Frame<T> {
    /// The operand of a step over a block: `length` elements, or one.
    fn slice(&self, place: Place, block: &Block, length: usize) -> &[T] {
        match place {
            Place::Single(i) => &self.numbers.singles[i..=i],
            Place::Block(i) => &self.numbers.blocks[i][..length],
            Place::Accum(i) => &self.accums[i][block.first * block.width..][..length],
            // These are spread before a block reads them.
            Place::Row(_) | Place::Column(_) => &[],
        }
    }
}

unsafe fn load_block<T: Arithmetic>(view: &View, tile: &Tile, block: &Block, to: &mut [T]) {
    let (first, column) = (tile.rows.start + block.first, tile.columns.start);
    let [_, down, across] = view.strides;
    if across == 1 && down == block.width as isize && view.digits.is_none() {
        // SAFETY: the caller's promise; the rows follow one another without gaps.
        return unsafe { T::load(view.element, view.at(tile.batch, first, column), 1, &mut to[..block.len()]) };
    }
    for (i, row) in to.chunks_exact_mut(block.width).take(block.rows).enumerate() {
        for part in view.stretches(column..column + block.width) {
            let from = view.at(tile.batch, first + i, part.start);
            // SAFETY: the caller's promise.
            unsafe { T::load(view.element, from, across, &mut row[part.start - column..part.end - column]) };
        }
    }
}

unsafe fn store_block<T: Arithmetic>(view: &View, tile: &Tile, block: &Block, from: &[T]) {
    if !Bound::<T>::stores(view, BroadcastClass::Tensor, tile) {
        return;
    }
    let (first, column) = (tile.rows.start + block.first, tile.columns.start);
    for (i, row) in from.chunks_exact(block.width).enumerate() {
        for part in view.stretches(column..column + block.width) {
            let to = view.at(tile.batch, first + i, part.start);
            // SAFETY: the caller's promise.
            unsafe { T::store(view.element, &row[part.start - column..part.end - column], to, view.strides[2]) };
        }
    }
}
