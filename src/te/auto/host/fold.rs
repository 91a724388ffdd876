//! Combining many values at once: rows of memory into lanes, lanes with each other.
//!
//! Every lane combines its values one after the other, in the order of the rows, so that the bits don't depend on how
//! many rows or lanes vector code takes at a time.

use half::{bf16, f16};

use super::strip::Lane;
use crate::ElementType;
use crate::simd::convert::{bf16_to_f32, f16_to_f32};
use crate::simd::{Float, Vectorised, dispatch};
use crate::te::expr::Binary;

/// Rows that are combined in one pass over the lanes: so many streams the CPU fetches ahead, and the lanes are loaded and
/// stored that many times less.
const ROWS: usize = 4;

/// A combination of two values that vector code does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Combine {
    Add,
    Mul,
    Min,
    Max,
}

impl Combine {
    pub(super) const fn of(op: Binary) -> Option<Self> {
        Some(match op {
            Binary::Add => Self::Add,
            Binary::Mul => Self::Mul,
            Binary::Min => Self::Min,
            Binary::Max => Self::Max,
            _ => return None,
        })
    }
}

/// A type whose values are combined as a strip's steps combine them.
pub(super) trait Combined: Lane {
    fn add(self, y: Self) -> Self;
    fn mul(self, y: Self) -> Self;
    fn least(self, y: Self) -> Self;
    fn greatest(self, y: Self) -> Self;
}

macro_rules! combined {
    ($($ty:ty: $add:expr, $mul:expr, $min:expr, $max:expr;)*) => {$(
        impl Combined for $ty {
            #[inline(always)]
            fn add(self, y: Self) -> Self { ($add)(self, y) }
            #[inline(always)]
            fn mul(self, y: Self) -> Self { ($mul)(self, y) }
            #[inline(always)]
            fn least(self, y: Self) -> Self { ($min)(self, y) }
            #[inline(always)]
            fn greatest(self, y: Self) -> Self { ($max)(self, y) }
        }
    )*};
}

combined! {
    f32: |x, y| x + y, |x, y| x * y, <f32 as Float>::minimum, <f32 as Float>::maximum;
    f64: |x, y| x + y, |x, y| x * y, <f64 as Float>::minimum, <f64 as Float>::maximum;
    i32: i32::wrapping_add, i32::wrapping_mul, Ord::min, Ord::max;
    i64: i64::wrapping_add, i64::wrapping_mul, Ord::min, Ord::max;
}

/// Runs `$call` with `$f` the function of a combination.
macro_rules! by_combine {
    ($op:expr, $T:ty, $f:ident => $call:expr) => {
        match $op {
            Combine::Add => {
                let $f = <$T as Combined>::add;
                $call
            }
            Combine::Mul => {
                let $f = <$T as Combined>::mul;
                $call
            }
            Combine::Min => {
                let $f = <$T as Combined>::least;
                $call
            }
            Combine::Max => {
                let $f = <$T as Combined>::greatest;
                $call
            }
        }
    };
}

/// Rows of elements in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) address: u64,
    pub(super) element: ElementType,
    /// Elements between the lanes' elements of a row.
    pub(super) apart: isize,
    pub(super) count: usize,
    /// Elements between rows.
    pub(super) stride: isize,
}

impl Rows {
    /// Whether wide vectors pay: single elements are loaded as fast by themselves as gathered.
    fn is_vector_code(&self) -> bool {
        let dense = self.stride == 1 && self.apart == self.count as isize && (2..=4).contains(&self.count);
        self.apart == 1 || dense
    }
}

/// A type of lanes that rows of memory can be combined into.
pub(super) trait FromMemory: Combined {
    /// Combines every lane with its elements of all rows.
    ///
    /// # Safety
    /// The rows' elements for as many lanes as there are can be read, are aligned, and are written by nobody meanwhile.
    unsafe fn fold(op: Combine, lanes: &mut [Self], rows: &Rows);
}

