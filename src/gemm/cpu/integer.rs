//! Steps of a strip program that read or compute integers. They have their own 64-bit registers, and wrap. Truth values
//! are the numbers 0 and 1.

use std::mem::take;

use super::element::{Arithmetic, View};
use super::step::{IntegerStep, Place};
use super::strip::{Bank, Bound, Frame, Over};
use super::tile::Tile;
use crate::ElementType;
use crate::evt::{BroadcastClass, Position};
use crate::expr::Op;

impl<U: bytemuck::Zeroable + Copy> Bank<U> {
    /// The values of an operand: `length` of them, or one.
    fn operand(&self, place: Place, length: usize) -> &[U] {
        match place {
            Place::Single(i) => &self.singles[i..=i],
            Place::Row(i) => &self.rows[i][..length],
            Place::Column(i) => &self.columns[i][..length],
            Place::Block(i) => &self.blocks[i][..length],
            // An accumulator is neither an integer nor a truth value.
            Place::Accum(_) => &[],
        }
    }

    /// Takes a register out to write it: the result of a step is never an operand of the same step.
    fn take(&mut self, class: BroadcastClass, i: usize) -> Vec<U> {
        match class {
            BroadcastClass::Scalar => vec![U::zeroed()],
            BroadcastClass::RowVector => take(&mut self.rows[i]),
            BroadcastClass::ColumnVector => take(&mut self.columns[i]),
            BroadcastClass::Tensor => take(&mut self.blocks[i]),
        }
    }

    fn put(&mut self, class: BroadcastClass, i: usize, values: Vec<U>) {
        match class {
            BroadcastClass::Scalar => self.singles[i] = values.first().copied().unwrap_or_else(U::zeroed),
            BroadcastClass::RowVector => self.rows[i] = values,
            BroadcastClass::ColumnVector => self.columns[i] = values,
            BroadcastClass::Tensor => self.blocks[i] = values,
        }
    }
}

impl<T: Arithmetic> Bound<'_, T> {
    /// # Safety
    /// As [`Bound::run`].
    pub(super) unsafe fn integer(&self, step: IntegerStep, tile: &Tile, frame: &mut Frame<T>, over: &Over<'_>) {
        let (class, length) = (over.class(), over.length(tile));
        let integers = &mut frame.integers;
        match step {
            IntegerStep::Compare { to, op, x, y } => {
                let mut result = frame.numbers.take(class, to);
                let (x, y) = (integers.operand(x, length), integers.operand(y, length));
                let truth = |holds: bool| if holds { T::ONE } else { T::ZERO };
                match op {
                    Op::Lt => zip(&mut result[..length], x, y, |x, y| truth(x < y)),
                    Op::Le => zip(&mut result[..length], x, y, |x, y| truth(x <= y)),
                    Op::Gt => zip(&mut result[..length], x, y, |x, y| truth(x > y)),
                    Op::Ge => zip(&mut result[..length], x, y, |x, y| truth(x >= y)),
                    Op::Eq => zip(&mut result[..length], x, y, |x, y| truth(x == y)),
                    _ => zip(&mut result[..length], x, y, |x, y| truth(x != y)),
                }
                frame.numbers.put(class, to, result);
            }
            IntegerStep::ToReal { to, x } => {
                let mut result = frame.numbers.take(class, to);
                let x = integers.operand(x, length);
                zip(&mut result[..length], x, x, |x, _| T::from_integer(x));
                frame.numbers.put(class, to, result);
            }
            IntegerStep::Store { output, x } => {
                // SAFETY: the caller's promise.
                unsafe { self.store_integers(&self.outputs[output], integers.operand(x, length), tile, over) };
            }
            IntegerStep::Constant { to, value } => {
                let mut result = integers.take(class, to);
                result[..length].fill(value);
                integers.put(class, to, result);
            }
            IntegerStep::Position { to, position } => {
                let mut result = integers.take(class, to);
                self.positions(position, tile, &mut result[..length]);
                integers.put(class, to, result);
            }
            IntegerStep::Load { to, parameter } => {
                let mut result = integers.take(class, to);
                // SAFETY: the caller's promise.
                unsafe { self.load_integers(&self.parameters[parameter.index()], tile, over, &mut result) };
                integers.put(class, to, result);
            }
            IntegerStep::Negate { to, x } => {
                let mut result = integers.take(class, to);
                let x = integers.operand(x, length);
                zip(&mut result[..length], x, x, |x, _| x.wrapping_neg());
                integers.put(class, to, result);
            }
            IntegerStep::Binary { to, op, x, y } => {
                let mut result = integers.take(class, to);
                let (x, y) = (integers.operand(x, length), integers.operand(y, length));
                match op {
                    Op::Add => zip(&mut result[..length], x, y, i64::wrapping_add),
                    Op::Sub => zip(&mut result[..length], x, y, i64::wrapping_sub),
                    Op::Mul => zip(&mut result[..length], x, y, i64::wrapping_mul),
                    Op::Min => zip(&mut result[..length], x, y, i64::min),
                    _ => zip(&mut result[..length], x, y, i64::max),
                }
                integers.put(class, to, result);
            }
            IntegerStep::Select { to, c, x, y } => {
                let mut result = integers.take(class, to);
                let c = frame.numbers.operand(c, length);
                let (x, y) = (integers.operand(x, length), integers.operand(y, length));
                for (i, to) in result[..length].iter_mut().enumerate() {
                    *to = if at(c, i) == T::ZERO { at(y, i) } else { at(x, i) };
                }
                integers.put(class, to, result);
            }
            IntegerStep::Spread { to, x } => {
                if let Over::Block(block) = over {
                    return integers.spread(to, x, block);
                }
                let mut result = integers.take(class, to);
                let x = integers.operand(x, length);
                zip(&mut result[..length], x, x, |x, _| x);
                integers.put(class, to, result);
            }
        }
    }

    fn positions(&self, position: Position, tile: &Tile, to: &mut [i64]) {
        let integer = |x: usize| i64::try_from(x).unwrap_or(i64::MAX);
        match position {
            Position::Row => to.iter_mut().zip(tile.rows.start..).for_each(|(to, row)| *to = integer(row)),
            Position::Column => to.iter_mut().zip(tile.columns.start..).for_each(|(to, column)| *to = integer(column)),
            Position::Batch => to.fill(integer(tile.batch)),
            Position::Rows => to.fill(integer(self.extents.m)),
            Position::Columns => to.fill(integer(self.extents.n)),
        }
    }

    unsafe fn load_integers(&self, view: &View, tile: &Tile, over: &Over<'_>, to: &mut [i64]) {
        let Over::Block(block) = over else {
            let values = Self::values_of(over.class(), tile);
            for part in view.stretches_of_vector(values.clone()) {
                let from = view.at(tile.batch, part.start, 0);
                let to = &mut to[part.start - values.start..part.end - values.start];
                // SAFETY: the caller's promise.
                unsafe { load(view.element, from, view.strides[1], to) };
            }
            return;
        };
        for (i, row) in to.chunks_exact_mut(block.width).take(block.rows).enumerate() {
            let (m, n) = (tile.rows.start + block.first + i, tile.columns.start);
            for part in view.stretches(n..n + block.width) {
                let from = view.at(tile.batch, m, part.start);
                // SAFETY: the caller's promise.
                unsafe { load(view.element, from, view.strides[2], &mut row[part.start - n..part.end - n]) };
            }
        }
    }

    unsafe fn store_integers(&self, view: &View, from: &[i64], tile: &Tile, over: &Over<'_>) {
        if !Self::stores(view, over.class(), tile) {
            return;
        }
        let Over::Block(block) = over else {
            let values = Self::values_of(over.class(), tile);
            for part in view.stretches_of_vector(values.clone()) {
                let to = view.at(tile.batch, part.start, 0);
                let from = &from[part.start - values.start..part.end - values.start];
                // SAFETY: the caller's promise; no other tile stores these elements.
                unsafe { store(view.element, from, to, view.strides[1]) };
            }
            return;
        };
        for (i, row) in from.chunks_exact(block.width).take(block.rows).enumerate() {
            let (m, n) = (tile.rows.start + block.first + i, tile.columns.start);
            for part in view.stretches(n..n + block.width) {
                let to = view.at(tile.batch, m, part.start);
                // SAFETY: the caller's promise.
                unsafe { store(view.element, &row[part.start - n..part.end - n], to, view.strides[2]) };
            }
        }
    }
}

