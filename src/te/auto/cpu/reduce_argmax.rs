//! Argmax and argmin: finds the place of the largest or the smallest of neighbouring elements.
//!
//! If two pairs of place and value are compared, one always wins, so every order of combination gives the same result.
//! Vector code finds the block with the extreme value, by [comparisons alone](super::fold_by_comparison) if no element is NaN.
//! Only this block is then searched for the place.

use half::{bf16, f16};

use super::compile::ReductionCode;
use super::elements::{Affine, Elements};
use super::fold_by_comparison::Compared;
use super::registers::{RegisterLane, Registers};
use crate::ElementType;
use crate::lane::{Class, Register};
use crate::simd::convert::Widen;
use crate::simd::{Vectorised, dispatch};
use crate::te::auto::pattern::fused::Pass;
use crate::te::expr::define::reducer::extreme;
use crate::te::expr::expression::Expr;

/// The number of elements whose extremes are found side by side.
const HELD: usize = 32;
/// The number of rows in a block. Combining a block's lanes takes as long as some twenty rows. The block that is
/// searched for the place is in the first-level cache.
const ROWS: usize = 64;

/// A reduction that is a search for the extreme's place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extreme {
    largest: bool,
    from: Affine,
    /// The place of the first element.
    least: i64,
    /// The registers of the place and the value.
    place: Register,
    value: Register,
}

impl Extreme {
    /// The search, if the reduction is one: of pairs of an element and its place along the only loop.
    pub(super) fn of(pass: &Pass, code: &ReductionCode, elements: &Elements) -> Option<Self> {
        let (&[place, value], &[from_axis, from_memory]) = (code.left.as_slice(), code.source.1.as_slice()) else {
            return None;
        };
        if !code.source.0.is_empty() || code.condition.is_some() || code.init.is_some() || place.class != Class::I32 {
            return None;
        }
        let all = |vars: &[crate::te::expr::var::Var]| vars.iter().map(|var| Expr::from(*var)).collect::<Vec<_>>();
        let (left, right) = (all(&pass.left), all(&pass.right));
        let largest = [true, false].into_iter().find(|largest| extreme(*largest, &left, &right) == pass.result)?;
        let (axis, least) = elements.axis(from_axis)?;
        let from = elements.affine(from_memory)?;
        let [inner] = &*elements.inner else { return None };
        let held = match value.class {
            Class::F32 => matches!(from.element, ElementType::F32 | ElementType::F16 | ElementType::BF16),
            Class::F64 => from.element == ElementType::F64,
            Class::I32 => matches!(from.element, ElementType::I32 | ElementType::I8 | ElementType::U8),
            Class::I64 => from.element == ElementType::I64,
        };
        let suits = held && inner.axis == Some(axis) && inner.reads[from.place] == 1;
        suits.then_some(Self { largest, from, least, place, value })
    }

    /// Adapts the addresses after the arguments have moved, each by some bytes.
    pub(super) fn moved(&mut self, by: &[i64]) {
        self.from.moved(by);
    }

    /// The number of the read.
    pub(super) const fn read(&self) -> usize {
        self.from.place
    }

    /// Combines a lane of the total with some neighbouring elements. The first of them is `offset` elements after the
    /// first of all, and has the number `first` in its row.
    ///
    /// # Safety
    /// The elements must be readable and aligned, and nobody else may write them during the call.
    pub(super) unsafe fn add(&self, registers: &mut Registers, lane: usize, offset: i64, first: i64, count: usize) {
        let address = self.from.address.wrapping_add_signed(offset * self.from.element.size() as i64);
        let place = (self.least + first) as i32;
        // SAFETY: the caller's promise, passed on.
        unsafe {
            match self.from.element {
                ElementType::F64 => self.search::<f64, f64>(registers, lane, address, place, count),
                ElementType::F32 => self.search::<f32, f32>(registers, lane, address, place, count),
                ElementType::F16 => self.search::<f16, f32>(registers, lane, address, place, count),
                ElementType::BF16 => self.search::<bf16, f32>(registers, lane, address, place, count),
                ElementType::I64 => self.search::<i64, i64>(registers, lane, address, place, count),
                ElementType::I32 => self.search::<i32, i32>(registers, lane, address, place, count),
                ElementType::I8 => self.search::<i8, i32>(registers, lane, address, place, count),
                _ => self.search::<u8, i32>(registers, lane, address, place, count),
            }
        }
    }

