//! Runs a strip program over one tile.

use std::mem::take;
use std::ops::Range;

use smallvec::SmallVec;

use super::element::{Arithmetic, View};
use super::machine::Machine;
use super::program::{Program, Section};
use super::reduce;
use super::step::{Register, StripPlace, StripStep};
use super::tile::{Extents, STRIP, Tile, TileShape};
use crate::evt::{BroadcastClass, ParameterClass, Position, ValidTree};
use crate::exhaustion::{repeated, resize};
use crate::lane::element::Loaded;
use crate::lane::scalar::{Lanes, Scalar};
use crate::lane::strip::compute;
use crate::lane::{self, Class, Constant};
use crate::simd::lines::Lines;

/// A tree's compiled epilogue, with the memory of its arguments.
pub(super) struct BoundStrips<'a, T> {
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
    /// Integers for every column, in 32 bits, for machine code that reads them: by the number of their register.
    pub(super) narrow: Vec<Vec<i32>>,
}

/// Registers of one type.
#[derive(Debug)]
pub(super) struct Bank<U> {
    /// One value each.
    pub(super) singles: Vec<Vec<U>>,
    pub(super) rows: Vec<Vec<U>>,
    pub(super) columns: Vec<Vec<U>>,
    pub(super) blocks: Vec<Vec<U>>,
}