/// The value of element `i`, or the only value.
fn at<U: Copy>(values: &[U], i: usize) -> U {
    if values.len() == 1 { values[0] } else { values[i] }
}

fn zip<U>(to: &mut [U], x: &[i64], y: &[i64], f: impl Fn(i64, i64) -> U) {
    match (x, y) {
        (&[x], &[y]) => to.iter_mut().for_each(|to| *to = f(x, y)),
        (&[x], y) => to.iter_mut().zip(y).for_each(|(to, &y)| *to = f(x, y)),
        (x, &[y]) => to.iter_mut().zip(x).for_each(|(to, &x)| *to = f(x, y)),
        (x, y) => to.iter_mut().zip(x).zip(y).for_each(|((to, &x), &y)| *to = f(x, y)),
    }
}

/// Reads integers, `stride` elements apart.
///
/// # Safety
/// They must be readable, aligned, and written by no thread meanwhile.
pub(super) unsafe fn load(element: ElementType, from: *const u8, stride: isize, to: &mut [i64]) {
    unsafe fn each<S: Copy + Into<i64>>(from: *const u8, stride: isize, to: &mut [i64]) {
        for (i, to) in to.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *to = unsafe { from.cast::<S>().offset(i as isize * stride).read() }.into();
        }
    }
    // SAFETY: the caller's promise.
    unsafe {
        match element {
            ElementType::I64 => each::<i64>(from, stride, to),
            ElementType::I32 => each::<i32>(from, stride, to),
            ElementType::I8 => each::<i8>(from, stride, to),
            ElementType::U8 => each::<u8>(from, stride, to),
            _ => debug_assert!(false, "{element:?} holds no integers"),
        }
    }
}

/// Writes integers, `stride` elements apart. Values beyond the range of the type become its nearest value.
///
/// # Safety
/// They must be writable, aligned, and used by no other thread meanwhile.
unsafe fn store(element: ElementType, from: &[i64], to: *mut u8, stride: isize) {
    unsafe fn each<S>(from: &[i64], to: *mut u8, stride: isize, narrow: impl Fn(i64) -> S) {
        for (i, &from) in from.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { to.cast::<S>().offset(i as isize * stride).write(narrow(from)) };
        }
    }
    // SAFETY: the caller's promise.
    unsafe {
        match element {
            ElementType::I64 => each(from, to, stride, |x| x),
            ElementType::I32 => each(from, to, stride, |x| x.clamp(i32::MIN.into(), i32::MAX.into()) as i32),
            ElementType::I8 => each(from, to, stride, |x| x.clamp(i8::MIN.into(), i8::MAX.into()) as i8),
            ElementType::U8 => each(from, to, stride, |x| x.clamp(0, u8::MAX.into()) as u8),
            _ => debug_assert!(false, "{element:?} holds no integers"),
        }
    }
}