    /// # Safety
    /// The conditions of [`Extreme::add`]; the elements must be of type `S`.
    unsafe fn search<S: Widen<T> + Compared<T>, T: RegisterLane>(
        &self,
        registers: &mut Registers,
        lane: usize,
        address: u64,
        first: i32,
        count: usize,
    ) {
        let best = (registers.get::<i32>(self.place)[lane], registers.get::<T>(self.value)[lane]);
        // SAFETY: the caller's promise.
        let elements = unsafe { std::slice::from_raw_parts(address as *const S, count) };
        let (place, value) = if self.largest {
            dispatch(Search { elements, first, best, largest: true, ahead: |x: T, y: T| x > y })
        } else {
            dispatch(Search { elements, first, best, largest: false, ahead: |x: T, y: T| x < y })
        };
        registers.get_mut::<i32>(self.place)[lane] = place;
        registers.get_mut::<T>(self.value)[lane] = value;
    }
}

struct Search<'a, S, T, F> {
    elements: &'a [S],
    /// The place of the first element.
    first: i32,
    best: (i32, T),
    largest: bool,
    /// Tells whether one number is better than another.
    ahead: F,
}

/// Whether it is not a number.
#[allow(clippy::eq_op, reason = "only a NaN is not equal to itself")]
#[inline(always)]
fn is_nan<T: PartialEq + Copy>(x: T) -> bool {
    x != x
}

impl<S: Widen<T> + Compared<T>, T: RegisterLane, F: Fn(T, T) -> bool> Search<'_, S, T, F> {
    /// The better one of a pair that was found and another pair.
    #[inline(always)]
    fn better(&self, (i, u): (i32, T), (j, v): (i32, T)) -> (i32, T) {
        let (nan, other) = (is_nan(u), is_nan(v));
        let same = u == v || (nan && other);
        if (self.ahead)(u, v) || (nan && !other) || (same && i < j) { (i, u) } else { (j, v) }
    }

    /// The better of two values; NaN if one is NaN.
    #[inline(always)]
    fn pick(&self, held: T, x: T) -> T {
        if (self.ahead)(x, held) | is_nan(x) { x } else { held }
    }

    /// The best value of a block.
    ///
    /// # Safety
    /// `FMA` must be what [`Vectorised::run`] was given.
    #[inline(always)]
    unsafe fn of_block<const FMA: bool>(&self, rows: &[[S; HELD]]) -> T {
        // SAFETY: the caller's promise.
        if let Some(value) = unsafe { <S as Compared<T>>::of_rows::<FMA, HELD>(self.largest, rows) } {
            return value;
        }
        // SAFETY: the caller's promise.
        let mut held = unsafe { S::widen_row::<FMA, HELD>(&rows[0]) };
        for row in &rows[1..] {
            // SAFETY: the caller's promise.
            let row = unsafe { S::widen_row::<FMA, HELD>(row) };
            for (held, x) in held.iter_mut().zip(&row) {
                *held = self.pick(*held, *x);
            }
        }
        let mut width = HELD;
        while width > 1 {
            width /= 2;
            let (left, right) = held.split_at_mut(width);
            for (held, x) in left.iter_mut().zip(right) {
                *held = self.pick(*held, *x);
            }
        }
        held[0]
    }

    /// The number of the first element with a value, or of the first NaN if the value is NaN.
    #[inline(always)]
    fn position(rows: &[[S; HELD]], value: T) -> usize {
        // Two loops, each with one comparison: with both in one, a search takes twice the time.
        if is_nan(value) { Self::first(rows, is_nan) } else { Self::first(rows, |x| x == value) }
    }

    /// The number of the first element for which `is` holds.
    #[inline(always)]
    fn first(rows: &[[S; HELD]], is: impl Fn(T) -> bool) -> usize {
        let has = |row: &[S; HELD]| row.iter().fold(0, |any, x| any | u32::from(is(x.widen()))) != 0;
        let row = rows.iter().position(has).unwrap_or(0);
        row * HELD + rows[row].iter().position(|x| is(x.widen())).unwrap_or(0)
    }
}