macro_rules! from_memory {
    ($($T:ty: { $($element:ident $S:ty: $widen:expr),* };)*) => {$(
        impl FromMemory for $T {
            unsafe fn fold(op: Combine, lanes: &mut [Self], rows: &Rows) {
                match rows.element {
                    $(ElementType::$element => {
                        let from = rows.address as *const $S;
                        by_combine!(op, $T, f => {
                            let fold = FoldRows { lanes, from, rows, widen: $widen, f };
                            if rows.is_vector_code() { dispatch(fold) } else { fold.strided() }
                        });
                    })*
                    other => debug_assert!(false, "{other} is not held as {}", stringify!($T)),
                }
            }
        }
    )*};
}

from_memory! {
    f32: { F32 f32: |x| x, F16 f16: f16_to_f32, BF16 bf16: bf16_to_f32 };
    f64: { F64 f64: |x| x };
    i32: { I32 i32: |x| x };
    i64: { I64 i64: |x| x };
}

struct FoldRows<'a, S, T, W, F> {
    lanes: &'a mut [T],
    from: *const S,
    rows: &'a Rows,
    widen: W,
    f: F,
}

impl<S: Copy, T: Copy, W: Fn(S) -> T, F: Fn(T, T) -> T> FoldRows<'_, S, T, W, F> {
    /// Rows whose lanes are neighbours.
    #[inline(always)]
    fn packed(self) {
        let Self { lanes, from, rows, widen, f } = self;
        let width = lanes.len();
        let row = |number: usize| -> &[S] {
            let start = from.wrapping_offset(number as isize * rows.stride);
            // SAFETY: `fold` was promised that the rows can be read for all lanes.
            unsafe { std::slice::from_raw_parts(start, width) }
        };
        // Rows that follow each other are one stream already: several places in a page at once would hide it.
        let follow = rows.stride == width as isize;
        let together = if follow { 0 } else { rows.count / ROWS * ROWS };
        for first in (0..together).step_by(ROWS) {
            let [a, b, c, d] = [0, 1, 2, 3].map(|i| row(first + i));
            for ((((lane, a), b), c), d) in lanes.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                *lane = f(f(f(f(*lane, widen(*a)), widen(*b)), widen(*c)), widen(*d));
            }
        }
        let mut left = together;
        if !follow && rows.count - left == 3 {
            let [a, b, c] = [0, 1, 2].map(|i| row(left + i));
            for (((lane, a), b), c) in lanes.iter_mut().zip(a).zip(b).zip(c) {
                *lane = f(f(f(*lane, widen(*a)), widen(*b)), widen(*c));
            }
            left += 3;
        }
        for number in left..rows.count {
            for (lane, x) in lanes.iter_mut().zip(row(number)) {
                *lane = f(*lane, widen(*x));
            }
        }
    }

    /// Rows of so many lanes that follow each other: the lanes stay in registers.
    #[inline(always)]
    fn stream<const WIDTH: usize>(self) {
        let Self { lanes, from, rows, widen, f } = self;
        let Some((lanes, _)) = lanes.split_first_chunk_mut::<WIDTH>() else { return };
        // SAFETY: `fold` was promised that all rows can be read, which together are these elements.
        let elements = unsafe { std::slice::from_raw_parts(from, rows.count * WIDTH) };
        let mut held = *lanes;
        for row in elements.chunks_exact(WIDTH) {
            for (held, x) in held.iter_mut().zip(row) {
                *held = f(*held, widen(*x));
            }
        }
        *lanes = held;
    }

    /// Every lane's elements, of all rows, follow each other, and then the next lane's.
    #[inline(always)]
    fn dense<const COUNT: usize>(self) {
        let Self { lanes, from, widen, f, .. } = self;
        // SAFETY: `fold` was promised that all rows can be read, which together are these elements.
        let elements = unsafe { std::slice::from_raw_parts(from, lanes.len() * COUNT) };
        for (lane, own) in lanes.iter_mut().zip(elements.chunks_exact(COUNT)) {
            for x in own {
                *lane = f(*lane, widen(*x));
            }
        }
    }

    /// Lanes any number of elements apart.
    fn strided(self) {
        let Self { lanes, from, rows, widen, f } = self;
        for number in 0..rows.count {
            let start = from.wrapping_offset(number as isize * rows.stride);
            for (i, lane) in lanes.iter_mut().enumerate() {
                // SAFETY: `fold` was promised that the rows can be read for all lanes.
                *lane = f(*lane, widen(unsafe { start.wrapping_offset(i as isize * rows.apart).read() }));
            }
        }
    }
}