impl<U: Copy> Bank<U> {
    fn new<T>(program: &Program<T>, shape: TileShape, zero: U) -> Self {
        let registers =
            |section: &Section, length: usize| (0..section.registers).map(|_| repeated(zero, length)).collect();
        Self {
            singles: vec![vec![zero]; program.singles.registers],
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

    fn register_mut(&mut self, place: StripPlace) -> Option<&mut Vec<U>> {
        match place {
            StripPlace::Single(i) => Some(&mut self.singles[i]),
            StripPlace::Row(i) => Some(&mut self.rows[i]),
            StripPlace::Column(i) => Some(&mut self.columns[i]),
            StripPlace::Block(i) => Some(&mut self.blocks[i]),
            // No step writes an accumulator.
            StripPlace::Accum(_) => None,
        }
    }

    /// The values of an operand: `length` of them, or one.
    fn operand(&self, place: StripPlace, length: usize) -> &[U] {
        match place {
            StripPlace::Single(i) => &self.singles[i],
            StripPlace::Row(i) => &self.rows[i][..length],
            StripPlace::Column(i) => &self.columns[i][..length],
            StripPlace::Block(i) => &self.blocks[i][..length],
            // Accumulators are in no bank.
            StripPlace::Accum(_) => &[],
        }
    }

    /// Takes a register out to write it: the result of a step is never an operand of the same step.
    fn take(&mut self, place: StripPlace) -> Vec<U> {
        self.register_mut(place).map(take).unwrap_or_default()
    }

    fn put(&mut self, place: StripPlace, values: Vec<U>) {
        if let Some(register) = self.register_mut(place) {
            *register = values;
        }
    }

    /// Repeats a single value, or in a block also a row vector or a column vector.
    fn spread(&mut self, to: StripPlace, x: StripPlace, over: &Over<'_>) {
        let mut result = self.take(to);
        match (x, over) {
            (StripPlace::Single(i), _) => result.fill(self.singles[i][0]),
            (StripPlace::Row(i), Over::Block(block)) => {
                let rows = result.chunks_exact_mut(block.width).take(block.rows);
                rows.for_each(|row| row.copy_from_slice(&self.rows[i][..block.width]));
            }
            (StripPlace::Column(i), Over::Block(block)) => {
                let rows = result.chunks_exact_mut(block.width).take(block.rows);
                rows.zip(&self.columns[i][block.first..]).for_each(|(row, &value)| row.fill(value));
            }
            _ => debug_assert!(false, "{x:?} has the extent of {to:?} already"),
        }
        self.put(to, result);
    }
}

impl<T: Arithmetic> Frame<T> {
    pub(super) fn new(program: &Program<T>, shape: TileShape) -> Self {
        let mut numbers = Bank::new(program, shape, T::ZERO);
        numbers.singles.iter_mut().zip(&program.constants).for_each(|(single, x)| single[0] = *x);
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
pub(super) struct StripBlock {
    /// The first row, relative to the tile.
    pub(super) first: usize,
    pub(super) rows: usize,
    pub(super) width: usize,
}

impl StripBlock {
    fn len(&self) -> usize {
        self.rows * self.width
    }

    /// The length that arithmetic runs over: whole vectors, so that no loop has a scalar remainder. Elements after
    /// [`StripBlock::len`] are never stored.
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
    Block(&'a StripBlock),
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

    /// The number of elements that are stored.
    fn count(&self, tile: &Tile) -> usize {
        match self {
            Self::Block(block) => block.len(),
            Self::Single | Self::Vector(_) => self.length(tile),
        }
    }
}

impl<T: Arithmetic> BoundStrips<'_, T> {
    /// Runs the epilogue over a tile whose accumulators are in the frame, and gives the tile's partial result of every
    /// reduction. If integers were multiplied, `sums` has the exact accumulators.
    ///
    /// # Safety
    /// The views must reach every element of the tile, and no other thread may write the outputs meanwhile. No two
    /// tiles may share an element of an output. (Vectors and scalars are stored only by the first tile that has them.)
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
        self.spread(&self.program.spread.steps, &StripBlock { first: 0, rows: rows.min(height), width }, frame);
        for first in (0..height).step_by(rows) {
            let block = StripBlock { first, rows: rows.min(height - first), width };
            for step in &self.program.block.steps {
                // SAFETY: the caller's promise.
                unsafe { self.block(step, tile, &block, frame, &sums, &mut partials) };
            }
        }
        partials
    }

    /// Computes what a tile's rows or columns share; `has_rows`: what the columns share is there already.
    ///
    /// # Safety
    /// The conditions of [`run`](Self::run).
    pub(super) unsafe fn vectors(&self, tile: &Tile, frame: &mut Frame<T>, has_rows: bool) {
        let sections = [
            (&self.program.singles, Over::Single),
            (&self.program.rows, Over::Vector(BroadcastClass::RowVector)),
            (&self.program.columns, Over::Vector(BroadcastClass::ColumnVector)),
        ];
        for (section, over) in sections {
            if has_rows && over.class() == BroadcastClass::RowVector {
                continue;
            }
            for step in &section.steps {
                // SAFETY: the caller's promise.
                unsafe { self.step(step, tile, &over, frame) };
            }
        }
    }

    /// Fills block registers with values that are the same for all blocks; `whole` is the largest block.
    pub(super) fn spread(&self, steps: &[StripStep], whole: &StripBlock, frame: &mut Frame<T>) {
        for step in steps {
            if let StripStep::Spread { to, x } = *step {
                frame.spread(to, x, &Over::Block(whole));
            }
        }
    }

    /// The range of a vector's or scalar's values in the tile: the tile's columns or rows.
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

    /// Runs a step over a block.
    ///
    /// # Safety
    /// The conditions of [`BoundStrips::run`].
    pub(super) unsafe fn block<'s>(
        &self,
        step: &StripStep,
        tile: &Tile,
        block: &StripBlock,
        frame: &mut Frame<T>,
        sums: impl Fn(usize) -> &'s [f64],
        partials: &mut [Vec<f64>],
    ) {
        let over = Over::Block(block);
        match *step {
            StripStep::Reduce { reduction, x } => {
                let values = frame.numbers(x.number, &over, block.len());
                let description = &self.program.reductions[reduction];
                reduce::accumulate(description, &mut partials[reduction], values, block.first, block.width);
            }
            StripStep::StoreSums { output, accumulator } => {
                let sums = &sums(accumulator)[block.first * block.width..][..block.len()];
                // SAFETY: the caller's promise.
                unsafe { self.store(&self.outputs[output], tile, &over, sums) };
            }
            // SAFETY: the caller's promise.
            _ => unsafe { self.step(step, tile, &over, frame) },
        }
    }

    /// Runs a step that needs nothing but the frame and the arguments.
    ///
    /// # Safety
    /// The conditions of [`BoundStrips::run`].
    unsafe fn step(&self, step: &StripStep, tile: &Tile, over: &Over<'_>, frame: &mut Frame<T>) {
        match *step {
            StripStep::Spread { to, x } => frame.spread(to, x, over),
            StripStep::Compute(step) => frame.compute(&step, over, over.length(tile)),
            StripStep::Store { output, x } => {
                let (view, length) = (&self.outputs[output], over.count(tile));
                // SAFETY: the caller's promise; no other tile stores these elements.
                unsafe {
                    match over {
                        _ if x.class == Class::I64 => {
                            self.store(view, tile, over, frame.integers.operand(x.number, length));
                        }
                        Over::Block(block) if self.tree.outputs()[output].packed => {
                            self.store_bits(view, tile, block, frame.numbers(x.number, over, length));
                        }
                        _ => self.store(view, tile, over, frame.numbers(x.number, over, length)),
                    }
                }
            }
            StripStep::Load { to, .. }
            | StripStep::Random { to, .. }
            | StripStep::Integer { to, .. }
            | StripStep::Position { to, .. } => {
                // SAFETY: the caller's promise.
                unsafe {
                    if to.class == Class::I64 {
                        let mut values = frame.integers.take(to.number);
                        self.fill(step, tile, over, &mut values);
                        frame.integers.put(to.number, values);
                    } else {
                        let mut values = frame.numbers.take(to.number);
                        match (step, over) {
                            (StripStep::Random { seed, stream, .. }, Over::Block(block)) => {
                                self.random((*seed, *stream), tile, block, &mut values);
                            }
                            (StripStep::Load { parameter, .. }, Over::Block(block))
                                if self.tree.parameter(*parameter).class == ParameterClass::Bits =>
                            {
                                let view = &self.parameters[parameter.index()];
                                Self::load_bits(view, tile, block, &mut values);
                            }
                            _ => self.fill(step, tile, over, &mut values),
                        }
                        frame.numbers.put(to.number, values);
                    }
                }
            }
            // These occur in blocks only.
            StripStep::Reduce { .. } | StripStep::StoreSums { .. } => {}
        }
    }

    /// # Safety
    /// The conditions of [`BoundStrips::run`].
    unsafe fn fill<U: Scalar + Loaded>(&self, step: &StripStep, tile: &Tile, over: &Over<'_>, to: &mut [U]) {
        let integer = |x: usize| U::constant(Constant::Integer(i64::try_from(x).unwrap_or(i64::MAX)));
        match *step {
            // SAFETY: the caller's promise.
            StripStep::Load { parameter, .. } => unsafe {
                Self::load(&self.parameters[parameter.index()], tile, over, to);
            },
            StripStep::Integer { value, .. } => to.fill(U::constant(Constant::Integer(value))),
            StripStep::Position { position, .. } => match position {
                Position::Row => to.iter_mut().zip(tile.rows.clone()).for_each(|(to, row)| *to = integer(row)),
                Position::Column => to.iter_mut().zip(tile.columns.clone()).for_each(|(to, n)| *to = integer(n)),
                Position::Batch => to.fill(integer(tile.batch)),
                Position::Rows => to.fill(integer(self.extents.m)),
                Position::Columns => to.fill(integer(self.extents.n)),
            },
            _ => debug_assert!(false, "{step:?} of {:?}", U::CLASS),
        }
    }

    /// # Safety
    /// The conditions of [`BoundStrips::run`].
    unsafe fn load<U: Loaded>(view: &View, tile: &Tile, over: &Over<'_>, to: &mut [U]) {
        let Over::Block(block) = over else {
            let values = Self::values_of(over.class(), tile);
            for part in view.stretches_of_vector(values.clone()) {
                let from = view.at(tile.batch, part.start, 0);
                let to = &mut to[part.start - values.start..part.end - values.start];
                // SAFETY: the caller's promise.
                unsafe { U::load(view.element, from, view.strides[1], to) };
            }
            return;
        };
        let (first, column) = (tile.rows.start + block.first, tile.columns.start);
        let [_, down, across] = view.strides;
        if across == 1 && down == block.width as isize && view.digits.is_none() {
            // SAFETY: the caller's promise; the rows follow one another without gaps.
            return unsafe { U::load(view.element, view.at(tile.batch, first, column), 1, &mut to[..block.len()]) };
        }
        for (i, row) in to.chunks_exact_mut(block.width).take(block.rows).enumerate() {
            for part in view.stretches(column..column + block.width) {
                let from = view.at(tile.batch, first + i, part.start);
                // SAFETY: the caller's promise.
                unsafe { U::load(view.element, from, across, &mut row[part.start - column..part.end - column]) };
            }
        }
    }

    /// # Safety
    /// The conditions of [`BoundStrips::run`].
    unsafe fn store<U: Loaded>(&self, view: &View, tile: &Tile, over: &Over<'_>, from: &[U]) {
        if !Self::stores(view, over.class(), tile) {
            return;
        }
        let Over::Block(block) = over else {
            let values = Self::values_of(over.class(), tile);
            for part in view.stretches_of_vector(values.clone()) {
                let to = view.at(tile.batch, part.start, 0);
                let from = &from[part.start - values.start..part.end - values.start];
                // SAFETY: the caller's promise; no other tile stores these elements.
                unsafe { U::store(view.element, from, to, view.strides[1]) };
            }
            return;
        };
        let (first, column) = (tile.rows.start + block.first, tile.columns.start);
        for (i, row) in from.chunks_exact(block.width).enumerate() {
            for part in view.stretches(column..column + block.width) {
                let to = view.at(tile.batch, first + i, part.start);
                // SAFETY: the caller's promise.
                unsafe { U::store(view.element, &row[part.start - column..part.end - column], to, view.strides[2]) };
            }
        }
    }
}

impl<T: Arithmetic> Frame<T> {
    /// Numbers of an operand: `length` of them, or one.
    fn numbers(&self, place: StripPlace, over: &Over<'_>, length: usize) -> &[T] {
        match (place, over) {
            (StripPlace::Accum(i), Over::Block(block)) => &self.accums[i][block.first * block.width..][..length],
            _ => self.numbers.operand(place, length),
        }
    }

    fn spread(&mut self, to: Register, x: Register, over: &Over<'_>) {
        if to.class == Class::I64 {
            self.integers.spread(to.number, x.number, over);
        } else {
            self.numbers.spread(to.number, x.number, over);
        }
    }

    fn compute(&mut self, step: &lane::LaneStep<StripPlace>, over: &Over<'_>, length: usize) {
        let to = step.to.number;
        if step.to.class == Class::I64 {
            let mut values = self.integers.take(to);
            self.compute_to(step, over, &mut values[..length]);
            self.integers.put(to, values);
        } else {
            let mut values = self.numbers.take(to);
            self.compute_to(step, over, &mut values[..length]);
            self.numbers.put(to, values);
        }
    }

    fn compute_to<U: Scalar>(&self, step: &lane::LaneStep<StripPlace>, over: &Over<'_>, to: &mut [U]) {
        let length = to.len();
        let operand = |x: &Register| match x.class {
            Class::I64 => i64::lanes(self.integers.operand(x.number, length)),
            _ => T::lanes(self.numbers(x.number, over, length)),
        };
        let operands: SmallVec<[Lanes<'_>; 3]> = step.operands().iter().map(operand).collect();
        let done = compute(step.operation, U::lanes_mut(to), &operands);
        debug_assert!(done.is_ok(), "epilogues divide no integers");
    }
}