impl<S: Widen<T> + Compared<T>, T: RegisterLane, F: Fn(T, T) -> bool> Vectorised for Search<'_, S, T, F> {
    type Output = (i32, T);

    #[inline(always)]
    fn run<const FMA: bool>(self) -> (i32, T) {
        let (rows, rest) = self.elements.as_chunks::<HELD>();
        let mut best = self.best;
        // The best block so far, and its value.
        let mut found: Option<(usize, T)> = None;
        for (number, block) in rows.chunks(ROWS).enumerate() {
            // SAFETY: `FMA` is what this function was given.
            let value = unsafe { self.of_block::<FMA>(block) };
            let wins = found.is_none_or(|(_, held)| (self.ahead)(value, held) || (is_nan(value) && !is_nan(held)));
            if wins {
                found = Some((number * ROWS, value));
            }
        }
        if let Some((row, value)) = found {
            let block = &rows[row..(row + ROWS).min(rows.len())];
            let place = row * HELD + Self::position(block, value);
            best = self.better(best, (self.first.wrapping_add(place as i32), rows[place / HELD][place % HELD].widen()));
        }
        for (i, x) in rest.iter().enumerate() {
            let place = (rows.len() * HELD + i) as i32;
            best = self.better(best, (self.first.wrapping_add(place), x.widen()));
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result by the reducer's definition, one element after another.
    fn want(values: &[f32], largest: bool, best: (i32, f32)) -> (i32, f32) {
        values.iter().enumerate().fold(best, |(i, u), (j, v)| {
            let ahead = if largest { u > *v } else { u < *v };
            let left =
                ahead || (u.is_nan() && !v.is_nan()) || ((u == *v || (u.is_nan() && v.is_nan())) && i < j as i32);
            if left { (i, u) } else { (j as i32, *v) }
        })
    }

    #[test]
    fn the_first_of_the_best_is_found() {
        for count in [0, 1, 31, 32, 33, 256, 600, 1025, 2047, 2048, 2049, 4500] {
            for case in 0..40u32 {
                let bits = |i: u32| (i.wrapping_mul(2_654_435_761).wrapping_add(case * 977)) >> 7;
                let mut values: Vec<f32> = (0..count).map(|i| (bits(i) % 50) as f32 - 25.0).collect();
                for (kind, odd) in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0].into_iter().enumerate() {
                    if case as usize % 8 > kind && count > 0 {
                        values[bits(case + kind as u32) as usize % count as usize] = odd;
                    }
                }
                if case == 39 {
                    values.fill(f32::NEG_INFINITY);
                }
                for largest in [true, false] {
                    let worst = if largest { f32::NEG_INFINITY } else { f32::INFINITY };
                    let best = (i32::MAX, worst);
                    let search = |ahead: fn(f32, f32) -> bool| {
                        dispatch(Search { elements: values.as_slice(), first: 0, best, largest, ahead })
                    };
                    let got = if largest { search(|x, y| x > y) } else { search(|x, y| x < y) };
                    let want = want(&values, largest, best);
                    assert_eq!((got.0, got.1.to_bits()), (want.0, want.1.to_bits()), "{count} elements, case {case}");
                }
            }
        }
    }
}