impl<S: Copy, T: Copy, W: Fn(S) -> T, F: Fn(T, T) -> T> Vectorised for FoldRows<'_, S, T, W, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let width = self.lanes.len();
        let follow = self.rows.apart == 1 && self.rows.stride == width as isize;
        match self.rows.count {
            _ if follow && width == 64 => self.stream::<64>(),
            _ if follow && width == 32 => self.stream::<32>(),
            _ if follow && width == 16 => self.stream::<16>(),
            _ if self.rows.apart == 1 => self.packed(),
            2 => self.dense::<2>(),
            3 => self.dense::<3>(),
            4 => self.dense::<4>(),
            _ => self.strided(),
        }
    }
}

/// Combines lanes with others.
pub(super) fn fold_block<T: Combined>(op: Combine, lanes: &mut [T], with: &[T]) {
    by_combine!(op, T, f => dispatch(FoldPairs { lanes, with, f }));
}

struct FoldPairs<'a, T, F> {
    lanes: &'a mut [T],
    with: &'a [T],
    f: F,
}

impl<T: Copy, F: Fn(T, T) -> T> Vectorised for FoldPairs<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (lane, x) in self.lanes.iter_mut().zip(self.with) {
            *lane = (self.f)(*lane, *x);
        }
    }
}

/// Combines every `width` lanes to one, neighbours first, and leaves the results in the first lanes. `width` is a power
/// of two.
pub(super) fn fold_lanes<T: Combined>(op: Combine, lanes: &mut [T], width: usize) {
    by_combine!(op, T, f => dispatch(FoldLanes { lanes, width, f }));
}

struct FoldLanes<'a, T, F> {
    lanes: &'a mut [T],
    width: usize,
    f: F,
}

impl<T: Copy, F: Fn(T, T) -> T> Vectorised for FoldLanes<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { lanes, width, f } = self;
        let mut from = lanes.to_vec();
        let (mut count, mut left) = (lanes.len(), width);
        // A level of all at once: neighbours stay neighbours, whosever they are.
        while left > 1 {
            (count, left) = (count / 2, left / 2);
            for (lane, pair) in lanes[..count].iter_mut().zip(from.chunks_exact(2)) {
                *lane = f(pair[0], pair[1]);
            }
            from[..count].copy_from_slice(&lanes[..count]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fold_in_order_whatever_their_number_and_distance() {
        let values: Vec<f32> = (0..4000u16).map(|i| f32::from(i % 37) * 0.37 - 5.0).collect();
        for (lanes, count, apart, stride) in [
            (1, 1, 1, 1),
            (7, 9, 1, 7),
            (64, 11, 1, 70),
            (5, 4, 3, 16),
            (33, 3, 2, 67),
            (9, 5, 40, 1),
            (3, 0, 1, 1),
            (50, 3, 3, 1),
            (41, 2, 2, 1),
            (6, 4, 4, 1),
        ] {
            for op in [Combine::Add, Combine::Mul, Combine::Min, Combine::Max] {
                let mut got: Vec<f32> = (0..lanes).map(|i| i as f32 * 0.5 - 1.0).collect();
                let mut want = got.clone();
                for (lane, want) in want.iter_mut().enumerate() {
                    for row in 0..count {
                        let x = values[row * stride + lane * apart];
                        *want = by_combine!(op, f32, f => f(*want, x));
                    }
                }
                let (address, element) = (values.as_ptr() as u64, ElementType::F32);
                let rows = Rows { address, element, apart: apart as isize, count, stride: stride as isize };
                // SAFETY: the largest index is below the number of values.
                unsafe { f32::fold(op, &mut got, &rows) };
                assert_eq!(got, want, "{op:?} of {count} rows");
            }
        }
    }

    #[test]
    fn lanes_fold_as_a_tree_of_neighbours() {
        let mut lanes: Vec<f32> = (0..24).map(|i| (i as f32).sqrt() * 0.1).collect();
        let tree = |x: &[f32]| ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
        let want: Vec<f32> = lanes.chunks_exact(8).map(tree).collect();
        fold_lanes(Combine::Add, &mut lanes, 8);
        assert_eq!(lanes[..3], want);
    }
}
